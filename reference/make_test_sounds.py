"""Writes the small sound files of tests/data/audio and what they must become, with the soundfile and soxr packages and mel.py.

    python3 reference/make_test_sounds.py --speech DIR     # DIR holds 001.wav and 005.wav of pocketsphinx's test data
"""
import argparse
import os
import shutil
import struct

import numpy as np
import soundfile
import soxr

import mel
import weights

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "data", "audio")

# name: (format, subtype, rate, channels, milliseconds, more arguments of soundfile.write)
FILES = {
    "u8_11025.wav": ("WAV", "PCM_U8", 11025, 1, 100),
    "s16_8000.wav": ("WAV", "PCM_16", 8000, 1, 100),
    "s16_16000.wav": ("WAV", "PCM_16", 16000, 1, 60),
    "s16_16000_2.wav": ("WAV", "PCM_16", 16000, 2, 60),
    "s16_48000_6.wav": ("WAVEX", "PCM_16", 48000, 6, 25),
    "s24_44100_2.wav": ("WAV", "PCM_24", 44100, 2, 50),
    "s32_48000.wav": ("WAV", "PCM_32", 48000, 1, 50),
    "f32_16000.wav": ("WAV", "FLOAT", 16000, 1, 60),
    "f64_22050.wav": ("WAV", "DOUBLE", 22050, 1, 50),
    "alaw_8000.wav": ("WAV", "ALAW", 8000, 1, 100),
    "ulaw_8000.wav": ("WAV", "ULAW", 8000, 1, 100),
    "ima_22050.wav": ("WAV", "IMA_ADPCM", 22050, 1, 100),
    "rf64_16000.wav": ("RF64", "PCM_16", 16000, 1, 60),
    "rifx_16000.wav": ("WAV", "PCM_16", 16000, 1, 60),
    "s16_44100_2.flac": ("FLAC", "PCM_16", 44100, 2, 60),
    "s24_48000_6.flac": ("FLAC", "PCM_24", 48000, 6, 25),
    "s16_16000.flac": ("FLAC", "PCM_16", 16000, 1, 100),
    "vorbis_44100_2.ogg": ("OGG", "VORBIS", 44100, 2, 150),
    "vorbis_16000.ogg": ("OGG", "VORBIS", 16000, 1, 150),
    "opus_48000_2.opus": ("OGG", "OPUS", 48000, 2, 150),
    "opus_16000.opus": ("OGG", "OPUS", 16000, 1, 150),
    "layer3_44100_2.mp3": ("MP3", "MPEG_LAYER_III", 44100, 2, 150),
    "layer3_16000.mp3": ("MP3", "MPEG_LAYER_III", 16000, 1, 150),
}


def signal(rate, channels, n):
    """Three tones that differ between channels, and a little noise; [n, channels] within [-1, 1]."""
    t = np.arange(n)[:, None] / rate
    c = np.arange(channels)[None, :]
    noise = np.random.default_rng(rate + channels).uniform(-0.02, 0.02, (n, channels))
    return (0.4 * np.sin(2 * np.pi * (300 + 40 * c) * t) + 0.25 * np.sin(2 * np.pi * (1370 + 11 * c) * t + c) +
            0.1 * np.sin(2 * np.pi * 3010 * t) + noise)


