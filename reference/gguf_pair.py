"""Writes a tiny checkpoint as a GGUF text model and its mmproj, with prompts and expected ids, for check_llama_node.mjs.

Token texts are replaced by `<tN>` so that prompts and answers of the other engine are token ids beyond doubt; only the
markers it looks up by text keep their names. Everything is f32. Not a converter for real models.
"""
import argparse
import json
import os
import struct

import numpy as np
from PIL import Image

import dump
import resampler
import template
from model import Model, load_picture
from pictures import PICTURES

U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
KEPT = ["<image>", "</image>", "<slice>", "</slice>", "<image_id>", "</image_id>", "<|im_end|>", "<|endoftext|>"]
MEDIA = "<__media__>"


def text(s):
    data = s.encode("utf-8")
    return struct.pack("<Q", len(data)) + data


def field(key, kind, value):
    pack = {U32: lambda v: struct.pack("<I", v), I32: lambda v: struct.pack("<i", v), F32: lambda v: struct.pack("<f", v), BOOL: lambda v: struct.pack("<?", v),
            STRING: text}
    if isinstance(value, list):
        return text(key) + struct.pack("<IIQ", ARRAY, kind, len(value)) + b"".join(pack[kind](v) for v in value)
    return text(key) + struct.pack("<I", kind) + pack[kind](value)


def write_gguf(path, fields, tensors):
    """Version 3, all tensors f32, data aligned to 32 bytes; dimensions are stored fastest first."""
    infos, parts, offset = [], [], 0
    for name, array in tensors.items():
        data = np.ascontiguousarray(array, np.float32).tobytes()
        data += b"\0" * (-len(data) % 32)
        dims = array.shape[::-1]
        infos.append(text(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims) + struct.pack("<IQ", 0, offset))
        parts.append(data)
        offset += len(data)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(fields)) + b"".join(field(*f) for f in fields) + b"".join(infos)
    with open(path, "wb") as f:
        f.write(head + b"\0" * (-len(head) % 32) + b"".join(parts))


def language(model):
    """Qwen2 in that engine wants heads * head_dim = hidden: a zero head whose output nobody reads makes up the difference."""
    c, w = model.config, model.weights
    qwen2 = model.family == "minicpm-v-2_6"
    arch, d = ("qwen2" if qwen2 else "qwen3"), c["head_dim"]
    heads, missing = c["num_attention_heads"], 0
    if qwen2:
        missing = c["hidden_size"] - heads * d
        heads += missing // d
    newline = model.tokenizer.vocab["\u010a"]
    names = [f"<t{i}>" for i in range(c["vocab_size"])]
    kinds = [4] * c["vocab_size"]  # user-defined: recognised in prompts, written in answers
    for token in KEPT:
        names[model.tokenizer.added_id[token]] = token
    names[newline], kinds[newline] = "\u010a", 1
    fields = [("general.architecture", STRING, arch), ("general.name", STRING, model.family),
              ("tokenizer.ggml.model", STRING, "gpt2"), ("tokenizer.ggml.pre", STRING, "qwen2"),
              ("tokenizer.ggml.tokens", STRING, names), ("tokenizer.ggml.token_type", I32, kinds),
              ("tokenizer.ggml.merges", STRING, ["\u0120 t"]),
              ("tokenizer.ggml.eos_token_id", U32, c["eos_token_id"]), ("tokenizer.ggml.padding_token_id", U32, c["bos_token_id"]),
              ("tokenizer.ggml.add_bos_token", BOOL, False)]
    for key, value in (("block_count", c["num_hidden_layers"]), ("context_length", 4096), ("embedding_length", c["hidden_size"]),
                       ("feed_forward_length", c["intermediate_size"]), ("attention.head_count", heads),
                       ("attention.head_count_kv", c["num_key_value_heads"]), ("attention.key_length", d),
                       ("attention.value_length", d), ("rope.dimension_count", d), ("vocab_size", c["vocab_size"])):
        fields.append((f"{arch}.{key}", U32, value))
    fields += [(f"{arch}.rope.freq_base", F32, c["rope_theta"]),
               (f"{arch}.attention.layer_norm_rms_epsilon", F32, c["rms_norm_eps"])]
    tensors = {"token_embd.weight": w["llm.model.embed_tokens.weight"], "output_norm.weight": w["llm.model.norm.weight"],
               "output.weight": w["llm.lm_head.weight"]}
    for i in range(c["num_hidden_layers"]):
        def take(ours, theirs, pad=0, axis=0, layer=i):
            array = w.get(f"llm.model.layers.{layer}.{ours}")
            if array is not None:
                widths = [(0, pad if a == axis else 0) for a in range(array.ndim)]
                tensors[f"blk.{layer}.{theirs}"] = np.pad(array, widths)

        take("input_layernorm.weight", "attn_norm.weight")
        take("post_attention_layernorm.weight", "ffn_norm.weight")
        for name in "qkv":
            for part in ("weight", "bias"):
                take(f"self_attn.{name}_proj.{part}", f"attn_{name}.{part}", missing if name == "q" else 0)
        take("self_attn.o_proj.weight", "attn_output.weight", missing, 1)
        take("self_attn.q_norm.weight", "attn_q_norm.weight")
        take("self_attn.k_norm.weight", "attn_k_norm.weight")
        for name in ("gate", "up", "down"):
            take(f"mlp.{name}_proj.weight", f"ffn_{name}.weight")
    return fields, tensors


