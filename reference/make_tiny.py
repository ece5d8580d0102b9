"""Writes the tiny checkpoints of models/tiny: official layout and tensor names, seeded random weights, awkward shapes.

Every stored value is exact in bf16 and in f16, so one set of expected results serves f32, f16 and bf16 weights.
"""
import argparse
import json
import os

import numpy as np

import weights
from tokenizer import BYTE, PATTERN, SYMBOL, train

SEEDS = {"minicpm-v-2_6": 2603, "minicpm-v-4_5": 4503, "minicpm-o-4_5": 45001}
AUDIO_SEED = 45002
N_MERGES = 370
UNK_AT = 500  # <unk> is an ordinary base entry with this id


# ---------------------------------------------------------------- special tokens
def pair(name):
    return [f"<{name}>", f"</{name}>"]


def special_tokens(family):
    """[(text, is_special)] in id order, from the first id after the base vocabulary."""
    if family == "minicpm-v-2_6":
        names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
        for n in ("image", "ref", "box", "quad", "point", "slice", "image_id"):
            names += pair(n)
        return [(n, True) for n in names + [f"<|reserved_special_token_{i}|>" for i in range(6)]]
    out = [(f"<|{n}|>", True) for n in
           ("endoftext", "im_start", "im_end", "object_ref_start", "object_ref_end", "box_start", "box_end", "quad_start",
            "quad_end", "vision_start", "vision_end", "vision_pad", "image_pad", "video_pad")]
    out += [(n, False) for n in pair("tool_call")]
    out += [(f"<|{n}|>", False) for n in ("fim_prefix", "fim_middle", "fim_suffix", "fim_pad", "repo_name", "file_sep")]
    out += [(n, False) for n in pair("tool_response") + pair("think")]
    for n in ("image", "ref", "box", "quad", "point", "slice", "image_id", "unit"):
        out += [(t, True) for t in pair(n)]
    if family == "minicpm-v-4_5":
        return out + [(f"<|reserved_{i}|>", True) for i in range(63)]
    for n in ("answer", "focus", "line", "perception", "source_image", "image_save_to"):
        out += [(t, True) for t in pair(n)]
    names = ["audio_start", "audio", "audio_end", "spk_bos", "spk", "spk_eos", "tts_bos", "tts_eos", "listen", "speak",
             "interrupt", "vad_start", "vad_end", "emotion_start", "emotion_end", "speed_start", "speed_end", "pitch_start",
             "pitch_end", "turn_bos", "turn_eos", "chunk_eos", "chunk_bos", "chunk_tts_bos", "chunk_tts_eos", "tts_pad"]
    return out + [(f"<|{n}|>", True) for n in names + [f"timbre_{i}" for i in range(7, 32)]]


