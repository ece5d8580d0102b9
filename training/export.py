"""Writes the trained model as a checkpoint folder in the official layout (config.json, tokenizer, preprocessor_config.json,
generation_config.json, model.safetensors in bf16) and checks that the reference computes the same from it."""
import argparse
import os
import sys

import numpy as np
import torch

import questions
import views
from model import CONFIG, Inspector

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "reference"))
import make_tiny  # noqa: E402
import weights  # noqa: E402
from tokenizer import BYTE, PATTERN, SYMBOL, Tokenizer, train  # noqa: E402

N_MERGES, UNK_AT = 600, 256
FAMILY = "minicpm-o-4_5"
HERE = os.path.dirname(os.path.abspath(__file__))


def write_tokenizer(folder):
    """A byte-level BPE from our own questions, with the special tokens of o 4.5 -> (rows, id of each special text)."""
    merges = train(questions.corpus(), N_MERGES)
    base = [SYMBOL[b] for b in sorted(range(256), key=lambda b: ord(SYMBOL[b]))]
    seen = set(base)
    for a, b in merges:
        if a + b not in seen:
            base.append(a + b)
            seen.add(a + b)
    base.insert(UNK_AT, "<unk>")
    vocab = {text: i for i, text in enumerate(base)}
    added = {UNK_AT: ("<unk>", True)}
    added.update({len(base) + i: entry for i, entry in enumerate(make_tiny.special_tokens(FAMILY))})

    def flags(special):
        return {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": special}

    save = make_tiny.save_json
    save(folder, "tokenizer_config.json", {
        "add_bos_token": False, "add_prefix_space": False,
        "added_tokens_decoder": {str(i): {"content": text, **flags(special)} for i, (text, special) in added.items()},
        "additional_special_tokens": [text for text, special in added.values() if special],
        "bos_token": "<|im_start|>", "clean_up_tokenization_spaces": False, "eos_token": "<|im_end|>", "errors": "replace",
        "model_max_length": 4096, "pad_token": "<|endoftext|>", "split_special_tokens": False,
        "tokenizer_class": "MiniCPMVTokenizerFast", "unk_token": "<unk>"})
    save(folder, "added_tokens.json", {text: i for i, (text, _) in added.items() if i != UNK_AT})
    save(folder, "vocab.json", vocab)
    with open(os.path.join(folder, "merges.txt"), "w", encoding="utf-8") as f:
        f.write("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    save(folder, "tokenizer.json", {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": i, "content": text, **flags(special)} for i, (text, special) in added.items()],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": PATTERN}, "behavior": "Isolated", "invert": False}, byte_level]},
        "post_processor": byte_level, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "", "end_of_word_suffix": "",
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": False, "vocab": vocab, "merges": [list(m) for m in merges]}})
    return len(base) + len(added) - 1, {text: i for i, (text, _) in added.items()}


def tokenizer(folder=os.path.join(HERE, "..", ".cache", "training", "tokenizer")):
    """The tokenizer, written once."""
    if not os.path.exists(os.path.join(folder, "tokenizer.json")):
        os.makedirs(folder, exist_ok=True)
        write_tokenizer(folder)
    out = Tokenizer.load(folder)
    out.rows = max(out.added) + 1
    return out


def write_configs(folder, rows, ids, c=CONFIG):
    v, a = c["vision"], c["audio"]
    config = {
        "version": "4.5", "architectures": ["MiniCPMO"], "attention_bias": False, "attention_dropout": 0.0,
        "bos_token_id": ids["<|endoftext|>"], "eos_token_id": ids["<|im_end|>"], "head_dim": c["head_dim"], "hidden_act": "silu",
        "hidden_size": c["embed"], "initializer_range": 0.02, "intermediate_size": c["ffn"], "max_position_embeddings": 4096,
        "max_window_layers": c["layers"], "num_attention_heads": c["heads"], "num_hidden_layers": c["layers"],
        "num_key_value_heads": c["kv_heads"], "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": int(c["theta"]),
        "sliding_window": None, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_cache": True, "use_sliding_window": False,
        "vocab_size": rows, "batch_vision_input": True, "drop_vision_last_layer": False, "image_size": views.SCALE, "model_type": "minicpmo",
        "patch_size": views.PATCH, "query_num": c["queries"], "use_image_id": True, "vision_batch_size": 16, "slice_mode": True,
        "slice_config": {"max_slice_nums": views.MAX_SLICES, "patch_size": views.PATCH, "scale_resolution": views.SCALE, "model_type": "minicpmv"},
        "vision_config": {"hidden_size": v["width"], "image_size": views.SIDE * views.PATCH, "intermediate_size": v["ffn"], "model_type": "siglip",
                          "num_attention_heads": v["heads"], "num_hidden_layers": v["layers"], "patch_size": views.PATCH},
        "audio_pool_step": a["pool"], "audio_chunk_length": 1.0, "stream_input": True, "init_vision": True, "init_audio": True, "init_tts": False,
        "audio_config": {"model_type": "whisper", "activation_function": "gelu", "d_model": a["width"], "encoder_layers": a["layers"],
                         "encoder_attention_heads": a["heads"], "encoder_ffn_dim": a["ffn"], "num_mel_bins": a["mels"],
                         "max_source_positions": a["positions"]}}
    make_tiny.save_json(folder, "config.json", config)
    make_tiny.save_json(folder, "preprocessor_config.json", {
        "image_processor_type": "MiniCPMVImageProcessor", "max_slice_nums": views.MAX_SLICES, "scale_resolution": views.SCALE,
        "patch_size": views.PATCH, "use_image_id": True, "image_feature_size": c["queries"], "im_start": "<image>", "im_end": "</image>",
        "slice_start": "<slice>", "slice_end": "</slice>", "unk": "<unk>", "im_id_start": "<image_id>", "im_id_end": "</image_id>",
        "slice_mode": True, "norm_mean": [0.5, 0.5, 0.5], "norm_std": [0.5, 0.5, 0.5], "version": 4.5})
    make_tiny.save_json(folder, "generation_config.json", {
        "bos_token_id": ids["<|endoftext|>"], "do_sample": False, "eos_token_id": [ids["<|im_end|>"], ids["<|endoftext|>"]],
        "pad_token_id": ids["<|endoftext|>"]})
    return config


