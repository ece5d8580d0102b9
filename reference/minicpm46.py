"""MiniCPM-V 4.6 in float64: vision tower with its window merger, final merger, gated-delta and gated-attention language model.

From the published description; checked against transformers' own classes by check_minicpm46.py. The delta rule is the plain
recurrence, one token after the other.
"""
import json
import math
import os

import numpy as np

import preprocess
import preprocess46
import weights as weight_files
from decoder import rope, silu
from siglip import attention, gelu_tanh, layer_norm, linear, softmax
from tokenizer import PATTERN_MARKS, Tokenizer

PAD = "<|image_pad|>"
_erf = np.vectorize(math.erf, otypes=[np.float64])


def no_tap(name, value, layer=None):
    pass


# ---------------------------------------------------------------- vision
def windows(x, h, w):
    """[h * w, D] row-major -> [h * w / 4, 4, D]: windows of 2 x 2 patches row by row, inside one (r0c0, r0c1, r1c0, r1c1)."""
    return x.reshape(h // 2, 2, w // 2, 2, -1).transpose(0, 2, 1, 3, 4).reshape(h * w // 4, 4, -1)


def window_merger(x, h, w, weights, n_heads, prefix="model.vision_tower.vit_merger."):
    """Attention inside each window, then one row from its four: a two-layer network over them, plus their mean."""
    y = windows(layer_norm(x, weights, prefix + "layer_norm1"), h, w)
    q, k, v = (linear(y, weights, prefix + f"self_attn.{n}_proj") for n in "qkv")
    mixed = np.stack([attention(q[i], k[i], v[i], n_heads) for i in range(len(y))])
    x = windows(x, h, w) + linear(mixed, weights, prefix + "self_attn.out_proj")
    y = layer_norm(x.reshape(len(x), -1), weights, prefix + "pre_norm")
    return linear(gelu_tanh(linear(y, weights, prefix + "linear_1")), weights, prefix + "linear_2") + x.mean(1)


def final_merger(x, h, w, weights, prefix="model.merger.mlp.0."):
    y = layer_norm(windows(x, h, w).reshape(h * w // 4, -1), weights, prefix + "pre_norm")
    y = linear(y, weights, prefix + "linear_1")
    return linear(0.5 * y * (1.0 + _erf(y / math.sqrt(2.0))), weights, prefix + "linear_2")


def vision(patches, grid, weights, config, downsample="16x", tap=no_tap):
    """patches [P, C], grid (h, w) -> [P / 16 or P / 4, E]."""
    c = config["vision_config"]
    h, w = grid
    prefix = "model.vision_tower."
    kernel = weights[prefix + "embeddings.patch_embedding.weight"]
    x = patches @ kernel.reshape(kernel.shape[0], -1).T + weights[prefix + "embeddings.patch_embedding.bias"]
    side = c["image_size"] // c["patch_size"]
    x = x + weights[prefix + "embeddings.position_embedding.weight"][preprocess46.position_rows(h, w, side)]
    tap("vit.embed", x)
    for i in range(c["num_hidden_layers"]):
        p = f"{prefix}encoder.layers.{i}."
        y = layer_norm(x, weights, p + "layer_norm1")
        q, k, v = (linear(y, weights, p + f"self_attn.{n}_proj") for n in "qkv")
        x = x + linear(attention(q, k, v, c["num_attention_heads"]), weights, p + "self_attn.out_proj")
        y = layer_norm(x, weights, p + "layer_norm2")
        x = x + linear(gelu_tanh(linear(y, weights, p + "mlp.fc1")), weights, p + "mlp.fc2")
        tap("vit.layer", x, i)
        if downsample == "16x" and i == config["insert_layer_id"]:
            x = window_merger(x, h, w, weights, c["num_attention_heads"])
            h, w = h // 2, w // 2
            tap("vit.window_merger", x)
    x = layer_norm(x, weights, prefix + "post_layernorm")
    tap("vit.post_norm", x)
    x = final_merger(x, h, w, weights)
    tap("merger.out", x)
    return x


# ---------------------------------------------------------------- language
def rms(x, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)


def rms_from_one(x, weights, name, eps=1e-6):
    """The stored weight is the difference to one."""
    return rms(x, eps) * (1.0 + weights[name + ".weight"])


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def delta_layer(x, weights, prefix, c, state):
    """One gated-delta mixer. x [T, E]; state: {"conv": last inputs of the convolution, "delta": [H, dk, dv]}, updated."""
    heads, dk, dv, taps = (c[f"linear_{n}"] for n in ("num_value_heads", "key_head_dim", "value_head_dim", "conv_kernel_dim"))
    u = linear(x, weights, prefix + "in_proj_qkv")
    z = linear(x, weights, prefix + "in_proj_z").reshape(-1, heads, dv)
    beta = sigmoid(linear(x, weights, prefix + "in_proj_b"))
    a = linear(x, weights, prefix + "in_proj_a") + weights[prefix + "dt_bias"]
    g = -np.exp(weights[prefix + "A_log"]) * np.logaddexp(0.0, a)
    if not state:
        state["conv"] = np.zeros((taps - 1, u.shape[1]))
        state["delta"] = np.zeros((heads, dk, dv))
    line = np.concatenate([state["conv"], u])
    state["conv"] = line[len(line) - (taps - 1):]
    kernel = weights[prefix + "conv1d.weight"][:, 0, :]
    mixed = silu(sum(line[j:j + len(u)] * kernel[:, j] for j in range(taps)))
    q = mixed[:, :heads * dk].reshape(-1, heads, dk)
    k = mixed[:, heads * dk:2 * heads * dk].reshape(-1, heads, dk)
    v = mixed[:, 2 * heads * dk:].reshape(-1, heads, dv)
    q = q / np.sqrt((q * q).sum(-1, keepdims=True) + 1e-6) * dk ** -0.5
    k = k / np.sqrt((k * k).sum(-1, keepdims=True) + 1e-6)
    s, out = state["delta"], np.empty_like(v)
    for t in range(len(x)):
        s = s * np.exp(g[t])[:, None, None]
        found = np.einsum("hk,hkv->hv", k[t], s)
        s = s + k[t][:, :, None] * (beta[t][:, None] * (v[t] - found))[:, None, :]
        out[t] = np.einsum("hk,hkv->hv", q[t], s)
    state["delta"] = s
    out = rms(out, c["rms_norm_eps"]) * weights[prefix + "norm.weight"] * silu(z)
    return linear(out.reshape(len(x), heads * dv), weights, prefix + "out_proj")


def attention_layer(x, weights, prefix, c, state):
    """Causal attention with a gate on what each head gives; only the first quarter of a head turns with the position."""
    n_q, n_kv, d = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
    turn = c["rope_parameters"]
    n_turn = int(d * turn["partial_rotary_factor"])
    both = linear(x, weights, prefix + "q_proj").reshape(-1, n_q, 2 * d)
    q, gate = both[..., :d], both[..., d:]
    k = linear(x, weights, prefix + "k_proj").reshape(-1, n_kv, d)
    v = linear(x, weights, prefix + "v_proj").reshape(-1, n_kv, d)
    q = rms_from_one(q, weights, prefix + "q_norm", c["rms_norm_eps"])
    k = rms_from_one(k, weights, prefix + "k_norm", c["rms_norm_eps"])
    past = len(state["k"]) if state else 0
    positions = past + np.arange(len(x))
    q, k = (np.concatenate([rope(y[..., :n_turn], positions, turn["rope_theta"]), y[..., n_turn:]], -1) for y in (q, k))
    if past:
        k, v = np.concatenate([state["k"], k]), np.concatenate([state["v"], v])
    state["k"], state["v"] = k, v
    hidden = np.arange(len(k))[None, :] > positions[:, None]
    out = np.empty_like(q)
    for head in range(n_q):
        group = head // (n_q // n_kv)
        out[:, head] = softmax(np.where(hidden, -np.inf, q[:, head] @ k[:, group].T * d ** -0.5)) @ v[:, group]
    return linear((out * sigmoid(gate)).reshape(len(x), n_q * d), weights, prefix + "o_proj")


def language(x, weights, config, cache, tap=no_tap):
    """x [T, E] after what `cache` (one dictionary a layer, extended) has seen -> [T, E] after the final norm."""
    c = config["text_config"]
    eps = c["rms_norm_eps"]
    tap("llm.embed", x)
    for i, kind in enumerate(c["layer_types"]):
        p = f"model.language_model.layers.{i}."
        if len(cache) == i:
            cache.append({})
        y = rms_from_one(x, weights, p + "input_layernorm", eps)
        if kind == "linear_attention":
            x = x + delta_layer(y, weights, p + "linear_attn.", c, cache[i])
        else:
            x = x + attention_layer(y, weights, p + "self_attn.", c, cache[i])
        y = rms_from_one(x, weights, p + "post_attention_layernorm", eps)
        gate = silu(linear(y, weights, p + "mlp.gate_proj"))
        x = x + linear(gate * linear(y, weights, p + "mlp.up_proj"), weights, p + "mlp.down_proj")
        tap("llm.layer", x, i)
    return rms_from_one(x, weights, "model.language_model.norm", eps)


# ---------------------------------------------------------------- the whole
def placeholder(index, grid, counts, use_image_id=True, pad=PAD):
    """Text of one picture; grid = (cols, rows), (0, 0) when it has no slices; counts: tokens of every view, overview first."""
    cols, rows = grid
    text = f"<image_id>{index}</image_id>" if use_image_id else ""
    text += "<image>" + pad * counts[0] + "</image>"
    slices = ["<slice>" + pad * n + "</slice>" for n in counts[1:]]
    return text + "\n".join("".join(slices[r * cols:(r + 1) * cols]) for r in range(rows))


def chat(turns, thinking=None, generate=True):
    """turns: list of (role, list of parts), no tools: parts joined by one newline, then trimmed."""
    text = "".join(f"<|im_start|>{role}\n" + "\n".join(parts).strip() + "<|im_end|>\n" for role, parts in turns)
    if generate:
        text += "<|im_start|>assistant\n<think>\n" + ("" if thinking else "\n</think>\n\n")
    return text


class Model:
    """Checkpoint folder + pictures + question -> greedy token ids; the interface of model.Model."""

    def __init__(self, folder, downsample="16x"):
        self.family = os.path.basename(os.path.normpath(folder))
        self.downsample = downsample
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
            self.config = json.load(f)
        self.weights = weight_files.read_checkpoint(folder)
        self.tokenizer = Tokenizer.load(folder)
        self.tokenizer.pattern = PATTERN_MARKS
        self.fill_id = self.config["image_token_id"]

    def encode_view(self, view, tap=no_tap):
        """[H, W, 3] u8 -> [P / 16 or P / 4, E]."""
        patches = preprocess.patches_of(view)
        tap("view.pixels", view.reshape(view.shape[0], -1))
        tap("view.patches", patches)
        return vision(patches, preprocess.grid_of(view), self.weights, self.config, self.downsample, tap)

    def prompt(self, question, pictures, thinking=None, max_slices=preprocess.MAX_SLICES):
        """-> (text, token ids, views, slice grids). Pictures come first, then the question."""
        views, grids, parts = [], [], []
        per_row = 4 if self.downsample == "4x" else 16
        for index, pixels in enumerate(pictures):
            cut, grid = preprocess46.cut_views(pixels, max_slices, self.downsample)
            views += cut
            grids.append(grid)
            counts = [math.prod(preprocess.grid_of(view)) // per_row for view in cut]
            parts.append(placeholder(index, grid, counts))
        text = chat([("user", parts + [question])], thinking)
        return text, self.tokenizer.encode(text), views, grids

    def embed(self, ids, visual):
        x = self.weights["model.language_model.embed_tokens.weight"][ids]
        places = [i for i, token in enumerate(ids) if token == self.fill_id]
        assert len(places) == sum(len(v) for v in visual)
        if visual:
            x[places] = np.concatenate(visual)
        return x

    def generate(self, x, n_tokens, tap=no_tap):
        """Greedy ids and the gaps between the best and the second logit. Stop tokens do not stop it."""
        table = self.weights["model.language_model.embed_tokens.weight"]
        cache, ids, margins = [], [], []
        y = language(x, self.weights, self.config, cache, tap)[-1:]
        tap("llm.norm", y)
        while True:
            row = y @ table.T
            if not ids:
                tap("llm.logits", row)
            order = np.argsort(-row[0], kind="stable")
            ids.append(int(order[0]))
            margins.append(float(row[0][order[0]] - row[0][order[1]]))
            if len(ids) == n_tokens:
                return ids, margins
            y = language(table[ids[-1:]], self.weights, self.config, cache)
