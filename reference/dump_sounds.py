"""Writes what the audio tower of the tiny o 4.5 must give for long clips and for live sound, for tests/golden/audio_tower_test.cc.

Key of stages.safetensors: stage of docs/shapes.md, `.layer`, `@piece` or `@chunk`; beside it `#rows` where only some were kept.
"""
import json
import os
import platform

import numpy as np

import mel
import weights
import whisper
from dump import ROOT, Dump
from model import Model, load_sound

FAMILY = "minicpm-o-4_5"
LIVE_SAMPLES = 112700  # 7.04 s: seven whole chunks and a rest of fewer than five frames of 20 ms, which gives no row
# The length of the position table decides when a stream forgets. At 201, duplex chunks (52 frames before the cut) restart after 150
# frames and half-duplex ones (50) after 200: frames are counted before the cut. At 200 the latter restart after 150: equal is too much.
STREAMS = {  # name: (frames of context on each side, positions)
    "stream_half_duplex": (0, 1500),
    "stream_duplex": (2, 1500),
    "stream_half_duplex_restart": (0, 201),
    "stream_duplex_restart": (2, 201),
    "stream_half_duplex_full": (0, 200),
}


def sound(names, n_samples):
    """The recordings after one another, again and again, until there are n_samples."""
    one = np.concatenate([load_sound(os.path.join(ROOT, "tests", "data", "audio", f"{n}.wav")) for n in names])
    return np.tile(one, n_samples // len(one) + 1)[:n_samples]


def long_clip(model):
    """Two pieces: 30 s, whose last frames see mirrored sound, and 1.25 s. Blocks of the mask at every second."""
    files, n_samples = ["cards_005", "cards_001"], 500000
    dump = Dump()
    rows = model.encode_sound(sound(files, n_samples), dump.sound_tap(0, 12))
    assert len(rows) == model.count_sound(np.zeros(n_samples)) == 300 + 12
    return {"kind": "clip", "sounds": files, "samples": n_samples, "rows": len(rows)}, dump.tensors


def stream(model, redundancy, n_positions):
    """Live sound, a chunk a second, as mel.Stream cuts it."""
    files = ["cards_005", "cards_001"]
    config = json.loads(json.dumps(model.config))
    config["audio_config"]["max_source_positions"] = n_positions
    cache = whisper.Cache(config["audio_config"]["encoder_layers"])
    dump, chunks = Dump(), []
    for i, (frames, prefix) in enumerate(mel.stream_chunks(sound(files, LIVE_SAMPLES), redundancy)):
        suffix = min(redundancy, max(len(frames) - prefix - 100, 0))
        def tap(name, *rest, hear=dump.sound_tap(i, 4)):
            if n_positions == 1500 or name == "aud.pool":  # the others differ in what is remembered only
                hear(0, name, *rest)

        rows = whisper.forward(frames, model.weights, config, tap, cache, prefix, suffix)
        chunks.append({"frames": len(frames), "prefix": prefix, "suffix": suffix, "rows": len(rows), "remembered": len(cache)})
    return {"kind": "stream", "sounds": files, "samples": LIVE_SAMPLES, "duplex": redundancy > 0, "n_positions": n_positions,
            "chunks": chunks}, dump.tensors


def main():
    model = Model(os.path.join(ROOT, "models", "tiny", FAMILY))
    results = {"long_clip": long_clip(model)}
    results.update({name: stream(model, *spec) for name, spec in STREAMS.items()})
    for name, (case, tensors) in results.items():
        folder = os.path.join(ROOT, "tests", "data", "golden", FAMILY, name)
        os.makedirs(folder, exist_ok=True)
        case = {"family": FAMILY, "model": f"models/tiny/{FAMILY}", "case": name, **case}
        with open(os.path.join(folder, "case.json"), "w", encoding="utf-8") as f:
            f.write("{\n" + ",\n".join(f" {json.dumps(k)}: {json.dumps(v)}" for k, v in case.items()) + "\n}\n")
        path = os.path.join(folder, "stages.safetensors")
        weights.write(path, tensors, {"made_by": f"reference/dump_sounds.py, NumPy {np.__version__}, Python {platform.python_version()}"})
        print(folder, len(tensors), "tensors", os.path.getsize(path), "bytes", case.get("chunks", ""))


if __name__ == "__main__":
    main()
