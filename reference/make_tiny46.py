"""Writes models/tiny/minicpm-v-4_6: official layout and tensor names, seeded random weights, awkward shapes.

Every stored value is exact in bf16 and in f16, as in make_tiny.py, whose writers of files this one uses.
"""
import argparse
import os

import numpy as np

import weights
from make_tiny import N_MERGES, pair, save_json
from tokenizer import PATTERN_MARKS, SYMBOL, train

SEED = 46002


def special_tokens():
    """[(text, is_special)] in id order, from the first id after the base vocabulary."""
    out = [(f"<|{n}|>", True) for n in
           ("endoftext", "im_start", "im_end", "object_ref_start", "object_ref_end", "box_start", "box_end", "quad_start",
            "quad_end", "vision_start", "vision_end", "vision_pad", "image_pad", "video_pad")]
    out += [(n, False) for n in pair("tool_call")]
    out += [(f"<|{n}|>", False) for n in ("fim_prefix", "fim_middle", "fim_suffix", "fim_pad", "repo_name", "file_sep")]
    out += [(n, False) for n in pair("tool_response") + pair("think")]
    out += [(f"<|{n}|>", True) for n in ("audio_start", "audio_end", "tts_pad", "tts_text_bos", "tts_text_eod",
                                         "tts_text_bos_single", "audio_pad")]
    out.append(("<unk>", True))
    for n in ("image", "ref", "box", "quad", "point", "slice", "image_id", "timestamp"):
        out += [(t, True) for t in pair(n)]
    return out


