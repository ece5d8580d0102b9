"""Which frames and which sound the three families take of a video: writes video_choice.csv, and is the plain truth for it.

Follows the model cards' and helper packages' Python with NumPy, because linspace, arange and truncation of doubles decide
which frame it is. The packed family's rule stands in video_vectors.py (needs scipy; the tests only read the result).

    python3 reference/video_choice.py --out tests/data/preprocess/video_choice.csv
    python3 reference/video_choice.py --composites tests/data/preprocess/composites.csv
"""
import argparse
import math
import random
import zlib

import numpy as np

MAX_FRAMES = 64
RATE = 16000


def every_second(n_frames, fps):
    """One picture per group. The helper's step is round(fps), which it cannot take when that is 0."""
    frames = list(range(0, n_frames, max(1, round(fps))))
    if len(frames) > MAX_FRAMES:
        gap = len(frames) / MAX_FRAMES
        frames = [frames[int(i * gap + gap / 2)] for i in range(MAX_FRAMES)]
    return [([f], [], 0, 0) for f in frames]


def thin(items, n):
    if len(items) <= n:
        return items
    return [items[i] for i in np.linspace(0, len(items) - 1, n, dtype=int)]


def with_sound(n_frames, fps, stack):
    """A picture with the sound up to the next one; with stack > 1 the frames between two seconds as one composite."""
    duration = n_frames / fps
    seconds = math.ceil(duration)
    if duration > MAX_FRAMES:
        times = [round(i * 0.1, 1) for i in range(int(duration / 0.1))]
        frames = thin([min(int(t * fps), n_frames - 1) for t in times], MAX_FRAMES)
        times = thin(times, MAX_FRAMES)
    else:
        times = list(range(seconds))
        frames = [min(int(t * fps), n_frames - 1) for t in times]
    between = [sec + i / stack for sec in range(seconds) for i in range(1, stack) if sec + i / stack < duration]
    between = thin(between, MAX_FRAMES * (stack - 1))
    groups, cursor = [], 0
    for i, (time, frame) in enumerate(zip(times, frames)):
        end = times[i + 1] if i + 1 < len(times) else duration
        groups.append(([frame], [], int(time * RATE), int(end * RATE)))
        cells = []
        while cursor < len(between) and between[cursor] < i + 1:
            cells.append(min(int(between[cursor] * fps), n_frames - 1))
            cursor += 1
        if cells:
            groups.append((cells, [], 0, 0))
    return groups


def packed(n_frames, fps):
    from video_vectors import plan
    result = plan(n_frames, fps, 3, 0)
    if result is None:
        return None
    packing, frames, ids = result
    return [(list(frames[i:i + packing]), list(ids[i:i + packing]), 0, 0) for i in range(0, len(frames), packing)]


def checksum(groups):
    """CRC-32 of int64s: for each group the number of frames, the frames, their temporal ids, first and end sample."""
    flat = []
    for frames, ids, begin, end in groups:
        flat += [len(frames), *frames, *ids, begin, end]
    return zlib.crc32(np.asarray(flat, "<i8").tobytes())


