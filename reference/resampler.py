"""The resampler: Q learned queries read the patches of one view, or of a group of frames with times. float64. After resampler.py of the models."""
import numpy as np

from siglip import attention, layer_norm

HEAD_DIM = 128


def pos2d(h, w, dim):
    """[h * w, dim]: sin and cos of the column, then sin and cos of the row."""
    omega = 10000.0 ** (-np.arange(dim // 4) / (dim // 4))
    rows, cols = np.repeat(np.arange(h), w)[:, None] * omega, np.tile(np.arange(w), h)[:, None] * omega
    return np.concatenate([np.sin(cols), np.cos(cols), np.sin(rows), np.cos(rows)], axis=1)


def pos_time(t, dim):
    """[dim]: all sines, then all cosines. A still picture (t < 0) has none."""
    if t < 0:
        return np.zeros(dim)
    angle = t * 10000.0 ** (-np.arange(dim // 2) / (dim // 2))
    return np.concatenate([np.sin(angle), np.cos(angle)])


def forward(views, grids, weights, times=None, tap=lambda name, value, i: None):
    """One group: views [P_i, D] each with its grid (h, w) and time -> [Q, E]. A still picture is a group of one."""
    dim = weights["resampler.query"].shape[1]
    times = times or [-1] * len(views)
    values, keys = [], []
    for i, (vit, (h, w), t) in enumerate(zip(views, grids, times)):
        x = layer_norm(vit @ weights["resampler.kv_proj.weight"].T, weights, "resampler.ln_kv")
        tap("resampler.kv", x, i)
        values.append(x)
        keys.append(x + pos2d(h, w, dim) + pos_time(t, dim))
    q = layer_norm(weights["resampler.query"], weights, "resampler.ln_q")
    k, v = np.concatenate(keys), np.concatenate(values)
    (wq, wk, wv) = np.split(weights["resampler.attn.in_proj_weight"], 3)
    (bq, bk, bv) = np.split(weights["resampler.attn.in_proj_bias"], 3)
    y = attention(q @ wq.T + bq, k @ wk.T + bk, v @ wv.T + bv, dim // HEAD_DIM)
    y = y @ weights["resampler.attn.out_proj.weight"].T + weights["resampler.attn.out_proj.bias"]
    y = layer_norm(y, weights, "resampler.ln_post") @ weights["resampler.proj"]
    tap("resampler.out", y, 0)
    return y
