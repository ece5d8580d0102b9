"""The MiniCPM-o 4.5 architecture in small, in PyTorch, with the official tensor names: the same arithmetic as reference/.

Batches hold views of one shape and pictures of one number of views, so nothing is padded but the questions. Not for loading
official checkpoints of other sizes.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn

import views

CONFIG = {"embed": 256, "layers": 4, "heads": 4, "kv_heads": 2, "head_dim": 64, "ffn": 640, "queries": 64, "theta": 1000000.0,
          "vision": {"width": 192, "layers": 6, "heads": 3, "ffn": 512}, "audio": {"width": 192, "layers": 4, "heads": 3, "ffn": 512, "mels": 80, "positions": 1500, "pool": 5, "block": 50}}


def attend(q, k, v, heads, mask=None):
    """q [B, T, heads * d], k and v [B, S, heads * d] -> [B, T, heads * d]."""
    q, k, v = (x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2)


class EncoderLayer(nn.Module):
    """Pre-norm layer of both towers; names differ, so they are given."""

    def __init__(self, width, heads, ffn, names, eps, gelu, key_bias=True):
        super().__init__()
        self.heads, self.gelu, self.names = heads, gelu, names
        norm1, norm2, mlp = names
        self.add_module(norm1, nn.LayerNorm(width, eps))
        self.self_attn = nn.Module()
        for n in ("q_proj", "k_proj", "v_proj", "out_proj"):
            self.self_attn.add_module(n, nn.Linear(width, width, bias=key_bias or n != "k_proj"))
        self.add_module(norm2, nn.LayerNorm(width, eps))
        holder = self if mlp is None else nn.Module()
        holder.fc1, holder.fc2 = nn.Linear(width, ffn), nn.Linear(ffn, width)
        if mlp is not None:
            self.add_module(mlp, holder)

    def forward(self, x, mask=None):
        norm1, norm2, mlp = self.names
        a = self.self_attn
        y = getattr(self, norm1)(x)
        x = x + a.out_proj(attend(a.q_proj(y), a.k_proj(y), a.v_proj(y), self.heads, mask))
        holder = self if mlp is None else getattr(self, mlp)
        return x + holder.fc2(F.gelu(holder.fc1(getattr(self, norm2)(x)), approximate=self.gelu))


class Vision(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embeddings = nn.Module()
        self.embeddings.patch_embedding = nn.Conv2d(3, c["width"], views.PATCH, views.PATCH)
        self.embeddings.position_embedding = nn.Embedding(views.SIDE ** 2, c["width"])
        self.encoder = nn.Module()
        self.encoder.layers = nn.ModuleList(EncoderLayer(c["width"], c["heads"], c["ffn"], ("layer_norm1", "layer_norm2", "mlp"), 1e-6, "tanh")
                                            for _ in range(c["layers"]))
        self.post_layernorm = nn.LayerNorm(c["width"], 1e-6)
        self.rows = {}
        with torch.no_grad():  # neighbours look alike from the start
            table = sincos(torch.arange(views.SIDE).repeat_interleave(views.SIDE), torch.arange(views.SIDE).repeat(views.SIDE), c["width"])
            self.embeddings.position_embedding.weight.copy_(0.3 * table)

    def forward(self, patches, grid):
        """patches [N, h * w, 588] u8, grid (h, w) -> [N, h * w, width]."""
        if grid not in self.rows:
            self.rows[grid] = torch.tensor(views.position_rows(*grid), device=patches.device)
        e = self.embeddings
        x = patches.to(e.patch_embedding.weight.dtype) / 255.0
        x = F.linear((x - 0.5) / 0.5, e.patch_embedding.weight.flatten(1), e.patch_embedding.bias)
        x = x + e.position_embedding(self.rows[grid])
        for layer in self.encoder.layers:
            x = layer(x)
        return self.post_layernorm(x)


def sincos(rows, cols, dim):
    """[n, dim]: sin and cos of the column, then of the row."""
    omega = 10000.0 ** (-torch.arange(dim // 4, dtype=torch.float64) / (dim // 4))
    a, b = cols[:, None].double() * omega, rows[:, None].double() * omega
    return torch.cat([a.sin(), a.cos(), b.sin(), b.cos()], 1).float()


class Resampler(nn.Module):
    def __init__(self, c):
        super().__init__()
        e = c["embed"]
        self.heads, self.positions = e // 128, {}
        self.query = nn.Parameter(torch.zeros(c["queries"], e))
        self.proj = nn.Parameter(torch.eye(e) + 0.01 * torch.randn(e, e))
        self.kv_proj = nn.Linear(c["vision"]["width"], e, bias=False)
        self.attn = nn.Module()
        self.attn.in_proj_weight = nn.Parameter(torch.randn(3 * e, e) * e ** -0.5)
        self.attn.in_proj_bias = nn.Parameter(torch.zeros(3 * e))
        self.attn.out_proj = nn.Linear(e, e)
        self.ln_q, self.ln_kv, self.ln_post = (nn.LayerNorm(e, 1e-6) for _ in range(3))
        with torch.no_grad():  # query k starts by reading the patches around the k-th point of a lattice
            side = int(math.sqrt(c["queries"]))
            at = (torch.arange(side) + 0.5) * 14.5 / side - 0.5
            self.query.copy_(sincos(at.repeat_interleave(side), at.repeat(side), e))
            # Both heads see both axes; coarse waves hardly count, so that a query's neighbourhood is small.
            order = torch.cat([torch.arange(0, e, 2), torch.arange(1, e, 2)])
            fine = (torch.arange(e) % (e // 4)) < 3 * e // 32
            w = torch.diag(torch.where(fine, 2.8, 0.2))[order]
            self.attn.in_proj_weight[:e] = w
            self.attn.in_proj_weight[e:2 * e] = w
            self.ln_kv.weight.fill_(0.3)
            self.attn.in_proj_weight[2 * e:] = torch.eye(e)
            self.attn.out_proj.weight.copy_(torch.eye(e))
            self.attn.out_proj.bias.zero_()

    def forward(self, x, grid):
        """[N, h * w, width] -> [N, queries, embed]."""
        if grid not in self.positions:
            h, w = grid
            self.positions[grid] = sincos(torch.arange(h).repeat_interleave(w), torch.arange(w).repeat(h), self.query.shape[1]).to(x.device)
        v = self.ln_kv(self.kv_proj(x))
        k = v + self.positions[grid].to(v.dtype)
        wq, wk, wv = self.attn.in_proj_weight.chunk(3)
        bq, bk, bv = self.attn.in_proj_bias.chunk(3)
        q = F.linear(self.ln_q(self.query), wq, bq).expand(len(x), -1, -1)
        y = self.attn.out_proj(attend(q, F.linear(k, wk, bk), F.linear(v, wv, bv), self.heads))
        return self.ln_post(y) @ self.proj


class Audio(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.block = c["block"]
        self.conv1, self.conv2 = nn.Conv1d(c["mels"], c["width"], 3, padding=1), nn.Conv1d(c["width"], c["width"], 3, 2, padding=1)
        self.embed_positions = nn.Embedding(c["positions"], c["width"])
        self.layers = nn.ModuleList(EncoderLayer(c["width"], c["heads"], c["ffn"], ("self_attn_layer_norm", "final_layer_norm", None), 1e-5, "none", False)
                                    for _ in range(c["layers"]))
        self.layer_norm = nn.LayerNorm(c["width"], 1e-5)
        with torch.no_grad():
            n, d = c["positions"], c["width"]
            omega = 10000.0 ** (-torch.arange(d // 2) / (d // 2 - 1))
            a = torch.arange(n)[:, None] * omega
            self.embed_positions.weight.copy_(0.3 * torch.cat([a.sin(), a.cos()], 1))

    def forward(self, mel, lengths):
        """mel [N, L, 80] padded with anything, lengths of each -> [N, C, width]; rows past a clip's own frames mean nothing."""
        frame = torch.arange(mel.shape[1], device=mel.device)
        x = (mel * (frame < lengths[:, None])[..., None]).transpose(1, 2)
        x = F.gelu(self.conv1(x))
        x = x * (frame < lengths[:, None])[:, None]  # the second convolution sees zeros past the end, as for one clip alone
        x = F.gelu(self.conv2(x)).transpose(1, 2)
        n = x.shape[1]
        x = x + self.embed_positions.weight[:n]
        i = torch.arange(n, device=x.device)
        mask = (i < ((i // self.block + 1) * self.block)[:, None]) & (i < ((lengths - 1) // 2 + 1)[:, None, None])
        for layer in self.layers:
            x = layer(x, mask[:, None])
        return self.layer_norm(x)


class RmsNorm(nn.Module):
    def __init__(self, n, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(n)), eps

    def forward(self, x):
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)


class DecoderLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        e, d = c["embed"], c["head_dim"]
        self.heads, self.kv_heads = c["heads"], c["kv_heads"]
        self.input_layernorm, self.post_attention_layernorm = RmsNorm(e), RmsNorm(e)
        self.self_attn = a = nn.Module()
        a.q_proj, a.k_proj = nn.Linear(e, self.heads * d, bias=False), nn.Linear(e, self.kv_heads * d, bias=False)
        a.v_proj, a.o_proj = nn.Linear(e, self.kv_heads * d, bias=False), nn.Linear(self.heads * d, e, bias=False)
        a.q_norm, a.k_norm = RmsNorm(d), RmsNorm(d)
        self.mlp = m = nn.Module()
        m.gate_proj, m.up_proj, m.down_proj = nn.Linear(e, c["ffn"], bias=False), nn.Linear(e, c["ffn"], bias=False), nn.Linear(c["ffn"], e, bias=False)

    def forward(self, x, cos, sin, mask, past=None):
        a, m = self.self_attn, self.mlp
        y = self.input_layernorm(x)
        q = a.q_norm(a.q_proj(y).unflatten(-1, (self.heads, -1))).transpose(1, 2)
        k = a.k_norm(a.k_proj(y).unflatten(-1, (self.kv_heads, -1))).transpose(1, 2)
        v = a.v_proj(y).unflatten(-1, (self.kv_heads, -1)).transpose(1, 2)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        group = self.heads // self.kv_heads
        out = F.scaled_dot_product_attention(q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1), attn_mask=mask)
        x = x + a.o_proj(out.transpose(1, 2).flatten(2))
        y = self.post_attention_layernorm(x)
        return x + m.down_proj(F.silu(m.gate_proj(y)) * m.up_proj(y)), (k, v)


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


class Decoder(nn.Module):
    def __init__(self, c, rows):
        super().__init__()
        self.head_dim, self.theta = c["head_dim"], c["theta"]
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(rows, c["embed"])
        self.model.layers = nn.ModuleList(DecoderLayer(c) for _ in range(c["layers"]))
        self.model.norm = RmsNorm(c["embed"])
        self.lm_head = nn.Linear(c["embed"], rows, bias=False)

    def forward(self, x, positions, mask, past=None):
        """x [B, T, E], positions [B or 1, T], mask [B or 1, 1, T, S] bool -> ([B, T, E], keys and values)."""
        half = self.head_dim // 2
        angle = positions[:, None, :, None].double() * self.theta ** (-torch.arange(half, device=x.device, dtype=torch.float64) / half)
        cos, sin = (torch.cat([f(angle)] * 2, -1).to(x.dtype) for f in (torch.cos, torch.sin))
        cache = []
        for i, layer in enumerate(self.model.layers):
            x, kv = layer(x, cos, sin, mask, None if past is None else past[i])
            cache.append(kv)
        return self.model.norm(x), cache


class Inspector(nn.Module):
    def __init__(self, rows, config=CONFIG):
        super().__init__()
        self.config = config
        v, a, e = config["vision"], config["audio"], config["embed"]
        self.llm = Decoder(config, rows)
        self.vpm = Vision(v)
        self.resampler = Resampler(config)
        self.apm = Audio(a)
        self.audio_projection_layer = nn.Module()
        self.audio_projection_layer.linear1, self.audio_projection_layer.linear2 = nn.Linear(a["width"], e), nn.Linear(e, e)
        for name, p in self.named_parameters():
            if p.ndim >= 2 and "embed_tokens" in name:
                nn.init.normal_(p, std=0.5)
            elif p.ndim >= 2 and not name.startswith("resampler.") and "position" not in name:
                nn.init.normal_(p, std=(p[0].numel()) ** -0.5 * (0.5 if any(s in name for s in ("out_proj", "o_proj", "down_proj", "fc2")) else 1.0))
        nn.init.normal_(self.llm.lm_head.weight, std=0.03)

    def see(self, patches, grid):
        """-> (rows for the language model [N, queries, embed], the tower's patches [N, P, width])."""
        x = self.vpm(patches, grid)
        return self.resampler(x, grid), x

    def hear(self, mel, lengths):
        """-> (pooled rows [N, P, embed], how many of them are real [N], the tower's frames)."""
        x = self.apm(mel, lengths)
        p, step = self.audio_projection_layer, self.config["audio"]["pool"]
        y = p.linear2(F.relu(p.linear1(x)))
        n = y.shape[1] // step
        counts = ((lengths - 1) // 2 + 1) // step
        return y[:, :n * step].unflatten(1, (n, step)).mean(2), counts, x
