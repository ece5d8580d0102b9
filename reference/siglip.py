"""The vision tower: patches of one view in, one row per patch out. float64. After modeling_navit_siglip.py."""
import numpy as np

from preprocess import position_rows


def linear(x, weights, name):
    y = x @ weights[name + ".weight"].T
    bias = weights.get(name + ".bias")
    return y if bias is None else y + bias


def layer_norm(x, weights, name, eps=1e-6):
    x = x - x.mean(-1, keepdims=True)
    x = x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    return x * weights[name + ".weight"] + weights[name + ".bias"]


def gelu_tanh(x):
    return 0.5 * x * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x ** 3)))


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def attention(q, k, v, n_heads):
    """q [Tq, heads * d], k and v [Tk, heads * d] -> [Tq, heads * d]; every query sees every key."""
    d = q.shape[1] // n_heads
    out = np.empty_like(q)
    for h in range(n_heads):
        s = slice(h * d, (h + 1) * d)
        out[:, s] = softmax(q[:, s] @ k[:, s].T * d ** -0.5) @ v[:, s]
    return out


def forward(patches, grid, weights, config, tap=lambda name, value, layer=None: None):
    """patches [P, C], grid (h, w) -> [P, D]."""
    vision = config["vision_config"]
    n_layers = vision["num_hidden_layers"] - (1 if config.get("drop_vision_last_layer", True) else 0)
    table = weights["vpm.embeddings.position_embedding.weight"]
    kernel = weights["vpm.embeddings.patch_embedding.weight"]
    x = patches @ kernel.reshape(kernel.shape[0], -1).T + weights["vpm.embeddings.patch_embedding.bias"]
    x = x + table[position_rows(*grid, side=vision["image_size"] // vision["patch_size"])]
    tap("vit.embed", x)
    for i in range(n_layers):
        p = f"vpm.encoder.layers.{i}."
        y = layer_norm(x, weights, p + "layer_norm1")
        q, k, v = (linear(y, weights, p + f"self_attn.{n}_proj") for n in "qkv")
        x = x + linear(attention(q, k, v, vision["num_attention_heads"]), weights, p + "self_attn.out_proj")
        y = layer_norm(x, weights, p + "layer_norm2")
        x = x + linear(gelu_tanh(linear(y, weights, p + "mlp.fc1")), weights, p + "mlp.fc2")
        tap("vit.layer", x, i)
    x = layer_norm(x, weights, "vpm.post_layernorm")
    tap("vit.post_norm", x)
    return x
