"""Compares the audio tower with code that nobody here wrote, in float64: transformers' WhisperEncoder and torch's pooling.

Needs torch and transformers; run by hand when the reference changes. Prints the largest relative differences; fails above 1e-9.
The block mask and the remembered keys and values of live sound are not in transformers: the mask is given to its layers as a matrix
to add, and a chunk of live sound is compared with all chunks so far at once, masked so that each sees itself and those before.
"""
import os
import sys

import numpy as np
import torch
from transformers import WhisperConfig
from transformers.models.whisper.modeling_whisper import WhisperEncoder

import dump
import mel
import whisper
from check_transformers import compare, double_everywhere, load, worst
from model import Model, load_sound


def stem(tower, frames, cut=(0, 0)):
    """Mel frames -> [C, A] after both convolutions and the cut."""
    with torch.no_grad():
        h = torch.nn.functional.gelu(tower.conv1(torch.from_numpy(frames.T.copy())[None]))
        h = torch.nn.functional.gelu(tower.conv2(h))[0].T
    return h[cut[0]:len(h) - cut[1]]


def run_layers(tower, h, seen):
    """h [1, C, A] with positions -> stages of the layers; frame i sees seen[i] keys."""
    n = h.shape[1]
    mask = torch.zeros(1, 1, n, n, dtype=torch.float64)
    for i, k in enumerate(seen):
        mask[0, 0, i, k:] = float("-inf")
    out = {}
    with torch.no_grad():
        for i, layer in enumerate(tower.layers):
            y = layer(h, attention_mask=mask)
            h = y[0] if isinstance(y, tuple) else y
            out["aud.layer", i] = h[0]
        out["aud.norm", None] = tower.layer_norm(h)[0]
    return out


def pooled(model, rows):
    """torch's projection and AvgPool1d, in the official order."""
    t = {n[23:]: torch.from_numpy(v) for n, v in model.weights.items() if n.startswith("audio_projection_layer.")}
    y = torch.relu(torch.nn.functional.linear(rows, t["linear1.weight"], t["linear1.bias"]))
    y = torch.nn.functional.linear(y, t["linear2.weight"], t["linear2.bias"])
    step = model.config["audio_pool_step"]
    return torch.nn.AvgPool1d(step, stride=step)(y.T[None])[0].T


def check_clip(model, tower, frames):
    ours = {}
    rows = whisper.forward(frames, model.weights, model.config, lambda name, value, layer=None: ours.__setitem__((name, layer), value))
    h = stem(tower, frames)
    theirs = {("aud.conv", None): h}
    h = h + tower.embed_positions.weight[:len(h)]
    theirs.update(run_layers(tower, h[None], whisper.visible(len(h), model.config)))
    for key, value in theirs.items():
        compare(key[0], ours[key], value)
    compare("aud.pool", rows, pooled(model, theirs["aud.norm", None]))


def check_whole(model, tower, frames):
    """The encoder's own forward, without a mask; it wants exactly 30 s."""
    config = {**model.config, "audio_chunk_length": -1.0}
    ours = whisper.encode(frames, model.weights, config)
    with torch.no_grad():
        compare("forward, no mask", ours, tower(torch.from_numpy(frames.T.copy())[None]).last_hidden_state[0])


def check_stream(model, tower, samples, redundancy):
    cache = whisper.Cache(model.config["audio_config"]["encoder_layers"])
    rows, stems, seen = [], [], []
    for frames, prefix in mel.stream_chunks(samples, redundancy):
        suffix = min(redundancy, max(len(frames) - prefix - 100, 0))
        rows.append(whisper.encode(frames, model.weights, model.config, cache=cache, prefix=prefix, suffix=suffix))
        stems.append(stem(tower, frames, ((prefix + 1) // 2, (suffix + 1) // 2)))
        seen += [sum(map(len, stems))] * len(stems[-1])
    h = torch.cat(stems)
    h = (h + tower.embed_positions.weight[:len(h)])[None]
    compare("live sound", np.concatenate(rows), run_layers(tower, h, seen)["aud.norm", None])


def main():
    torch.manual_seed(0)
    model = Model(os.path.join(dump.ROOT, "models", "tiny", "minicpm-o-4_5"))
    audio = model.config["audio_config"]
    config = WhisperConfig(d_model=audio["d_model"], encoder_layers=audio["encoder_layers"],
                           encoder_attention_heads=audio["encoder_attention_heads"], encoder_ffn_dim=audio["encoder_ffn_dim"],
                           num_mel_bins=audio["num_mel_bins"], max_source_positions=audio["max_source_positions"],
                           activation_function="gelu", attn_implementation="eager", dropout=0.0)
    speech = [load_sound(os.path.join(dump.ROOT, "tests", "data", "audio", f"cards_{n}.wav")) for n in ("001", "005")]
    with double_everywhere(), torch.no_grad():
        tower = load(WhisperEncoder(config), model.weights, "apm.")
        for samples in speech:
            check_clip(model, tower, mel.piece_features(samples))
        long = np.tile(np.concatenate(speech), 8)[:mel.PIECE]
        check_clip(model, tower, mel.piece_features(long))
        check_whole(model, tower, mel.piece_features(long))
        for redundancy in (0, 2):
            check_stream(model, tower, long[:112700], redundancy)
    print(", ".join(f"{what} {value:.1e}" for what, value in worst.items()))
    sys.exit(max(worst.values()) > 1e-9)


if __name__ == "__main__":
    main()
