"""Writes GGUF files with random weights at real shapes, for timing other engines: a Qwen3 language model, or the vision
tower and resampler of MiniCPM-V 4.5. Every weight is noise of deviation 0.02; answers mean nothing.

    random_gguf.py text OUT --shape 0.6b|8b --format q4_0|q8_0|f16 [--layers N]
    random_gguf.py vision OUT --format q8_0|f16

Header and names of tensors are those of reference/gguf_pair.py. Needs numpy.
"""
import argparse
import os
import struct

import numpy as np

U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
VOCABULARY = 151748
# layers, hidden, heads, key/value heads, head width, feed-forward, tied head
SHAPES = {"0.6b": (28, 1024, 16, 8, 128, 3072, True), "8b": (36, 4096, 32, 8, 128, 12288, False)}
DEVIATION = 0.02


class Format:
    """How a row of n numbers is stored: blocks of `width` numbers, each a binary16 scale and `data` bytes."""

    def __init__(self, code, width, data, step):
        self.code, self.width, self.data, self.step = code, width, data, step

    def row_bytes(self, n):
        return n // self.width * ((2 if self.step else 0) + self.data)

    def fits(self, n):
        return n % self.width == 0

    def rows(self, rng, rows, n):
        if self.step is None:  # binary16 itself
            return (rng.standard_normal((rows, n), np.float32) * DEVIATION).astype(np.float16).tobytes()
        blocks = rows * n // self.width
        out = rng.integers(0, 256, (blocks, 2 + self.data), dtype=np.uint8)
        out[:, :2] = np.frombuffer(np.float16(self.step).tobytes(), np.uint8)
        return out.tobytes()