def composite(frames):
    """Frames [H, W, 3] u8 drawn into one picture: cells as large as the largest, white around, 6 black pixels between."""
    from preprocess import resize_bicubic
    n, line = len(frames), 6
    cell_w, cell_h = max(f.shape[1] for f in frames), max(f.shape[0] for f in frames)
    shapes = {2: ((1, 2), (2, 1)), 3: ((1, 3), (3, 1)), 4: ((2, 2),)}.get(n, ((1, n),))
    size = lambda rows, cols: (rows * cell_h + (rows - 1) * line, cols * cell_w + (cols - 1) * line)
    off = [abs(size(*shape)[1] / size(*shape)[0] - 1) for shape in shapes]
    rows, cols = shapes[int(np.argmin(off))]
    if n == 2 and off[0] == off[1]:
        rows, cols = (1, 2) if np.mean([f.shape[1] / f.shape[0] for f in frames]) >= 1 else (2, 1)
    canvas = np.zeros((*size(rows, cols), 3), np.uint8)
    for i, frame in enumerate(frames):
        height, width, _ = frame.shape
        scale = min(cell_w / width, cell_h / height)
        fitted = resize_bicubic(frame, max(1, round(width * scale)), max(1, round(height * scale)))
        top, left = (i // cols) * (cell_h + line), (i % cols) * (cell_w + line)
        canvas[top:top + cell_h, left:left + cell_w] = 255
        top, left = top + (cell_h - fitted.shape[0]) // 2, left + (cell_w - fitted.shape[1]) // 2
        canvas[top:top + fitted.shape[0], left:left + fitted.shape[1]] = fitted
    return canvas


def pattern(width, height):
    """The picture of resize_crc.csv: byte i is x >> 24 after x = i * 2654435761; x ^= x >> 15; x *= 2246822519 (uint32)."""
    x = np.arange(3 * width * height, dtype=np.uint32) * np.uint32(2654435761)
    x ^= x >> np.uint32(15)
    return (x * np.uint32(2246822519) >> np.uint32(24)).astype(np.uint8).reshape(height, width, 3)


COMPOSITES = [[(40, 30)], [(40, 30)] * 2, [(30, 40)] * 2, [(37, 37)] * 2, [(40, 30)] * 3, [(30, 40)] * 3, [(90, 31)] * 3,
              [(40, 30)] * 4, [(40, 30)] * 5, [(13, 17)] * 9, [(40, 30), (30, 40)], [(64, 20), (10, 10), (33, 50)],
              [(31, 29), (15, 14), (62, 3), (1, 40)]]


def videos(count, seed):
    rng = random.Random(seed)
    rates = [1, 5, 8, 10, 12, 12.5, 15, 23.976, 24, 24000 / 1001, 25, 29.97, 30000 / 1001, 30, 48, 50, 60000 / 1001, 60, 120]
    seen = set()
    while len(seen) < count:
        fps = rng.choice(rates) if rng.random() < 0.7 else round(rng.uniform(0.3, 90), rng.choice((0, 1, 2, 3))) or 1
        seconds = rng.choice((rng.uniform(0.04, 5), rng.uniform(1, 70), rng.choice((1, 2, 60, 63, 64, 65, 180)),
                              rng.uniform(60, 70), rng.uniform(60, 4000)))
        n_frames = max(1, round(seconds * fps) + rng.choice((0, 0, 0, 1, -1)))
        if (n_frames, fps) not in seen:
            seen.add((n_frames, fps))
            yield n_frames, fps


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out")
    parser.add_argument("--pairs", type=int, default=2100)
    parser.add_argument("--composites", help="write composites.csv here instead")
    arguments = parser.parse_args()
    if arguments.composites:
        with open(arguments.composites, "w", encoding="ascii") as f:
            f.write("# width and height of the composite, CRC-32 of its bytes, then the sizes of its frames (pattern of resize_crc.csv)\n")
            for sizes in COMPOSITES:
                canvas = composite([pattern(w, h) for w, h in sizes])
                f.write(f"{canvas.shape[1]},{canvas.shape[0]},{zlib.crc32(canvas.tobytes())}," +
                        ",".join(f"{w}x{h}" for w, h in sizes) + "\n")
        return
    rows = []
    for n_frames, fps in videos(arguments.pairs, 11):
        stack = 1 + n_frames % 5
        packing = packed(n_frames, fps)
        sums = [checksum(every_second(n_frames, fps)), checksum(packing) if packing else "", checksum(with_sound(n_frames, fps, 1)),
                stack, checksum(with_sound(n_frames, fps, stack))]
        rows.append(f"{n_frames},{fps!r}," + ",".join(str(s) for s in sums) + "\n")
    with open(arguments.out, "w", encoding="ascii") as f:
        f.write("# CRC-32 of what checksum() of reference/video_choice.py says; packed is empty where the helper would take no frame\n")
        f.write("n_frames,fps,every_second,packed,with_sound,stack,with_sound_stacked\n" + "".join(rows))
    print(f"{len(rows)} videos")


if __name__ == "__main__":
    main()
