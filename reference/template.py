"""Prompt text: the placeholders of pictures and sounds and the chat turns of V 2.6, V 4.5 and o 4.5. No tools; those are tested against the models' own templates."""

FILL = "<unk>"


def placeholder(index, grid, n_fill=64, use_image_id=True):
    """Text of one picture; grid = (cols, rows), (0, 0) when it has no slices."""
    cols, rows = grid
    text = f"<image_id>{index}</image_id>" if use_image_id else ""
    text += "<image>" + FILL * n_fill + "</image>"
    one = "<slice>" + FILL * n_fill + "</slice>"
    return text + "\n".join(one * cols for _ in range(rows))


def sound_placeholder(n_fill):
    """Text of one clip of o 4.5."""
    return "<|audio_start|>" + FILL * n_fill + "<|audio_end|>"


def chat(family, turns, thinking=None, generate=True, spoken=False):
    """turns: list of (role, list of parts); parts of a turn are joined by one newline. thinking: True, False or None.
    spoken: some part is a sound; the answer then begins where o 4.5 would speak it."""
    text = ""
    if family == "minicpm-v-2_6" and turns[0][0] != "system":
        turns = [("system", ["You are a helpful assistant."])] + turns
    for role, parts in turns:
        text += f"<|im_start|>{role}\n" + "\n".join(parts) + "<|im_end|>\n"
    if not generate:
        return text
    text += "<|im_start|>assistant\n"
    if family != "minicpm-v-2_6":
        if thinking is False:
            text += "<think>\n\n</think>\n\n"
        elif thinking and family == "minicpm-v-4_5":
            text += "<think>\n"
    return text + ("<|tts_bos|>" if spoken else "")
