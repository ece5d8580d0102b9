"""Checks preprocess.resize_bicubic against Pillow and writes CRC-32 vectors for the C++ resizer.

Needs a Pillow whose resize always runs the horizontal pass first: below 12.3 (see README.md). Byte i of a test picture's
RGB data is x >> 24 after x = i * 2654435761; x ^= x >> 15; x *= 2246822519, all in uint32.
"""
import argparse
import random
import zlib

import numpy as np
import PIL
from PIL import Image

import preprocess

HEADER = """# w,h,new_w,new_h,crc32: CRC-32 (zlib) of Pillow's BICUBIC resize, RGB bytes, horizontal pass first (Pillow < 12.3).
# Source byte i = x >> 24 after x = i * 2654435761; x ^= x >> 15; x *= 2246822519 (uint32), i over all 3 * w * h bytes.
w,h,new_w,new_h,crc32
"""


def picture(width, height):
    x = np.arange(3 * width * height, dtype=np.uint32) * np.uint32(2654435761)
    x ^= x >> np.uint32(15)
    x *= np.uint32(2246822519)
    return (x >> np.uint32(24)).astype(np.uint8).reshape(height, width, 3)


def cases(count, seed):
    """Awkward pairs first, then what slicing really asks for, then random ones."""
    fixed = [(1, 1, 1, 1), (1, 1, 14, 14), (1, 1, 5, 1), (2, 2, 1, 1), (3, 1, 1, 3), (5, 7, 5, 7), (448, 448, 448, 448),
             (449, 448, 448, 448), (17, 40, 17, 13), (17, 40, 30, 40), (1, 100, 14, 448), (10, 1000, 42, 4480),
             (1000, 10, 4480, 42), (100, 1, 448, 14), (4000, 40, 448, 14), (40, 4000, 14, 448), (14, 14, 448, 448),
             (300, 200, 546, 364), (640, 480, 518, 392), (640, 480, 728, 546), (1280, 720, 602, 336),
             (1280, 720, 1470, 812), (100, 1000, 140, 1414), (1000, 3, 7, 200), (3, 1000, 200, 7), (255, 257, 128, 128)]
    yield from fixed
    rng = random.Random(seed)
    for n in range(count - len(fixed)):
        if n % 4 == 0:
            w, h = rng.randint(1, 900), rng.randint(1, 900)
            overview, (cols, rows), cell = preprocess.plan_slices(w, h)
            yield (w, h) + ((cell[0] * cols, cell[1] * rows) if cols and n % 8 == 0 else overview)
        else:
            top = rng.choice((12, 60, 300, 700))
            yield tuple(rng.randint(1, top) for _ in range(4))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", help="write the CSV here")
    parser.add_argument("--count", type=int, default=320)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--only-pillow", action="store_true", help="skip the slow comparison with preprocess.py")
    args = parser.parse_args()
    if tuple(int(v) for v in PIL.__version__.split(".")[:2]) >= (12, 3):
        raise SystemExit(f"Pillow {PIL.__version__} may resize vertically first; use one below 12.3")
    lines = []
    for w, h, new_w, new_h in cases(args.count, args.seed):
        source = picture(w, h)
        truth = np.asarray(Image.fromarray(source).resize((new_w, new_h), Image.Resampling.BICUBIC))
        if not args.only_pillow and not np.array_equal(truth, preprocess.resize_bicubic(source, new_w, new_h)):
            raise SystemExit(f"preprocess.py differs from Pillow at {w} x {h} -> {new_w} x {new_h}")
        lines.append(f"{w},{h},{new_w},{new_h},{zlib.crc32(truth.tobytes())}\n")
    print(f"{len(lines)} resizes equal to Pillow {PIL.__version__}")
    if args.out:
        with open(args.out, "w", encoding="ascii") as f:
            f.write(HEADER + "".join(lines))


if __name__ == "__main__":
    main()