def export(model, folder):
    os.makedirs(folder, exist_ok=True)
    rows, ids = write_tokenizer(folder)
    config = write_configs(folder, rows, ids)
    tensors = {name: weights.to_bf16(p.detach().cpu().float().numpy()) for name, p in model.named_parameters()}
    make_tiny.write_weights(folder, tensors, sharded=False)
    return config


def check(folder, sets=os.path.join(HERE, "..", "tests", "data", "inspector")):
    """Largest difference between PyTorch and reference/model.py in float64, both from the exported files: what a sliced picture and a
    spoken question become, and all logits of the whole prompt. The prompts must agree token by token."""
    import importlib.util

    import decoder
    import evaluate
    import prompts
    import soundfile

    spec = importlib.util.spec_from_file_location("reference_model", os.path.join(HERE, "..", "reference", "model.py"))
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    views.preprocess.plan_slices.__defaults__ = (views.MAX_SLICES, views.SCALE, views.PATCH)  # its own default is 448
    truth = reference.Model(folder)
    net = Inspector(truth.config["vocab_size"]).double()
    net.load_state_dict({k: torch.tensor(v) for k, v in truth.weights.items()})
    ours = prompts.Prompts()
    worst = 0.0
    for question, picture, sound in (("Where is the defect?", "where_00.jpg", None), (None, "label_01.jpg", "label_01.ogg"), ("有几个孔？", "holes_05.jpg", None)):
        path = os.path.join(sets, "pictures", picture)
        sounds = [soundfile.read(os.path.join(sets, "speech", sound))[0]] if sound else []
        _, ids, cut, _ = truth.prompt(question, [reference.load_picture(path)], thinking=False, sounds=sounds)
        visual = [truth.encode_view(v) for v in cut] + [truth.encode_sound(s) for s in sounds]
        x = truth.embed(ids, visual)
        content = [{"type": "image_url", "image_url": {"url": "pictures/" + picture}}]
        content.append({"type": "audio_url", "audio_url": {"url": "speech/" + sound}} if sound else {"type": "text", "text": question})
        with torch.no_grad():
            mine = evaluate.embed(net, ours, content, sets)
            n = mine.shape[1]
            assert n == len(ids), (n, len(ids))
            y, _ = net.llm(mine, torch.arange(n)[None], torch.ones(n, n, dtype=torch.bool).tril()[None, None])
            logits = net.llm.lm_head(y)[0].numpy()
        rows = np.abs(mine[0].numpy() - x).max()
        difference = np.abs(logits - decoder.logits(decoder.forward(x, truth.weights, truth.config), truth.weights, truth.config)).max()
        print(f"{picture} {sound or question}: {len(cut)} views, {n} tokens; rows differ by {rows:.1e}, logits by {difference:.1e}", flush=True)
        worst = max(worst, rows, difference)
    assert worst < 1e-4
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", help="of train.py; without it the weights are random")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    torch.manual_seed(1)
    net = Inspector(tokenizer().rows)
    if args.checkpoint:
        net.load_state_dict(torch.load(args.checkpoint, map_location="cpu", weights_only=False)["model"])
    export(net, args.out)
    size = os.path.getsize(os.path.join(args.out, "model.safetensors"))
    print(f"{args.out}: {sum(p.numel() for p in net.parameters())} parameters, {size / 1e6:.1f} MB")
    check(args.out)


if __name__ == "__main__":
    main()
