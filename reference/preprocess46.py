"""Pictures of MiniCPM-V 4.6: sizes in whole merged windows, torchvision's antialiased bicubic on uint8, position rows by true division.

After image_processing_minicpmv4_6.py of transformers and the uint8 path of torch's antialiased interpolation; integers and float64 only.
"""
import numpy as np

import preprocess
from preprocess import PATCH, SIDE, plan_slices

DIVISORS = {"16x": 4 * PATCH, "4x": 2 * PATCH}  # a view is a whole number of merged windows


def resize_weights(n_in, n_out):
    """For every output index (first input index, weights in 16 bits); and how many of the bits are fraction.

    The same filter as Pillow's, but weights are 16-bit numbers whose fraction takes what the largest weight of all leaves.
    """
    scale = n_in / n_out
    filter_scale = max(scale, 1.0)
    support = 2.0 * filter_scale
    table, largest = [], 0.0
    for x in range(n_out):
        centre = scale * (x + 0.5)
        first = max(int(centre - support + 0.5), 0)
        last = min(int(centre + support + 0.5), n_in)
        weights = [preprocess._cubic((k - centre + 0.5) * (1.0 / filter_scale)) for k in range(first, last)]
        total = 0.0
        for w in weights:
            total += w
        weights = [w / total for w in weights]
        largest = max([largest] + weights)
        table.append((first, weights))
    bits = 0
    while bits < 22 and int(0.5 + largest * (1 << (bits + 1))) < 1 << 15:
        bits += 1
    fixed = [(first, [int(w * (1 << bits) + (0.5 if w >= 0 else -0.5)) for w in weights]) for first, weights in table]
    return fixed, bits


def _resize_rows(pixels, n_out):
    table, bits = resize_weights(pixels.shape[0], n_out)
    out = np.empty((n_out,) + pixels.shape[1:], np.uint8)
    for x, (first, weights) in enumerate(table):
        acc = np.full(pixels.shape[1:], 1 << (bits - 1), np.int64)
        for k, w in enumerate(weights):
            acc += pixels[first + k].astype(np.int64) * w
        out[x] = np.clip(acc >> bits, 0, 255)
    return out


def resize(pixels, width, height):
    """pixels [H, W, 3] u8 -> [height, width, 3] u8: horizontal pass, then vertical, each rounded to u8."""
    if pixels.shape[1] != width:
        pixels = _resize_rows(pixels.swapaxes(0, 1), width).swapaxes(0, 1)
    if pixels.shape[0] != height:
        pixels = _resize_rows(pixels, height)
    return np.ascontiguousarray(pixels)


def cut_views(pixels, max_slices=preprocess.MAX_SLICES, downsample="16x"):
    """[H, W, 3] u8 -> list of views: the overview, then slices row by row; and (cols, rows)."""
    height, width, _ = pixels.shape
    overview, (cols, rows), (cell_w, cell_h) = plan_slices(width, height, max_slices, divisor=DIVISORS[downsample])
    views = [resize(pixels, *overview)]
    if cols:
        refined = resize(pixels, cell_w * cols, cell_h * rows)
        for r in range(rows):
            for c in range(cols):
                views.append(refined[r * cell_h:(r + 1) * cell_h, c * cell_w:(c + 1) * cell_w])
    return views, (cols, rows)


def buckets(n, side=SIDE):
    """Row (or column) of the position table for each of n patches along one axis: i / n in float32 among float32 bounds."""
    bounds = [np.float32(1 / side + j * (1 / side)) for j in range(side - 1)]
    return [sum(1 for b in bounds if b <= np.float32(i) / np.float32(n)) for i in range(n)]


def position_rows(h, w, side=SIDE):
    rows, cols = buckets(h, side), buckets(w, side)
    return [r * side + c for r in rows for c in cols]
