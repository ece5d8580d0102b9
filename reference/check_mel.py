"""Compares the product's sound with other programs: features with transformers' WhisperFeatureExtractor, chunks of a stream
with MiniCPM-o's own processing code, samples with soundfile and soxr. Prints figures, exits 1 on any difference above 1e-5.

    python3 reference/check_mel.py --tool build/release/bin/audio_tool --speech DIR ... [--processing processing_minicpmo.py]

DIR: folders with recordings (Debian's pocketsphinx-testdata has some). Needs numpy, torch, transformers, soundfile, soxr.
"""
import argparse
import importlib.util
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import soundfile
import soxr
from transformers import WhisperFeatureExtractor

import mel
from make_test_sounds import clips, noise, tiled

LIMIT = 1e-5
EXTRACTOR = WhisperFeatureExtractor()


class Figures:
    def __init__(self):
        self.worst, self.failed = {}, False

    def add(self, what, name, a, b, limit=LIMIT):
        a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
        difference = np.inf if a.shape != b.shape else float(np.abs(a - b).max()) if a.size else 0.0
        n, worst, where = self.worst.get(what, (0, -1.0, ""))
        self.worst[what] = (n + 1, *max((worst, where), (difference, name)))
        if not difference <= limit:
            self.failed = True
            print(f"  over the limit: {what}, {name}: {difference:.3g} (shapes {a.shape}, {b.shape})")

    def report(self):
        for what, (n, worst, where) in self.worst.items():
            print(f"{what}: {n} compared, largest difference {worst:.2g} ({where})")
        return self.failed


class Tool:
    def __init__(self, path, folder):
        self.path, self.folder = path, pathlib.Path(folder)

    def __call__(self, *arguments):
        out = self.folder / "out.f32"
        subprocess.run([self.path, *map(str, arguments), out], check=True)
        return np.fromfile(out, np.float32)

    def write(self, samples, rate=mel.RATE, subtype="FLOAT", suffix="wav", **more):
        path = self.folder / f"in.{suffix}"
        soundfile.write(path, samples, rate, subtype, **more)
        return path


