"""Speech with espeak-ng and its log-mel features: the same features as reference/mel.py, without computing 30 seconds for each.

Not for the model; no network, no recorded people. Needs the program espeak-ng.
"""
import os
import subprocess
import sys
import wave

import numpy as np

import looks

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "reference"))
import mel  # noqa: E402

RATE = 16000
_filters = mel.slaney_filters(80)


def voice(rng, split, language):
    """Choices of one speaker and one recording."""
    v = looks.VOICES[split]
    variant = v["variant"][int(rng.integers(len(v["variant"])))]
    base = v[language][int(rng.integers(len(v[language])))]
    return {"voice": base + ("+" + variant if variant else ""), "speed": int(rng.integers(125, 200)), "pitch": int(rng.integers(25, 76)),
            "seed": int(rng.integers(1 << 31))}


def speak(text, v):
    """-> samples at 16 kHz in [-1, 1], with silence around, a room, and noise."""
    out = subprocess.run(["espeak-ng", "-v", v["voice"], "-s", str(v["speed"]), "-p", str(v["pitch"]), "--stdout", text], capture_output=True, check=True).stdout
    at = out.index(b"data") + 8  # the length in a streamed header is not the length
    x = np.frombuffer(out[at:at + (len(out) - at) // 2 * 2], "<i2").astype(np.float64) / 32768
    rng = np.random.default_rng(v["seed"])
    loud = np.nonzero(np.abs(x) > 0.01)[0]
    x = x[max(loud[0] - 200, 0):loud[-1] + 400]
    ratio = 22050 / RATE * rng.uniform(0.95, 1.05)  # a little faster or slower, higher or lower
    n = int(len(x) / ratio)
    kernel = np.hanning(5)
    x = np.convolve(x, kernel / kernel.sum(), "same")
    x = np.interp(np.arange(n) * ratio, np.arange(len(x)), x)
    if rng.random() < 0.4:
        delay, gain = int(rng.uniform(0.01, 0.05) * RATE), rng.uniform(0.1, 0.35)
        y = np.zeros(n + 3 * delay)
        for i in range(4):
            y[i * delay:i * delay + n] += x * gain ** i
        x = y
    x = np.concatenate([np.zeros(int(rng.uniform(0.03, 0.25) * RATE)), x, np.zeros(int(rng.uniform(0.08, 0.3) * RATE))])
    level = np.sqrt((x * x).mean())
    noise = rng.standard_normal(len(x))
    if rng.random() < 0.5:
        noise = np.convolve(noise, np.ones(8) / 3, "same")
    x = x + noise * level * 10 ** (-rng.uniform(12, 40) / 20)
    return np.round(np.clip(x / np.abs(x).max() * rng.uniform(0.25, 0.95), -1, 1) * 32767) / 32768


def features(samples):
    """[ceil(n / 160), 80] as mel.piece_features gives, for clips well below 30 s."""
    n = -(-len(samples) // mel.HOP)
    padded = np.pad(np.concatenate([samples, np.zeros(1200)]), (200, 0), mode="reflect")
    logs = mel.log_mel_frames(padded, _filters)[:n + 3]
    logs = np.maximum(logs, logs.max() - 8)
    return ((logs + 4) / 4)[:n].astype(np.float32)


def save(path, samples):
    with wave.open(path, "wb") as f:
        f.setnchannels(1)
        f.setsampwidth(2)
        f.setframerate(RATE)
        f.writeframes((samples * 32768).astype("<i2").tobytes())
