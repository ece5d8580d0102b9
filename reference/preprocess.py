"""From a picture to views, patches and position rows: the plain truth for V 2.6, V 4.5 and o 4.5.

Not fast on purpose. Follows image_processing_minicpmv.py (slicing), Pillow's Resample.c (bicubic) and
modeling_navit_siglip.py (position rows); float64 and integers only.
"""
import math

import numpy as np

SCALE_RESOLUTION = 448
PATCH = 14
MAX_SLICES = 9
SIDE = 70  # the learned position table is SIDE x SIDE


# ---------------------------------------------------------------- slicing
def ensure_divide(length, divisor):
    """Nearest multiple of divisor, halves to the even multiple (Python's round), at least one divisor."""
    return max(round(length / divisor) * divisor, divisor)


def best_size(width, height, upscale, scale=SCALE_RESOLUTION, divisor=PATCH):
    """About scale x scale pixels, same shape. Height is truncated first, width follows from the truncated height."""
    if width * height > scale * scale or upscale:
        ratio = width / height
        height = int(scale / math.sqrt(ratio))
        width = int(height * ratio)
    return ensure_divide(width, divisor), ensure_divide(height, divisor)


def best_grid(width, height, max_slices=MAX_SLICES, scale=SCALE_RESOLUTION):
    """(cols, rows), or None when one view is enough."""
    multiple = min(math.ceil(width * height / (scale * scale)), max_slices)
    if multiple <= 1:
        return None
    wanted = math.log(width / height)
    best, best_error = (1, 1), float("inf")
    for n in (multiple - 1, multiple, multiple + 1):
        if n == 1 or n > max_slices:
            continue
        for cols in range(1, n + 1):
            if n % cols:
                continue
            error = abs(wanted - math.log(cols / (n // cols)))
            if error < best_error:
                best, best_error = (cols, n // cols), error
    return best


def plan_slices(width, height, max_slices=MAX_SLICES, scale=SCALE_RESOLUTION, divisor=PATCH):
    """((overview_w, overview_h), (cols, rows), (slice_w, slice_h)); the last two are (0, 0) when there is no grid."""
    grid = best_grid(width, height, max_slices, scale)
    if grid is None:
        return best_size(width, height, True, scale, divisor), (0, 0), (0, 0)
    cols, rows = grid
    overview = best_size(width, height, False, scale, divisor)
    refined_w, refined_h = ensure_divide(width, cols), ensure_divide(height, rows)
    cell = best_size(refined_w / cols, refined_h / rows, True, scale, divisor)
    return overview, grid, cell


# ---------------------------------------------------------------- Pillow's bicubic
def _cubic(t, a=-0.5):
    t = abs(t)
    if t < 1.0:
        return ((a + 2.0) * t - (a + 3.0)) * t * t + 1
    if t < 2.0:
        return (((t - 5) * t + 8) * t - 4) * a
    return 0.0


def resize_weights(n_in, n_out):
    """For every output index: (first input index, fixed-point weights with 22 fraction bits)."""
    scale = n_in / n_out
    filter_scale = max(scale, 1.0)
    support = 2.0 * filter_scale
    table = []
    for x in range(n_out):
        centre = (x + 0.5) * scale
        first = max(int(centre - support + 0.5), 0)
        last = min(int(centre + support + 0.5), n_in)
        weights = [_cubic((k - centre + 0.5) * (1.0 / filter_scale)) for k in range(first, last)]
        total = 0.0
        for w in weights:
            total += w
        fixed = []
        for w in weights:
            v = (w * (1.0 / total) if total != 0.0 else w) * (1 << 22)
            fixed.append(int(v - 0.5) if v < 0 else int(v + 0.5))
        table.append((first, fixed))
    return table


def _resize_rows(pixels, n_out):
    """Resizes axis 0 of an array [n_in, ...] u8."""
    n_in = pixels.shape[0]
    out = np.empty((n_out,) + pixels.shape[1:], np.uint8)
    for x, (first, weights) in enumerate(resize_weights(n_in, n_out)):
        acc = np.full(pixels.shape[1:], 1 << 21, np.int64)
        for k, w in enumerate(weights):
            acc += pixels[first + k].astype(np.int64) * w
        out[x] = np.clip(acc >> 22, 0, 255)
    return out


def resize_bicubic(pixels, width, height):
    """pixels [H, W, 3] u8 -> [height, width, 3] u8: horizontal pass, then vertical, each rounded to u8."""
    if pixels.shape[1] != width:
        pixels = _resize_rows(pixels.swapaxes(0, 1), width).swapaxes(0, 1)
    if pixels.shape[0] != height:
        pixels = _resize_rows(pixels, height)
    return np.ascontiguousarray(pixels)


# ---------------------------------------------------------------- views, patches, position rows
def cut_views(pixels, max_slices=MAX_SLICES, slice_mode=True):
    """[H, W, 3] u8 -> list of views: the overview, then slices row by row; and (cols, rows)."""
    height, width, _ = pixels.shape
    if not slice_mode:
        if width % PATCH or height % PATCH:
            raise ValueError(f"without slicing the size must be a multiple of {PATCH}, got {width} x {height}")
        return [pixels], (0, 0)
    overview, (cols, rows), (cell_w, cell_h) = plan_slices(width, height, max_slices)
    views = [resize_bicubic(pixels, *overview)]
    if cols:
        refined = resize_bicubic(pixels, cell_w * cols, cell_h * rows)
        for r in range(rows):
            for c in range(cols):
                views.append(refined[r * cell_h:(r + 1) * cell_h, c * cell_w:(c + 1) * cell_w])
    return views, (cols, rows)


def grid_of(view):
    """(h, w) in patches."""
    return view.shape[0] // PATCH, view.shape[1] // PATCH


def patches_of(view, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5)):
    """View [H, W, 3] u8 -> [P, C] f64, C ordered (channel, y, x), patches row-major."""
    h, w = grid_of(view)
    x = (view.astype(np.float64) / 255.0 - np.array(mean)) / np.array(std)
    x = x.reshape(h, PATCH, w, PATCH, 3).transpose(0, 2, 4, 1, 3)
    return x.reshape(h * w, 3 * PATCH * PATCH)


def fractions(n):
    """Coordinates i / n as a float32 arange with step float32(1 / n) gives them on AVX2: blocks of 8 lanes, then a tail.

    The step is multiplied in double; a block's start is rounded to float32 before its lanes are added.
    """
    step = float(np.float32(1.0) / np.float32(n))
    values = []
    for i in range(n):
        block = i // 8 * 8
        if block + 8 <= n:
            values.append(np.float32(float(np.float32(block * step)) + (i - block) * step))
        else:
            values.append(np.float32(i * step))
    return values


def buckets(n, side=SIDE):
    """Row (or column) of the position table for each of n patches along one axis."""
    bounds = [np.float32(1 / side + j * (1 / side)) for j in range(side - 1)]
    return [sum(1 for b in bounds if b <= v) for v in fractions(n)]


def position_rows(h, w, side=SIDE):
    """Row of the learned table for every patch, row-major."""
    rows, cols = buckets(h, side), buckets(w, side)
    return [r * side + c for r in rows for c in cols]


# ---------------------------------------------------------------- temporal ids and audio counts
def temporal_id(grid_index):
    """Id of the grid point grid_index * 0.1 s, in double: sometimes one less than grid_index."""
    return int((grid_index * 0.1) / 0.1)


def audio_tokens(samples):
    """(mel frames, encoder frames, tokens) of one piece of 16 kHz sound of at most 30 s."""
    frames = -(-samples // 160)
    encoded = (frames - 1) // 2 + 1
    return frames, encoded, (encoded - 5) // 5 + 1
