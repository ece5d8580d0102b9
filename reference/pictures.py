"""Draws the seeded test pictures: smooth gradients with plain shapes on them, so that they compress well and every slice differs."""
import argparse
import os

import numpy as np
from PIL import Image

PICTURES = {  # name -> (width, height, seed)
    "nine": (1300, 1250, 1),      # 3 x 3 slices, both resized
    "exact": (1344, 1344, 2),     # 3 x 3 slices that need no resize
    "wide": (1280, 720, 3),       # 3 x 2 slices
    "photo": (640, 480, 4),       # 2 x 1 slices
    "small": (300, 200, 5),       # no slices
    "tall": (100, 1000, 6),       # no slices, more than 70 rows of patches
    "square": (448, 448, 7),      # no slices, no resize
}


def draw(width, height, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    picture = np.empty((height, width, 3), np.uint8)
    for c, (a, b) in enumerate(((x / width, 0.6), (y / height, 0.5), ((x + y) / (width + height), 0.7))):
        picture[..., c] = np.floor((0.15 + b * a) * 255)
    step = max(min(width, height) // 8, 20)
    for cy in range(0, height, 2 * step):
        for cx in range(0, width, 2 * step):
            kind, size = rng.integers(4), step * rng.uniform(0.3, 0.9)
            colour = rng.integers(0, 256, 3)
            px, py = cx + rng.uniform(0.5, 1.5) * step, cy + rng.uniform(0.5, 1.5) * step
            dx, dy = x - px, y - py
            if kind == 0:
                inside = (abs(dx) < size) & (abs(dy) < size)
            elif kind == 1:
                inside = dx * dx + dy * dy < size * size
            elif kind == 2:
                inside = (dy > -size) & (abs(dx) * 1.5 + dy < size)
            else:
                inside = (abs(dx) < size) & (abs(dy) < size) & (np.floor((dx + dy) / 9) % 2 == 0)
            picture[inside] = colour
    return picture


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    for name, (w, h, seed) in PICTURES.items():
        path = os.path.join(args.out, name + ".png")
        Image.fromarray(draw(w, h, seed)).save(path, optimize=True)
        print(path, os.path.getsize(path))


if __name__ == "__main__":
    main()