def write_tokenizer(folder):
    """-> (number of vocabulary rows, id of every added token)."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "tiny_corpus.txt"), encoding="utf-8") as f:
        merges = train(f.read(), N_MERGES, PATTERN_MARKS)
    base = [SYMBOL[b] for b in sorted(range(256), key=lambda b: ord(SYMBOL[b]))] + [a + b for a, b in merges]
    vocab = {text: i for i, text in enumerate(base)}
    assert len(vocab) == len(base)
    added = {len(base) + i: entry for i, entry in enumerate(special_tokens())}

    def flags(special):
        return {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": special}

    save_json(folder, "tokenizer_config.json", {
        "add_bos_token": False, "add_prefix_space": False,
        "added_tokens_decoder": {str(i): {"content": text, **flags(special)} for i, (text, special) in added.items()},
        "bos_token": "<|im_start|>", "clean_up_tokenization_spaces": False, "eos_token": "<|im_end|>", "errors": "replace",
        "model_max_length": 262144, "pad_token": "<|endoftext|>", "split_special_tokens": False,
        "tokenizer_class": "Qwen3_5Tokenizer", "unk_token": "<unk>"})
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    save_json(folder, "tokenizer.json", {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": i, "content": text, **flags(special)} for i, (text, special) in added.items()],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": PATTERN_MARKS}, "behavior": "Isolated", "invert": False}, byte_level]},
        "post_processor": byte_level, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                  "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": vocab, "merges": [list(m) for m in merges]}})
    return len(base) + len(added), {text: i for i, (text, _) in added.items()}


def write_configs(folder, rows, ids):
    """-> config. Keys as in the official files."""
    kinds = ["linear_attention", "linear_attention", "full_attention", "linear_attention", "full_attention"]
    text = {"model_type": "qwen3_5_text", "attention_bias": False, "attention_dropout": 0.0, "attn_output_gate": True,
            "head_dim": 24, "hidden_act": "silu", "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 56,
            "layer_types": kinds, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 20, "linear_num_key_heads": 3,
            "linear_num_value_heads": 3, "linear_value_head_dim": 28, "mamba_ssm_dtype": "float32",
            "max_position_embeddings": 262144, "mtp_num_hidden_layers": 1, "num_attention_heads": 4,
            "num_hidden_layers": len(kinds), "num_key_value_heads": 2, "partial_rotary_factor": 0.25, "rms_norm_eps": 1e-06,
            "rope_parameters": {"partial_rotary_factor": 0.25, "rope_theta": 10000000, "rope_type": "default"},
            "tie_word_embeddings": True, "vocab_size": rows}
    config = {"architectures": ["MiniCPMV4_6ForConditionalGeneration"], "model_type": "minicpmv4_6",
              "bos_token_id": None, "eos_token_id": ids["<|endoftext|>"], "pad_token_id": None,
              "drop_vision_last_layer": False, "image_size": 1120, "insert_layer_id": 1, "tie_word_embeddings": True,
              "image_token_id": ids["<|image_pad|>"], "video_token_id": ids["<|video_pad|>"], "text_config": text,
              "vision_config": {"attention_dropout": 0.0, "hidden_act": "gelu_pytorch_tanh", "hidden_size": 48,
                                "image_size": 392, "intermediate_size": 68, "layer_norm_eps": 1e-06,
                                "model_type": "minicpmv4_6_vision", "num_attention_heads": 2, "num_channels": 3,
                                "num_hidden_layers": 4, "patch_size": 14}}
    save_json(folder, "config.json", config)
    save_json(folder, "preprocessor_config.json", {
        "image_processor_type": "MiniCPMV4_6ImageProcessor", "processor_class": "MiniCPMV4_6Processor", "max_slice_nums": 9,
        "scale_resolution": 448, "patch_size": 14, "use_image_id": True, "slice_mode": True,
        "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]})
    save_json(folder, "generation_config.json", {
        "bos_token_id": ids["<|im_start|>"], "do_sample": True, "eos_token_id": [ids["<|endoftext|>"], ids["<|im_end|>"]],
        "repetition_penalty": 1.0, "temperature": 0.7, "top_k": 0, "top_p": 1.0})
    return config


def make_weights(config, special_ids, seed):
    """name -> float64 array, every value exact in bf16 and f16."""
    rng = np.random.default_rng(seed)
    out = {}

    def normal(name, shape, std):
        out[name] = rng.standard_normal(shape) * std

    def linear(name, n_out, n_in, gain=1.0, bias=0.0):
        normal(name + ".weight", (n_out, n_in), gain / np.sqrt(n_in))
        if bias:
            normal(name + ".bias", (n_out,), bias)

    def layer_norm(name, n):
        out[name + ".weight"] = rng.uniform(0.7, 1.3, n)
        normal(name + ".bias", (n,), 0.1)

    def rms(name, n, scale=1.0):
        out[name + ".weight"] = scale * rng.uniform(0.7, 1.3, n) - 1.0  # stored as the difference to one

    t = config["text_config"]
    e, f, d, hq, hkv = (t[k] for k in ("hidden_size", "intermediate_size", "head_dim", "num_attention_heads",
                                       "num_key_value_heads"))
    heads, dk, dv = t["linear_num_value_heads"], t["linear_key_head_dim"], t["linear_value_head_dim"]
    base = "model.language_model."
    normal(base + "embed_tokens.weight", (t["vocab_size"], e), 1.0)
    out[base + "embed_tokens.weight"][sorted(special_ids)] *= 0.1  # never the best: nothing stops the answer early
    for i, kind in enumerate(t["layer_types"]):
        p = f"{base}layers.{i}."
        rms(p + "input_layernorm", e)
        if kind == "linear_attention":
            p += "linear_attn."
            linear(p + "in_proj_qkv", heads * (2 * dk + dv), e, 1.5)
            linear(p + "in_proj_z", heads * dv, e, 1.5)
            linear(p + "in_proj_a", heads, e, 1.0)
            linear(p + "in_proj_b", heads, e, 1.5)
            normal(p + "conv1d.weight", (heads * (2 * dk + dv), 1, t["linear_conv_kernel_dim"]), 0.6)
            out[p + "A_log"] = np.log(rng.uniform(0.02, 1.5, heads))  # some heads forget slowly
            out[p + "dt_bias"] = rng.uniform(-2.0, 0.5, heads)
            out[p + "norm.weight"] = rng.uniform(0.7, 1.3, dv)
            linear(p + "out_proj", e, heads * dv, 2.0)
        else:
            p += "self_attn."
            linear(p + "q_proj", 2 * hq * d, e, 1.6)
            linear(p + "k_proj", hkv * d, e, 1.6)
            linear(p + "v_proj", hkv * d, e, 1.2)
            rms(p + "q_norm", d, 1.7)
            rms(p + "k_norm", d, 1.7)
            linear(p + "o_proj", e, hq * d, 4.0)
        p = f"{base}layers.{i}."
        rms(p + "post_attention_layernorm", e)
        linear(p + "mlp.gate_proj", f, e, 1.5)
        linear(p + "mlp.up_proj", f, e, 1.5)
        linear(p + "mlp.down_proj", e, f, 1.5)
    rms(base + "norm", e)
    # The head is the embedding: signs on the last norm keep a token from answering itself.
    norm = out[base + "norm.weight"]
    out[base + "norm.weight"] = np.where(rng.random(e) < 0.5, norm, -2.0 - norm)

    v = config["vision_config"]
    dv, fv, side = v["hidden_size"], v["intermediate_size"], v["image_size"] // v["patch_size"]
    base = "model.vision_tower."
    normal(base + "embeddings.patch_embedding.weight", (dv, 3, 14, 14), 4.0 / np.sqrt(588))
    normal(base + "embeddings.patch_embedding.bias", (dv,), 0.2)
    normal(base + "embeddings.position_embedding.weight", (side * side, dv), 0.8)

    def attention(p):
        for name, gain in (("q", 1.5), ("k", 1.5), ("v", 1.0), ("out", 0.9)):
            linear(p + f"self_attn.{name}_proj", dv, dv, gain, 0.1)

    for i in range(v["num_hidden_layers"]):
        p = f"{base}encoder.layers.{i}."
        layer_norm(p + "layer_norm1", dv)
        attention(p)
        layer_norm(p + "layer_norm2", dv)
        linear(p + "mlp.fc1", fv, dv, 1.5, 0.1)
        linear(p + "mlp.fc2", dv, fv, 1.0, 0.1)
    layer_norm(base + "post_layernorm", dv)
    p = base + "vit_merger."
    layer_norm(p + "layer_norm1", dv)
    attention(p)
    layer_norm(p + "pre_norm", 4 * dv)
    linear(p + "linear_1", 4 * fv, 4 * dv, 1.5, 0.1)
    linear(p + "linear_2", dv, 4 * fv, 1.5, 0.1)
    p = "model.merger.mlp.0."
    layer_norm(p + "pre_norm", 4 * dv)
    linear(p + "linear_1", 4 * dv, 4 * dv, 1.5, 0.1)
    linear(p + "linear_2", e, 4 * dv, 1.5, 0.1)
    return {name: weights.exact_everywhere(value) for name, value in out.items()}


def make(root, seed=SEED):
    folder = os.path.join(root, "minicpm-v-4_6")
    os.makedirs(folder, exist_ok=True)
    rows, ids = write_tokenizer(folder)
    config = write_configs(folder, rows, ids)
    tensors = make_weights(config, ids.values(), seed)
    weights.write(os.path.join(folder, "model.safetensors"), {n: ("BF16", x) for n, x in tensors.items()}, {"format": "pt"})
    return folder


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "models", "tiny"))
    parser.add_argument("--seed", type=int, default=SEED)
    args = parser.parse_args()
    print(os.path.normpath(make(args.out, args.seed)))


if __name__ == "__main__":
    main()