def extractor_features(samples, method):
    """Whole pieces by transformers, one at a time as MiniCPM-o does it -> [frames, 80]."""
    out = [np.zeros((0, 80))]
    for begin in range(0, len(samples), mel.PIECE):
        piece = np.asarray(samples[begin:begin + mel.PIECE], np.float32)
        padded = np.pad(piece, (0, mel.PIECE - len(piece)))[None]
        out.append(method(padded, "cpu")[0].T[:-(-len(piece) // mel.HOP)])
    return np.concatenate(out)


def check_features(tool, figures, speech):
    sounds = {str(path.name): soundfile.read(path, dtype="float32")[0] for path in speech}
    longest = max(sounds.values(), key=len)
    sounds.update(clips(sounds.get("005.wav", longest)))
    sounds["nothing"] = np.zeros(0, np.float32)
    for n in (0, 1, 799, 800, 1600, 16000, 480000, 480001):
        sounds[f"speech, first {n}"] = tiled(longest, n)
    for name, samples in sounds.items():
        product = tool("mel", tool.write(samples)).reshape(-1, 80)
        exact = np.concatenate([np.zeros((0, 80)), *mel.clip_features(samples)])
        figures.add("features, product - mel.py", name, product, exact)
        figures.add("features, mel.py - transformers (float64)", name, exact,
                    extractor_features(samples, EXTRACTOR._np_extract_fbank_features))
        figures.add("features, product - transformers (float64)", name, product,
                    extractor_features(samples, EXTRACTOR._np_extract_fbank_features))
        # Torch computes in float32 and is itself this far from the exact values.
        figures.add("features, transformers (torch, float32) - mel.py", name,
                    extractor_features(samples, EXTRACTOR._torch_extract_fbank_features), exact, np.inf)


def chunks_of(values):
    out, at = [], 0
    while at < len(values):
        n, prefix, suffix = values[at:at + 3].astype(int)
        out.append((values[at + 3:at + 3 + 80 * n].reshape(n, 80), prefix, suffix))
        at += 3 + 80 * n
    return out


def official_chunks(module, samples, redundancy):
    """What a live session gets: the official processor fed as streaming_prefill and the duplex loop feed it."""
    class Exact(module.MiniCPMAAudioProcessor):
        def _torch_extract_fbank_features(self, waveform, device="cpu"):
            return self._np_extract_fbank_features(waveform, device)

    stream = module.StreamingMelProcessorExact(
        Exact(), chunk_ms=1000, first_chunk_ms=1035, cnn_redundancy_ms=10 * redundancy, enable_sliding_window=True,
        slide_trigger_seconds=30.0, slide_stride_seconds=10.0)
    pending, out = np.zeros(0, np.float32), []
    for begin in range(0, len(samples), mel.RATE):
        pending = np.concatenate([pending, samples[begin:begin + mel.RATE]])
        if not out and len(pending) < 16560:
            pending = np.concatenate([np.zeros(16560 - len(pending), np.float32), pending])
        wanted = 16560 if redundancy == 0 and not out else stream.get_chunk_size()
        if len(pending) >= wanted:
            out.append(stream.process(pending[:wanted])[0][0].numpy().T)
            pending = pending[wanted:]
    if len(pending):
        out.append(stream.process(pending, is_last_chunk=True)[0][0].numpy().T)
    return out


def check_stream(tool, figures, speech, processing):
    module = None
    if processing:
        spec = importlib.util.spec_from_file_location("processing_minicpmo", processing)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    longest = max((soundfile.read(path, dtype="float32")[0] for path in speech), key=len)
    for seconds in (0.3, 1, 2, 4.5, 5, 6.2, 29, 33.375, 62):
        sound = tiled(longest, int(seconds * mel.RATE)) + noise(int(seconds * mel.RATE)) * np.float32(0.01)
        for mode, redundancy in (("half", 0), ("duplex", 2)):
            product = chunks_of(tool("stream", mode, tool.write(sound)))
            exact = mel.stream_chunks(sound, redundancy)
            official = official_chunks(module, sound, redundancy) if module else None
            for k in range(max(len(product), len(exact))):
                name = f"{mode}, {seconds} s, chunk {k}"
                figures.add("chunks, product - mel.py", name, product[k][0], exact[k][0])
                assert product[k][1] == exact[k][1], name
                if official:
                    figures.add("chunks, product - MiniCPM-o's code (float64)", name, product[k][0], official[k])


def check_samples(tool, figures, speech):
    sounds = {path.name: soundfile.read(path, dtype="float32")[0] for path in speech}
    for rate in (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000, 96000, 192000):
        for channels in (1, 2, 6):
            for name, sound in {**sounds, "noise": noise(rate // 2), "one": noise(1), "799": noise(799)}.items():
                many = np.stack([np.roll(sound, 100 * c) * np.float32(0.9 ** c) for c in range(channels)], axis=1)
                mono = many.mean(axis=1, dtype=np.float64).astype(np.float32)
                expected = mono if rate == mel.RATE else soxr.resample(mono, rate, mel.RATE, quality="HQ")
                where = f"{name} at {rate} Hz, {channels} channels"
                got = tool("samples", tool.write(many, rate))
                figures.add("samples, product - soxr", where, got, expected)
                if rate == mel.RATE and channels == 1 and not np.array_equal(got, sound):
                    raise SystemExit(f"{where}: changed without need")


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--tool", required=True)
    options.add_argument("--speech", nargs="+", required=True)
    options.add_argument("--processing")
    arguments = options.parse_args()
    speech = sorted(path for folder in arguments.speech for path in pathlib.Path(folder).glob("*.wav"))
    figures = Figures()
    with tempfile.TemporaryDirectory() as folder:
        tool = Tool(arguments.tool, folder)
        check_features(tool, figures, speech)
        check_stream(tool, figures, speech, arguments.processing)
        check_samples(tool, figures, speech)
    sys.exit(figures.report())


if __name__ == "__main__":
    main()