# ---------------------------------------------------------------- tokenizer files
def save_json(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
        json.dump(value, f, ensure_ascii=False, indent=2)
        f.write("\n")


def write_tokenizer(folder, family):
    """-> (number of vocabulary rows, ids that must never be generated)."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "tiny_corpus.txt"), encoding="utf-8") as f:
        merges = train(f.read(), N_MERGES)
    base = [SYMBOL[b] for b in sorted(range(256), key=lambda b: ord(SYMBOL[b]))] + [a + b for a, b in merges]
    base.insert(UNK_AT, "<unk>")
    vocab = {text: i for i, text in enumerate(base)}
    assert len(vocab) == len(base)
    if family == "minicpm-o-4_5":  # keeps the vocabulary but loses the merges that build Chinese
        merges = [m for m in merges if not any(0x2E80 <= ord(c) for c in
                                               bytes(BYTE[s] for s in m[0] + m[1]).decode("utf-8", "ignore"))]
    specials = special_tokens(family)
    added = {UNK_AT: ("<unk>", True)}
    added.update({len(base) + i: entry for i, entry in enumerate(specials)})

    def flags(special):
        return {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": special}

    save_json(folder, "tokenizer_config.json", {
        "add_bos_token": False, "add_prefix_space": False,
        "added_tokens_decoder": {str(i): {"content": text, **flags(special)} for i, (text, special) in added.items()},
        "additional_special_tokens": [text for text, special in added.values() if special],
        "bos_token": "<|im_start|>", "clean_up_tokenization_spaces": False, "eos_token": "<|im_end|>", "errors": "replace",
        "model_max_length": 1000000000000000019884624838656, "pad_token": "<|endoftext|>", "split_special_tokens": False,
        "tokenizer_class": "MiniCPMVTokenizer" if family == "minicpm-v-2_6" else "MiniCPMVTokenizerFast",
        "unk_token": "<unk>"})
    save_json(folder, "added_tokens.json", {text: i for i, (text, _) in sorted(added.items(), key=lambda e: e[1])
                                            if i != UNK_AT})
    save_json(folder, "vocab.json", vocab)
    with open(os.path.join(folder, "merges.txt"), "w", encoding="utf-8") as f:
        f.write("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
    if family == "minicpm-v-4_5":
        byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
        save_json(folder, "tokenizer.json", {
            "version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [{"id": i, "content": text, **flags(special)} for i, (text, special) in added.items()],
            "normalizer": {"type": "NFC"},
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": PATTERN}, "behavior": "Isolated", "invert": False}, byte_level]},
            "post_processor": byte_level, "decoder": byte_level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                      "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                      "vocab": vocab, "merges": [list(m) for m in merges]}})
    ids = {text: i for i, (text, _) in added.items()}
    return len(base) + len(specials), ids


# ---------------------------------------------------------------- config files
def write_configs(folder, family, rows, ids):
    """-> config. Keys as in the official files."""
    qwen2, omni = family == "minicpm-v-2_6", family == "minicpm-o-4_5"
    config = {"version": {"minicpm-v-2_6": "2.6", "minicpm-v-4_5": 4.5, "minicpm-o-4_5": "4.5"}[family],
              "architectures": ["MiniCPMO" if omni else "MiniCPMV"], "attention_dropout": 0.0,
              "bos_token_id": ids["<|endoftext|>"], "eos_token_id": ids["<|im_end|>"], "head_dim": 32, "hidden_act": "silu",
              "hidden_size": 256, "initializer_range": 0.02, "intermediate_size": 200,
              "max_position_embeddings": 32768 if qwen2 else 40960, "num_attention_heads": 7 if qwen2 else 8,
              "num_hidden_layers": 3 if qwen2 else 2, "num_key_value_heads": 1 if qwen2 else 2, "rms_norm_eps": 1e-06,
              "rope_theta": 1000000.0 if qwen2 else 1000000, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
              "use_cache": True, "use_sliding_window": False, "vocab_size": rows, "batch_vision_input": True,
              "drop_vision_last_layer": qwen2, "image_size": 448, "model_type": "minicpmo" if omni else "minicpmv",
              "patch_size": 14, "query_num": 64,
              "slice_config": {"max_slice_nums": 9, "patch_size": 14, "model_type": "minicpmv"}, "slice_mode": True,
              "vision_config": {"hidden_size": 144, "image_size": 980, "intermediate_size": 304,
                                "model_type": "siglip_vision_model" if qwen2 else "siglip", "num_attention_heads": 2,
                                "num_hidden_layers": 3, "patch_size": 14}}
    if qwen2:
        config.update({"use_image_id": True, "vision_batch_size": 16, "sliding_window": 131072, "max_window_layers": 3})
    else:
        config.update({"attention_bias": False, "rope_scaling": None, "sliding_window": None, "max_window_layers": 2})
    if family == "minicpm-v-4_5":
        config["batch_3d_resampler"] = True
    if omni:
        config.update({"use_image_id": True, "vision_batch_size": 16, "audio_pool_step": 5, "audio_chunk_length": 1.0,
                       "stream_input": True, "init_vision": True, "init_audio": True, "init_tts": True,
                       "audio_config": {"model_type": "whisper", "activation_function": "gelu", "d_model": 72,
                                        "encoder_layers": 2, "encoder_attention_heads": 3, "encoder_ffn_dim": 200,
                                        "num_mel_bins": 80, "max_source_positions": 1500},
                       "tts_config": {"model_type": "minicpmtts", "hidden_size": 32, "num_hidden_layers": 1}})
    save_json(folder, "config.json", config)
    save_json(folder, "preprocessor_config.json", {
        "image_processor_type": "MiniCPMVImageProcessor", "max_slice_nums": 9, "scale_resolution": 448, "patch_size": 14,
        "use_image_id": True, "image_feature_size": 64, "im_start": "<image>", "im_end": "</image>",
        "slice_start": "<slice>", "slice_end": "</slice>", "unk": "<unk>", "im_id_start": "<image_id>",
        "im_id_end": "</image_id>", "slice_mode": True, "norm_mean": [0.5, 0.5, 0.5], "norm_std": [0.5, 0.5, 0.5],
        "version": 2.6 if qwen2 else 4.5})
    stops = [ids["<|im_end|>"], ids["<|endoftext|>"]]
    generation = {"bos_token_id": ids["<|endoftext|>"], "do_sample": True, "eos_token_id": stops,
                  "pad_token_id": ids["<|endoftext|>"], "temperature": 0.6, "top_k": 20, "top_p": 0.95}
    if qwen2:
        generation.update({"temperature": 0.7, "top_k": 100, "top_p": 0.8, "repetition_penalty": 1.05})
    save_json(folder, "generation_config.json", generation)
    return config


# ---------------------------------------------------------------- weights
def make_weights(family, config, special_ids, seed):
    """name -> float64 array, every value exact in bf16 and f16. Gains are chosen so that attention is neither flat nor a single spike."""
    rng = np.random.default_rng(seed)
    out = {}

    def normal(name, shape, std):
        out[name] = rng.standard_normal(shape) * std

    def linear(name, n_out, n_in, gain=1.0, bias=0.0):
        normal(name + ".weight", (n_out, n_in), gain / np.sqrt(n_in))
        if bias:
            normal(name + ".bias", (n_out,), bias)

    def norm(name, n, scale=1.0, bias=0.0):
        out[name + ".weight"] = scale * rng.uniform(0.7, 1.3, n)
        if bias:
            normal(name + ".bias", (n,), bias)

    e, d, n = config["hidden_size"], config["head_dim"], config["vocab_size"]
    hq, hkv, f = config["num_attention_heads"], config["num_key_value_heads"], config["intermediate_size"]
    qwen2 = config["model_type"] == "minicpmv" and "attention_bias" not in config
    normal("llm.model.embed_tokens.weight", (n, e), 1.0)
    for i in range(config["num_hidden_layers"]):
        p = f"llm.model.layers.{i}."
        norm(p + "input_layernorm", e)
        for name, heads, gain in (("q", hq, 1.6), ("k", hkv, 1.6), ("v", hkv, 1.2)):
            linear(p + f"self_attn.{name}_proj", heads * d, e, gain, 0.3 if qwen2 else 0.0)
        if not qwen2:
            norm(p + "self_attn.q_norm", d, 1.7)
            norm(p + "self_attn.k_norm", d, 1.7)
        linear(p + "self_attn.o_proj", e, hq * d, 2.0)
        norm(p + "post_attention_layernorm", e)
        linear(p + "mlp.gate_proj", f, e, 1.5)
        linear(p + "mlp.up_proj", f, e, 1.5)
        linear(p + "mlp.down_proj", e, f, 1.2)
    norm("llm.model.norm", e)
    normal("llm.lm_head.weight", (n, e), 2.5 / np.sqrt(e))
    out["llm.lm_head.weight"][sorted(special_ids)] *= 0.1  # never the best: nothing stops the answer early

    vision = config["vision_config"]
    dv, fv = vision["hidden_size"], vision["intermediate_size"]
    normal("vpm.embeddings.patch_embedding.weight", (dv, 3, 14, 14), 4.0 / np.sqrt(588))
    normal("vpm.embeddings.patch_embedding.bias", (dv,), 0.2)
    normal("vpm.embeddings.position_embedding.weight", (70 * 70, dv), 0.8)
    for i in range(vision["num_hidden_layers"]):
        p = f"vpm.encoder.layers.{i}."
        norm(p + "layer_norm1", dv, 1.0, 0.1)
        for name, gain in (("q", 1.5), ("k", 1.5), ("v", 1.0), ("out", 0.9)):
            linear(p + f"self_attn.{name}_proj", dv, dv, gain, 0.1)
        norm(p + "layer_norm2", dv, 1.0, 0.1)
        linear(p + "mlp.fc1", fv, dv, 1.5, 0.1)
        linear(p + "mlp.fc2", dv, fv, 1.0, 0.1)
    norm("vpm.post_layernorm", dv, 1.0, 0.1)

    normal("resampler.query", (config["query_num"], e), 1.0)
    normal("resampler.proj", (e, e), 1.0 / np.sqrt(e))
    linear("resampler.kv_proj", e, dv, 1.0)
    normal("resampler.attn.in_proj_weight", (3 * e, e), 1.4 / np.sqrt(e))
    normal("resampler.attn.in_proj_bias", (3 * e,), 0.1)
    linear("resampler.attn.out_proj", e, e, 1.0, 0.1)
    for name in ("ln_q", "ln_kv", "ln_post"):
        norm("resampler." + name, e, 1.0, 0.1)
    if config["model_type"] == "minicpmo":
        rng = np.random.default_rng(AUDIO_SEED)  # its own, so that the towers above do not depend on this one
        audio = config["audio_config"]
        da, fa = audio["d_model"], audio["encoder_ffn_dim"]
        normal("apm.conv1.weight", (da, audio["num_mel_bins"], 3), 6.0 / np.sqrt(3 * audio["num_mel_bins"]))
        normal("apm.conv1.bias", (da,), 0.3)
        normal("apm.conv2.weight", (da, da, 3), 2.5 / np.sqrt(3 * da))
        normal("apm.conv2.bias", (da,), 0.3)
        normal("apm.embed_positions.weight", (audio["max_source_positions"], da), 0.5)
        for i in range(audio["encoder_layers"]):
            p = f"apm.layers.{i}."
            norm(p + "self_attn_layer_norm", da, 1.0, 0.1)
            for name, gain in (("q", 1.5), ("k", 1.5), ("v", 1.0), ("out", 1.2)):
                linear(p + f"self_attn.{name}_proj", da, da, gain, 0.0 if name == "k" else 0.1)
            norm(p + "final_layer_norm", da, 1.0, 0.1)
            linear(p + "fc1", fa, da, 1.5, 0.1)
            linear(p + "fc2", da, fa, 1.0, 0.1)
        norm("apm.layer_norm", da, 1.0, 0.1)
        linear("audio_projection_layer.linear1", e, da, 1.5, 0.1)
        linear("audio_projection_layer.linear2", e, e, 1.5, 0.1)
        normal("tts.emb_text.weight", (16, 32), 1.0)  # a part that a reader must skip
        norm("tts.model.norm", 32)
    return {name: weights.exact_everywhere(value) for name, value in out.items()}


def write_weights(folder, tensors, sharded):
    packed = {name: ("BF16", value) for name, value in tensors.items()}
    if not sharded:
        weights.write(os.path.join(folder, "model.safetensors"), packed, {"format": "pt"})
        return
    names = sorted(packed)
    place = {}
    for k, part in enumerate((names[:len(names) // 2], names[len(names) // 2:])):
        shard = f"model-{k + 1:05d}-of-00002.safetensors"
        weights.write(os.path.join(folder, shard), {name: packed[name] for name in part}, {"format": "pt"})
        place.update(dict.fromkeys(part, shard))
    total = sum(2 * value.size for value in tensors.values())
    save_json(folder, "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": place})


def make(family, root, seed):
    folder = os.path.join(root, family)
    os.makedirs(folder, exist_ok=True)
    rows, ids = write_tokenizer(folder, family)
    config = write_configs(folder, family, rows, ids)
    write_weights(folder, make_weights(family, config, ids.values(), seed), sharded=family == "minicpm-v-4_5")
    return folder


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "models", "tiny"))
    args = parser.parse_args()
    for family, seed in SEEDS.items():
        print(os.path.normpath(make(family, args.out, seed)))


if __name__ == "__main__":
    main()
