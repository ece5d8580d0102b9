"""Whisper's log-mel features in float64 with NumPy: whole clips in pieces of 30 s, and MiniCPM-o's streamed chunks."""
import numpy as np

RATE, WINDOW, HOP, PIECE = 16000, 400, 160, 480000


def slaney_filters(n_mels=80):
    """[201, n_mels]: triangles at equal distances on Slaney's mel scale from 0 to 8000 Hz, each of area 1."""
    # 3 mel per 200 Hz up to 1000 Hz (15 mel); above, 27 mel for every factor of 6.4.
    top = 15 + 27 * np.log(8) / np.log(6.4)
    mel = np.linspace(0, top, n_mels + 2)
    corner = np.where(mel < 15, mel * 200 / 3, 1000 * 6.4 ** ((mel - 15) / 27))
    f = np.arange(201)[:, None] * 40.0
    lo, mid, hi = corner[:-2], corner[1:-1], corner[2:]
    return np.clip(np.minimum((f - lo) / (mid - lo), (hi - f) / (hi - mid)), 0, None) * 2 / (hi - lo)


def log_mel_frames(padded, filters):
    """log10 mel of every frame of an already padded signal -> [n, n_mels]."""
    window = 0.5 * (1 - np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW))
    frames = np.lib.stride_tricks.sliding_window_view(np.asarray(padded, np.float64), WINDOW)[::HOP]
    power = np.abs(np.fft.rfft(frames * window, axis=1)) ** 2
    return np.log10(np.maximum(power @ filters, 1e-10))


def piece_features(samples, n_mels=80):
    """One piece of at most 30 s -> [ceil(n / 160), n_mels]."""
    samples = np.asarray(samples, np.float64)
    assert len(samples) <= PIECE
    whole = np.concatenate([samples, np.zeros(PIECE - len(samples))])
    logs = log_mel_frames(np.pad(whole, WINDOW // 2, mode="reflect"), slaney_filters(n_mels))[:-1]
    assert len(logs) == PIECE // HOP
    logs = np.maximum(logs, logs.max() - 8)
    return ((logs + 4) / 4)[: -(-len(samples) // HOP)]


def clip_features(samples, n_mels=80):
    """Any length -> list of pieces."""
    return [piece_features(samples[i:i + PIECE], n_mels) for i in range(0, len(samples), PIECE)]


class Stream:
    """The chunks of a live sound. redundancy: frames of context on each side (0 half-duplex, 2 duplex)."""

    def __init__(self, redundancy, n_mels=80):
        self.redundancy, self.filters = redundancy, slaney_filters(n_mels)
        self.buffer, self.base, self.next = np.zeros(0), 0, 0

    def push(self, samples, last=False):
        """One chunk of sound in; [frames, n_mels] and the number of context frames in front out (or None)."""
        self.buffer = np.concatenate([self.buffer, samples])
        if len(self.buffer) >= 30 * RATE:
            self.buffer, self.base = self.buffer[10 * RATE:], self.base + 10 * RATE // HOP
        logs = log_mel_frames(np.pad(self.buffer, WINDOW // 2, mode="reflect"), self.filters)[:-1]
        floor = -10 if len(self.buffer) < 5 * RATE else logs.max() - 8
        logs = (np.maximum(logs, floor) + 4) / 4
        stable = min(len(logs), (len(self.buffer) - WINDOW // 2) // HOP + 1)
        if not last and self.base + stable < self.next + 100 + self.redundancy:
            return None
        begin = max(0, self.next - self.redundancy)
        chunk = logs[begin - self.base:self.next + 100 + self.redundancy - self.base]
        prefix = self.next - begin
        self.next += 100
        return chunk, prefix


def stream_chunks(samples, redundancy):
    """All chunks of a sound that comes in pieces of one second, as a live session feeds them."""
    stream, pending, out = Stream(redundancy), np.zeros(0), []
    for begin in range(0, len(samples), RATE):
        pending = np.concatenate([pending, samples[begin:begin + RATE]])
        if not out and len(pending) < 16560:
            pending = np.concatenate([np.zeros(16560 - len(pending)), pending])
        wanted = RATE if out else 16480 if redundancy else 16560
        if len(pending) >= wanted:
            out.append(stream.push(pending[:wanted]))
            pending = pending[wanted:]
    if len(pending):
        out.append(stream.push(pending, last=True))
    assert None not in out
    return [(chunk, prefix) for chunk, prefix in out if len(chunk) > prefix]