class SixBits(Format):
    """q6_K: 256 numbers of 6 bits, 16 scales of 8 bits, then the binary16 step of the block."""

    def __init__(self):
        super().__init__(14, 256, 208, DEVIATION / 18.47 / 32)

    def rows(self, rng, rows, n):
        out = rng.integers(0, 256, (rows * n // 256, 210), dtype=np.uint8)
        out[:, 192:208] = 32
        out[:, 208:] = np.frombuffer(np.float16(self.step).tobytes(), np.uint8)
        return out.tobytes()


# Steps that give even integers of 8 and 4 bits the deviation wanted: 256 / sqrt(12) = 73.9, 16 / sqrt(12) = 4.6.
FORMATS = {"f16": Format(1, 1, 2, None), "q4_0": Format(2, 32, 16, DEVIATION / 4.61), "q8_0": Format(8, 32, 32, DEVIATION / 73.9)}
HEADS = {"q4_0": SixBits()}  # that engine's own tool keeps the head of a 4-bit model in 6 bits


def text(s):
    data = s.encode("utf-8")
    return struct.pack("<Q", len(data)) + data


def value(kind, v):
    return text(v) if kind == STRING else struct.pack({U32: "<I", I32: "<i", F32: "<f", BOOL: "<?"}[kind], v)


class Writer:
    """Version 3: fields, descriptions of tensors, data aligned to 32 bytes."""

    def __init__(self):
        self.fields, self.tensors = [], []

    def field(self, key, kind, v):
        if isinstance(v, list):
            self.fields.append(text(key) + struct.pack("<IIQ", ARRAY, kind, len(v)) + b"".join(value(kind, x) for x in v))
        else:
            self.fields.append(text(key) + struct.pack("<I", kind) + value(kind, v))

    def fill(self, name, shape, constant):
        """A small f32 tensor of one value, or of noise when constant is None. shape: slowest first."""
        self.tensors.append((name, shape, None, constant))

    def weight(self, name, rows, columns, form):
        """[rows, columns]; columns that the format cannot hold are kept in f16, as that engine's own tools do."""
        self.tensors.append((name, (rows, columns), form if form.fits(columns) else FORMATS["f16"], None))

    def save(self, path):
        rng = np.random.default_rng(1)
        infos, offset, sizes = [], 0, []
        for name, shape, form, _ in self.tensors:
            size = int(np.prod(shape)) * 4 if form is None else shape[0] * form.row_bytes(shape[1])
            dims = shape[::-1]
            infos.append(text(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims) +
                         struct.pack("<IQ", 0 if form is None else form.code, offset))
            sizes.append(size)
            offset += size + -size % 32
        head = b"GGUF" + struct.pack("<IQQ", 3, len(self.tensors), len(self.fields)) + b"".join(self.fields) + b"".join(infos)
        with open(path, "wb") as f:
            f.write(head + b"\0" * (-len(head) % 32))
            for (name, shape, form, constant), size in zip(self.tensors, sizes):
                start = f.tell()
                if form is None:
                    data = (rng.standard_normal(shape, np.float32) * DEVIATION if constant is None else
                            np.full(shape, constant, np.float32))
                    f.write(data.tobytes())
                else:
                    at_once = max(1, (32 << 20) // form.row_bytes(shape[1]))
                    for first in range(0, shape[0], at_once):
                        f.write(form.rows(rng, min(at_once, shape[0] - first), shape[1]))
                assert f.tell() - start == size, name
                f.write(b"\0" * (-size % 32))


def byte_names():
    """The 256 byte tokens of byte-level BPE, as GPT-2 spells them."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in kept]
    return [chr(b) if b in kept else chr(256 + others.index(b)) for b in range(256)]


def language(shape, name, n_layers):
    form, head = FORMATS[name], HEADS.get(name, FORMATS[name])
    layers, hidden, heads, kv_heads, dim, ffn, tied = SHAPES[shape]
    layers = n_layers or layers
    w = Writer()
    end = VOCABULARY - 1
    markers = ["<image>", "</image>", "<slice>", "</slice>", "<image_id>", "</image_id>", "<|endoftext|>", "<|im_end|>"]
    tokens = byte_names() + [f"w{i}" for i in range(VOCABULARY - 256 - len(markers))] + markers
    for key, kind, v in (
            ("general.architecture", STRING, "qwen3"), ("general.name", STRING, "random " + shape),
            ("tokenizer.ggml.model", STRING, "gpt2"), ("tokenizer.ggml.pre", STRING, "qwen2"),
            ("tokenizer.ggml.tokens", STRING, tokens),
            ("tokenizer.ggml.token_type", I32, [1] * (VOCABULARY - len(markers)) + [3] * len(markers)),
            ("tokenizer.ggml.merges", STRING, ["a b"]), ("tokenizer.ggml.eos_token_id", U32, end),
            ("tokenizer.ggml.padding_token_id", U32, end), ("tokenizer.ggml.add_bos_token", BOOL, False),
            ("qwen3.block_count", U32, layers), ("qwen3.context_length", U32, 40960), ("qwen3.embedding_length", U32, hidden),
            ("qwen3.feed_forward_length", U32, ffn), ("qwen3.attention.head_count", U32, heads),
            ("qwen3.attention.head_count_kv", U32, kv_heads), ("qwen3.attention.key_length", U32, dim),
            ("qwen3.attention.value_length", U32, dim), ("qwen3.vocab_size", U32, VOCABULARY),
            ("qwen3.rope.freq_base", F32, 1e6), ("qwen3.attention.layer_norm_rms_epsilon", F32, 1e-6)):
        w.field(key, kind, v)
    w.weight("token_embd.weight", VOCABULARY, hidden, head if tied else form)
    w.fill("output_norm.weight", (hidden,), 1)
    if not tied:
        w.weight("output.weight", VOCABULARY, hidden, head)
    for i in range(layers):
        b = f"blk.{i}."
        for name, n in (("attn_norm", hidden), ("ffn_norm", hidden), ("attn_q_norm", dim), ("attn_k_norm", dim)):
            w.fill(f"{b}{name}.weight", (n,), 1)
        for name, rows, columns in (("attn_q", heads * dim, hidden), ("attn_k", kv_heads * dim, hidden), ("attn_v", kv_heads * dim, hidden),
                                    ("attn_output", hidden, heads * dim), ("ffn_gate", ffn, hidden), ("ffn_up", ffn, hidden),
                                    ("ffn_down", hidden, ffn)):
            w.weight(f"{b}{name}.weight", rows, columns, form)
    return w


def vision(form, out_width):
    width, ffn, layers, heads, queries = 1152, 4304, 27, 16, 64
    w = Writer()
    for key, kind, v in (
            ("general.architecture", STRING, "clip"), ("general.name", STRING, "random"), ("clip.has_vision_encoder", BOOL, True),
            ("clip.projector_type", STRING, "resampler"), ("clip.minicpmv_version", I32, 6), ("clip.minicpmv_query_num", U32, queries),
            ("clip.use_gelu", BOOL, True), ("clip.vision.image_mean", F32, [0.5] * 3), ("clip.vision.image_std", F32, [0.5] * 3),
            ("clip.vision.attention.layer_norm_epsilon", F32, 1e-6), ("clip.vision.image_size", U32, 448), ("clip.vision.patch_size", U32, 14),
            ("clip.vision.embedding_length", U32, width), ("clip.vision.feed_forward_length", U32, ffn), ("clip.vision.projection_dim", U32, 0),
            ("clip.vision.block_count", U32, layers), ("clip.vision.attention.head_count", U32, heads)):
        w.field(key, kind, v)
    w.fill("v.patch_embd.weight", (width, 3, 14, 14), None)
    w.fill("v.position_embd.weight", (70 * 70, width), None)
    w.fill("resampler.pos_embed_k", (70 * 70, out_width), None)
    w.fill("resampler.query", (queries, out_width), None)
    w.weight("resampler.proj.weight", out_width, out_width, form)
    w.weight("resampler.kv.weight", out_width, width, form)
    w.fill("v.patch_embd.bias", (width,), 0)
    for name in ("q", "k", "v", "out"):
        w.weight(f"resampler.attn.{name}.weight", out_width, out_width, form)
        w.fill(f"resampler.attn.{name}.bias", (out_width,), 0)
    for name, n in (("v.post_ln", width), ("resampler.ln_q", out_width), ("resampler.ln_kv", out_width), ("resampler.ln_post", out_width)):
        w.fill(name + ".weight", (n,), 1)
        w.fill(name + ".bias", (n,), 0)
    for i in range(layers):
        b = f"v.blk.{i}."
        for name in ("ln1", "ln2"):
            w.fill(f"{b}{name}.weight", (width,), 1)
            w.fill(f"{b}{name}.bias", (width,), 0)
        for name, rows, columns in (("attn_q", width, width), ("attn_k", width, width), ("attn_v", width, width), ("attn_out", width, width),
                                    ("ffn_up", ffn, width), ("ffn_down", width, ffn)):
            w.weight(f"{b}{name}.weight", rows, columns, form)
            w.fill(f"{b}{name}.bias", (rows,), 0)
    return w


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("text", "vision"))
    parser.add_argument("out")
    parser.add_argument("--shape", choices=SHAPES, default="0.6b")
    parser.add_argument("--format", choices=FORMATS, default="q4_0")
    parser.add_argument("--layers", type=int, help="fewer layers, for a language model that only stands behind a picture")
    args = parser.parse_args()
    writer = language(args.shape, args.format, args.layers) if args.kind == "text" else vision(FORMATS[args.format], SHAPES["8b"][1])
    writer.save(args.out)
    print(f"{args.out}: {os.path.getsize(args.out) / 1e9:.3f} GB")


if __name__ == "__main__":
    main()
