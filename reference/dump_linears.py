"""Inputs and weights of every Linear of two small published transformers, for measuring what quantisation does to them.

  dump_linears.py minilm  FOLDER OUT.safetensors     all-MiniLM-L6-v2: a folder with config.json and model.safetensors
  dump_linears.py whisper FOLDER OUT.safetensors WAV...   Whisper tiny.en: a folder with a CTranslate2 model.bin

Writes NAME.weight [N, K] and NAME.input [64, K] in float32; build/release/bin/quant_tool reads them. Needs torch and
transformers, and for whisper 16 kHz mono WAV files with speech. The weights stay on the machine that runs this.
"""

import struct
import sys
import wave
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save_file

ROWS = 64
SENTENCES = [
    "The left bearing of conveyor four is worn and should be replaced during the next stop.",
    "A plate with two missing holes passed the gate at noon; the camera saw a dent near the upper edge.",
    "Why does the pump lose pressure when the valve is closed slowly?",
    "Quarterly figures, 3,902.10 EUR, were read from the display without a mistake.",
]


class Recorder:
    """Collects weights and the first ROWS evenly spread input rows of named products."""

    def __init__(self):
        self.tensors = {}

    def add(self, name, weight, x):
        rows = x.reshape(-1, x.shape[-1])
        pick = np.linspace(0, len(rows) - 1, min(ROWS, len(rows))).astype(int)
        self.tensors[name + ".weight"] = np.ascontiguousarray(weight, np.float32)
        self.tensors[name + ".input"] = np.ascontiguousarray(rows[pick], np.float32)


def minilm(folder):
    from transformers import AutoTokenizer, BertModel

    model = BertModel.from_pretrained(folder).eval()
    tokens = AutoTokenizer.from_pretrained(folder)(SENTENCES, return_tensors="pt", padding=True)
    keep = tokens["attention_mask"].bool()
    recorder = Recorder()

    def hook(name):
        def run(module, args, _):
            x = args[0]
            x = x[keep] if x.dim() == 3 else x
            recorder.add(name, module.weight.detach().numpy(), x.detach().numpy())

        return run

    for name, module in model.encoder.named_modules():
        if isinstance(module, torch.nn.Linear):
            module.register_forward_hook(hook(name))
    with torch.no_grad():
        model(**tokens)
    return recorder


def read_ct2(path):
    """Variables of a CTranslate2 model.bin: name -> float32 array (see python/ctranslate2/specs/model_spec.py)."""
    data = Path(path).read_bytes()
    at = 0

    def take(fmt):
        nonlocal at
        values = struct.unpack_from("<" + fmt, data, at)
        at += struct.calcsize("<" + fmt)
        return values[0]

    def text():
        nonlocal at
        n = take("H")
        s = data[at : at + n]
        at += n
        return s.rstrip(b"\0").decode()

    version = take("I")
    text()
    take("I")
    dtypes = {0: np.float32, 1: np.int8, 2: np.int16, 3: np.int32, 4: np.float16}
    variables = {}
    for _ in range(take("I")):
        name = text()
        shape = [take("I") for _ in range(take("B"))]
        dtype = dtypes[take("B")] if version >= 4 else None
        n_bytes = take("I")
        array = np.frombuffer(data, dtype, n_bytes // np.dtype(dtype).itemsize, at).reshape(shape)
        at += n_bytes
        variables[name] = array.astype(np.float32)
    return variables


def layer_norm(x, v, prefix):
    mean = x.mean(-1, keepdims=True)
    var = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(var + 1e-5) * v[prefix + "/gamma"] + v[prefix + "/beta"]


def gelu(x):
    return torch.nn.functional.gelu(torch.from_numpy(np.ascontiguousarray(x))).numpy()


def whisper(folder, clips):
    from transformers import WhisperFeatureExtractor

    v = read_ct2(Path(folder) / "model.bin")
    heads = 6
    recorder = Recorder()
    sound = []
    for clip in clips:
        with wave.open(clip) as w:
            assert w.getframerate() == 16000 and w.getnchannels() == 1, clip
            sound.append(np.frombuffer(w.readframes(w.getnframes()), np.int16) / 32768.0)
    mel = WhisperFeatureExtractor()(np.concatenate(sound)[: 30 * 16000], sampling_rate=16000)["input_features"][0]

    def conv(x, name, stride):
        return torch.nn.functional.conv1d(
            torch.from_numpy(x)[None], torch.from_numpy(v[name + "/weight"]), torch.from_numpy(v[name + "/bias"]),
            stride=stride, padding=1)[0].numpy()

    x = gelu(conv(np.asarray(mel, np.float32), "encoder/conv1", 1))
    x = gelu(conv(x, "encoder/conv2", 2)).T
    x = x + v["encoder/position_encodings/encodings"]

    def linear(name, x):
        recorder.add(name, v[name + "/weight"], x)
        return x @ v[name + "/weight"].T + v[name + "/bias"]

    for i in range(4):
        p = f"encoder/layer_{i}"
        normed = layer_norm(x, v, p + "/self_attention/layer_norm")
        q, k, u = np.split(linear(p + "/self_attention/linear_0", normed), 3, -1)
        out = np.empty_like(q)
        size = q.shape[1] // heads
        for h in range(heads):
            s = slice(h * size, (h + 1) * size)
            score = q[:, s] @ k[:, s].T / np.sqrt(size)
            weight = np.exp(score - score.max(-1, keepdims=True))
            out[:, s] = weight / weight.sum(-1, keepdims=True) @ u[:, s]
        x = x + linear(p + "/self_attention/linear_1", out)
        normed = layer_norm(x, v, p + "/ffn/layer_norm")
        x = x + linear(p + "/ffn/linear_1", gelu(linear(p + "/ffn/linear_0", normed)))
    return recorder


def main():
    if len(sys.argv) < 4 or sys.argv[1] not in ("minilm", "whisper"):
        sys.exit(__doc__)
    recorder = minilm(sys.argv[2]) if sys.argv[1] == "minilm" else whisper(sys.argv[2], sys.argv[4:])
    save_file({k.replace("/", "."): a for k, a in recorder.tensors.items()}, sys.argv[3])
    print(f"{len(recorder.tensors) // 2} products -> {sys.argv[3]}")


if __name__ == "__main__":
    main()