def write_files(folder):
    for name, (kind, subtype, rate, channels, ms) in FILES.items():
        more = {"endian": "BIG"} if name.startswith("rifx") else {}
        soundfile.write(os.path.join(folder, name), signal(rate, channels, rate * ms // 1000), rate, subtype,
                        format=kind, **more)
    read = lambda name: open(os.path.join(folder, name), "rb").read()
    with open(os.path.join(folder, "tagged.mp3"), "wb") as f:  # an ID3v2 tag of 150 bytes in front, ID3v1 behind
        tag = b"ID3\x03\x00\x00" + bytes([0, 0, 1, 22]) + b"TIT2\x00\x00\x00\x06\x00\x00\x00title" + bytes(134)
        f.write(tag + read("layer3_16000.mp3") + b"TAG" + bytes(125))
    wav = bytearray(read("s16_16000.wav"))
    at = wav.index(b"data") + 4
    for name, riff, data in (("streamed.wav", 0xFFFFFFFF, 0xFFFFFFFF), ("streamed_0.wav", 0, 0),
                             ("streamed_2g.wav", 0x7FFFFFFF, 0x7FFFF000)):
        struct.pack_into("<I", wav, 4, riff)
        struct.pack_into("<I", wav, at, data)
        open(os.path.join(folder, name), "wb").write(wav)


def converted(path):
    samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    mono = samples.mean(axis=1, dtype=np.float64).astype(np.float32)
    return mono if rate == mel.RATE else soxr.resample(mono, rate, mel.RATE, quality="HQ")


def tiled(samples, n):
    return np.tile(samples, -(-n // len(samples)))[:n]


def noise(n):
    """What the C++ test draws too: 16 bits of a hash of the place, as a number in [-0.5, 0.5)."""
    x = (np.arange(n, dtype=np.uint64) * 2654435761) & 0xFFFFFFFF
    x = ((x ^ (x >> np.uint64(15))) * 2246822519) & 0xFFFFFFFF
    return ((x >> np.uint64(16)).astype(np.float32) - 32768) / 65536


def clips(speech):
    """The clips whose features are stored; drawn again in log_mel_test.cc."""
    late = noise(1600) * np.float32(2.0 ** -12)
    late[-1] = 1
    return {
        **{f"noise.{n}": noise(n) for n in (1, 79, 799, 800, 1600, 16000)},
        "silence.8000": np.zeros(8000, np.float32),
        "tone.16000": np.rint(20000 * np.sin(2 * np.pi * 440 / 16000 * np.arange(16000))).astype(np.float32) / 32768,
        "late.1600": late,  # the loudest frame is one that is not given out
        "clipped": np.clip(speech * np.float32(8), -1, 1),
        "loud": speech * np.float32(1000),
        "speech.479999": tiled(speech, 479999),
        "speech.480000": tiled(speech, 480000),
        "speech.480001": tiled(speech, 480001),
    }


def some_rows(n, count):
    if n <= count:
        return np.arange(n, dtype=np.int32)
    edge = count // 4
    middle = np.linspace(edge, n - edge - 1, count - 2 * edge).astype(int)
    return np.unique(np.concatenate([np.arange(edge), middle, np.arange(n - edge, n)])).astype(np.int32)


def put(tensors, name, rows, count):
    chosen = some_rows(len(rows), count)
    tensors[name] = ("F32", rows[chosen])
    tensors[name + "#rows"] = ("I32", chosen)
    tensors[name + "#shape"] = ("I32", np.array(rows.shape))


def stream_tensors(speech, tensors):
    for mode, redundancy in (("half", 0), ("duplex", 2)):
        sound = np.concatenate([tiled(speech, 33 * mel.RATE) * np.float32(0.5), noise(6000)])
        for k, (chunk, prefix) in enumerate(mel.stream_chunks(sound, redundancy)):
            if k not in (0, 1, 3, 4, 5, 27, 28, 29, 30, 32, 33):
                continue
            put(tensors, f"{mode}.{k}", chunk, 12)
            tensors[f"{mode}.{k}#prefix"] = ("I32", np.array([prefix]))


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--speech", required=True)
    speech_folder = options.parse_args().speech
    os.makedirs(OUT, exist_ok=True)
    write_files(OUT)
    for name in ("001.wav", "005.wav"):
        shutil.copyfile(os.path.join(speech_folder, name), os.path.join(OUT, "cards_" + name))
    tensors = {}
    for name in sorted(os.listdir(OUT)):
        if name.split(".")[-1] in ("wav", "flac", "ogg", "opus", "mp3") and not name.startswith(("streamed", "cards")):
            tensors[name] = ("F32", converted(os.path.join(OUT, name)))
    weights.write(os.path.join(OUT, "samples.safetensors"), tensors)
    speech = converted(os.path.join(OUT, "cards_005.wav"))
    tensors = {}
    put(tensors, "cards_001", mel.piece_features(converted(os.path.join(OUT, "cards_001.wav"))), 1000)
    put(tensors, "cards_005", mel.piece_features(speech), 1000)
    for name, samples in clips(speech).items():
        for i, piece in enumerate(mel.clip_features(samples)):
            put(tensors, f"{name}@{i}", piece, 24)
    stream_tensors(speech, tensors)
    weights.write(os.path.join(OUT, "mel.safetensors"), tensors)
    for name in sorted(os.listdir(OUT)):
        print(f"{os.path.getsize(os.path.join(OUT, name)):8d} {name}")


if __name__ == "__main__":
    main()
