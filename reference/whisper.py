"""The audio tower: log-mel frames of one piece in, rows of the language model's width out. float64. After modeling_minicpmo.py."""
import math

import numpy as np

from siglip import attention, layer_norm, linear

EPS = 1e-5
erf = np.frompyfunc(math.erf, 1, 1)


def gelu(x):
    return 0.5 * x * (1.0 + erf(x / math.sqrt(2.0)).astype(np.float64))


def convolution(x, weights, name, stride):
    """x [L, C], kernel of 3 frames with one zero frame on both sides -> [(L - 1) // stride + 1, O]."""
    kernel = weights[name + ".weight"]
    padded = np.pad(x, ((1, 1), (0, 0)))
    n = (len(x) - 1) // stride + 1
    out = np.zeros((n, len(kernel))) + weights[name + ".bias"]
    for t in range(3):
        out += padded[t:t + stride * n:stride][:n] @ kernel[:, :, t].T
    return out


def n_rows(n_mel, config, prefix=0, suffix=0):
    """Rows that a piece of n_mel frames becomes."""
    frames = (n_mel - 1) // 2 + 1 - (prefix + 1) // 2 - (suffix + 1) // 2
    return (frames - config["audio_pool_step"]) // config["audio_pool_step"] + 1


def visible(n, config):
    """Keys that each frame sees: its own block of audio_chunk_length seconds and all before it."""
    block = int(config["audio_chunk_length"] * 50)
    return [n if block <= 0 else min((i // block + 1) * block, n) for i in range(n)]


class Cache:
    """Keys and values of what a stream has heard, one pair a layer."""

    def __init__(self, n_layers):
        self.pairs = [(None, None)] * n_layers

    def __len__(self):
        return 0 if self.pairs[0][0] is None else len(self.pairs[0][0])

    def clear(self):
        self.pairs = [(None, None)] * len(self.pairs)

    def extend(self, layer, k, v):
        old_k, old_v = self.pairs[layer]
        if old_k is not None:
            k, v = np.concatenate([old_k, k]), np.concatenate([old_v, v])
        self.pairs[layer] = k, v
        return k, v


def encode(mel, weights, config, tap=lambda name, value, layer=None: None, cache=None, prefix=0, suffix=0, rows_seen=None):
    """mel [L, mels] -> [C, A] after the last norm. With a cache everything before is seen and positions go on from there."""
    audio = config["audio_config"]
    heads = audio["encoder_attention_heads"]
    x = gelu(convolution(mel, weights, "apm.conv1", 1))
    x = gelu(convolution(x, weights, "apm.conv2", 2))
    if cache is not None and len(cache) + len(x) >= audio["max_source_positions"]:
        cache.clear()
    x = x[(prefix + 1) // 2:len(x) - (suffix + 1) // 2]
    tap("aud.conv", x)
    first = 0 if cache is None else len(cache)
    x = x + weights["apm.embed_positions.weight"][first:first + len(x)]
    seen = rows_seen or (visible(len(x), config) if cache is None else [first + len(x)] * len(x))
    for i in range(audio["encoder_layers"]):
        p = f"apm.layers.{i}."
        y = layer_norm(x, weights, p + "self_attn_layer_norm", EPS)
        q, k, v = (linear(y, weights, p + f"self_attn.{n}_proj") for n in "qkv")
        if cache is not None:
            k, v = cache.extend(i, k, v)
        attended = np.concatenate([attention(q[seen.index(n):len(seen) - seen[::-1].index(n)], k[:n], v[:n], heads)
                                   for n in sorted(set(seen))])
        x = x + linear(attended, weights, p + "self_attn.out_proj")
        y = layer_norm(x, weights, p + "final_layer_norm", EPS)
        x = x + linear(gelu(linear(y, weights, p + "fc1")), weights, p + "fc2")
        tap("aud.layer", x, i)
    x = layer_norm(x, weights, "apm.layer_norm", EPS)
    tap("aud.norm", x)
    return x


def project(x, weights, config):
    """[C, A] -> [C // pool step, E]: projected first, averaged then; what is left over at the end is dropped."""
    y = np.maximum(linear(x, weights, "audio_projection_layer.linear1"), 0.0)
    y = linear(y, weights, "audio_projection_layer.linear2")
    step = config["audio_pool_step"]
    n = max((len(y) - step) // step + 1, 0)
    return y[:n * step].reshape(n, step, y.shape[1]).mean(1)


def forward(mel, weights, config, tap=lambda name, value, layer=None: None, cache=None, prefix=0, suffix=0):
    """One piece of at most 30 s, or the next chunk of a stream -> [P, E]."""
    rows = project(encode(mel, weights, config, tap, cache, prefix, suffix), weights, config)
    if len(rows):
        tap("aud.pool", rows)
    return rows
