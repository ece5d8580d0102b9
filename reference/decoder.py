"""The language model: Qwen2 (biases on q, k, v) and Qwen3 (norms on q and k) are one block; the weights tell which. float64."""
import numpy as np

from siglip import linear, softmax


def rms_norm(x, weight, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def rope(x, positions, theta):
    """x [T, heads, d]: dimension i turns with i + d / 2."""
    half = x.shape[-1] // 2
    angle = positions[:, None, None] * theta ** (-np.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], axis=-1)


def silu(x):
    return x / (1.0 + np.exp(-x))


def forward(x, weights, config, cache=None, tap=lambda name, value, layer=None: None):
    """x [T, E] after the positions already in `cache` -> [T, E] after the final norm. cache: list of (k, v), extended."""
    eps, theta = config["rms_norm_eps"], config["rope_theta"]
    n_q, n_kv = config["num_attention_heads"], config["num_key_value_heads"]
    d = config.get("head_dim") or config["hidden_size"] // n_q
    cache = [] if cache is None else cache
    past = cache[0][0].shape[0] if cache else 0
    positions = past + np.arange(x.shape[0])
    hidden = np.arange(past + x.shape[0])[None, :] > positions[:, None]
    tap("llm.embed", x)
    for i in range(config["num_hidden_layers"]):
        p = f"llm.model.layers.{i}."
        y = rms_norm(x, weights[p + "input_layernorm.weight"], eps)
        q = linear(y, weights, p + "self_attn.q_proj").reshape(-1, n_q, d)
        k = linear(y, weights, p + "self_attn.k_proj").reshape(-1, n_kv, d)
        v = linear(y, weights, p + "self_attn.v_proj").reshape(-1, n_kv, d)
        if p + "self_attn.q_norm.weight" in weights:
            q = rms_norm(q, weights[p + "self_attn.q_norm.weight"], eps)
            k = rms_norm(k, weights[p + "self_attn.k_norm.weight"], eps)
        q, k = rope(q, positions, theta), rope(k, positions, theta)
        if past:
            k, v = np.concatenate([cache[i][0], k]), np.concatenate([cache[i][1], v])
        cache[i:i + 1] = [(k, v)]
        out = np.empty_like(q)
        for h in range(n_q):
            g = h // (n_q // n_kv)
            score = q[:, h] @ k[:, g].T * d ** -0.5
            out[:, h] = softmax(np.where(hidden, -np.inf, score)) @ v[:, g]
        x = x + linear(out.reshape(-1, n_q * d), weights, p + "self_attn.o_proj")
        y = rms_norm(x, weights[p + "post_attention_layernorm.weight"], eps)
        gate = silu(linear(y, weights, p + "mlp.gate_proj"))
        x = x + linear(gate * linear(y, weights, p + "mlp.up_proj"), weights, p + "mlp.down_proj")
        tap("llm.layer", x, i)
    return rms_norm(x, weights["llm.model.norm.weight"], eps)


def logits(x, weights, config):
    """x [T, E] after the final norm -> [T, N]."""
    tied = config.get("tie_word_embeddings", False)
    return x @ weights["llm.model.embed_tokens.weight" if tied else "llm.lm_head.weight"].T