def projector(model):
    c, w = model.config, model.weights
    vision, dim = c["vision_config"], c["hidden_size"]
    n_layers = vision["num_hidden_layers"] - c["drop_vision_last_layer"]
    version = {"minicpm-v-2_6": 3, "minicpm-v-4_5": 6, "minicpm-o-4_5": 100045}[model.family]
    fields = [("general.architecture", STRING, "clip"), ("general.name", STRING, model.family),
              ("clip.has_vision_encoder", BOOL, True), ("clip.projector_type", STRING, "resampler"),
              ("clip.minicpmv_version", I32, version), ("clip.minicpmv_query_num", U32, c["query_num"]),
              ("clip.use_gelu", BOOL, True), ("clip.vision.image_mean", F32, [0.5] * 3), ("clip.vision.image_std", F32, [0.5] * 3),
              ("clip.vision.attention.layer_norm_epsilon", F32, 1e-6)]
    for key, value in (("image_size", 448), ("patch_size", 14), ("embedding_length", vision["hidden_size"]),
                       ("feed_forward_length", vision["intermediate_size"]), ("projection_dim", 0), ("block_count", n_layers),
                       ("attention.head_count", vision["num_attention_heads"])):
        fields.append(("clip.vision." + key, U32, value))
    tensors = {"v.patch_embd.weight": w["vpm.embeddings.patch_embedding.weight"], "v.patch_embd.bias": w["vpm.embeddings.patch_embedding.bias"],
               "v.position_embd.weight": w["vpm.embeddings.position_embedding.weight"],
               "resampler.pos_embed_k": resampler.pos2d(70, 70, dim), "resampler.query": w["resampler.query"],
               "resampler.proj.weight": w["resampler.proj"].T, "resampler.kv.weight": w["resampler.kv_proj.weight"]}
    for name, weight, bias in zip("qkv", np.split(w["resampler.attn.in_proj_weight"], 3), np.split(w["resampler.attn.in_proj_bias"], 3)):
        tensors[f"resampler.attn.{name}.weight"], tensors[f"resampler.attn.{name}.bias"] = weight, bias
    for part in ("weight", "bias"):
        tensors[f"v.post_ln.{part}"] = w[f"vpm.post_layernorm.{part}"]
        tensors[f"resampler.attn.out.{part}"] = w[f"resampler.attn.out_proj.{part}"]
        for name in ("q", "kv", "post"):
            tensors[f"resampler.ln_{name}.{part}"] = w[f"resampler.ln_{name}.{part}"]
        for i in range(n_layers):
            ours, theirs = f"vpm.encoder.layers.{i}.", f"v.blk.{i}."
            for a, b in (("layer_norm1", "ln1"), ("layer_norm2", "ln2"), ("self_attn.q_proj", "attn_q"), ("self_attn.k_proj", "attn_k"),
                         ("self_attn.v_proj", "attn_v"), ("self_attn.out_proj", "attn_out"), ("mlp.fc1", "ffn_up"), ("mlp.fc2", "ffn_down")):
                tensors[f"{theirs}{b}.{part}"] = w[f"{ours}{a}.{part}"]
    return fields, tensors


def blocks(path, cols, rows, seed, plain=False):
    """A picture of plain squares, one per slice: every resize filter agrees on it, except beside the seams of the overview.

    plain: one colour all over, so that there is no seam either.
    """
    colours = np.random.default_rng(seed).integers(0, 256, (rows, cols, 3), dtype=np.uint8)
    if plain:
        colours[:] = colours[0, 0]
    Image.fromarray(colours.repeat(448, 0).repeat(448, 1)).save(path)


def expectation(model, question, pictures, folder):
    """The prompt as that engine takes it (it writes the markers around a picture itself), and our 64 greedy ids."""
    known = os.path.join(dump.ROOT, "tests", "data", "golden", "images")
    files = [os.path.join(known if p in PICTURES else folder, f"{p}.png") for p in pictures]
    _, ids, views, grids = model.prompt(question, [load_picture(f) for f in files], None if model.family == "minicpm-v-2_6" else False)
    tokens, margins = model.generate(model.embed(ids, [model.encode_view(v) for v in views]), dump.N_TOKENS)
    added, out = model.tokenizer.added_id, ""
    for i in ids:
        out += "\n" if i == model.tokenizer.vocab["\u010a"] else next((t for t in KEPT if added[t] == i), f"<t{i}>")
    fill = f"<t{added[template.FILL]}>"
    for grid in grids:
        out = out.replace(template.placeholder(0, grid, model.config["query_num"], False).replace(template.FILL, fill), MEDIA, 1)
    return {"question": question, "pictures": pictures, "files": files, "seams": any("blocks" in p for p in pictures), "prompt": out, "newline": model.tokenizer.vocab["\u010a"],
            "n_prompt": len(ids), "token_ids": tokens, "margins": margins}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--family", choices=dump.CASES, required=True)
    parser.add_argument("--out", required=True, help="folder")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    model = Model(os.path.join(dump.ROOT, "models", "tiny", args.family))
    write_gguf(os.path.join(args.out, "model.gguf"), *language(model))
    write_gguf(os.path.join(args.out, "mmproj.gguf"), *projector(model))
    wanted = [("Describe a fast machine.", []), ("What is in the image?", ["square"]), ("Describe the colours.", ["square", "square"]),
              ("Which colour is the largest shape?", ["blocks_3x3"]), ("How many squares are there?", ["blocks_3x2"]),
              ("How many squares are there?", ["blocks_2x4"]), ("How many squares are there?", ["plain_3x3"])]
    blocks(os.path.join(args.out, "plain_3x3.png"), 3, 3, 9, plain=True)
    for cols, rows in ((3, 3), (3, 2), (2, 4)):
        blocks(os.path.join(args.out, f"blocks_{cols}x{rows}.png"), cols, rows, 9)
    with open(os.path.join(args.out, "expected.json"), "w", encoding="utf-8") as f:
        json.dump([expectation(model, *w, os.path.abspath(args.out)) for w in wanted], f)


if __name__ == "__main__":
    main()
