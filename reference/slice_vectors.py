"""Writes the slice plans and the other small integer tables that the C++ tests read. --count makes longer lists for a full check."""
import argparse
import math
import os
import random

import preprocess


def ties(width, height):
    """Every place where the plan rounds an exact half: (which, multiple of the divisor below it, divisor, grid)."""
    found = []

    def note(which, length, divisor, grid=None):
        if (length / divisor) % 1 == 0.5:
            found.append((which, int(length // divisor), divisor, grid))

    def best(which, w, h, upscale):
        if w * h > 448 * 448 or upscale:
            r = w / h
            h = int(448 / math.sqrt(r))
            w = int(h * r)
        note(which + "_w", w, 14)
        note(which + "_h", h, 14)

    grid = preprocess.best_grid(width, height)
    best("overview", width, height, grid is None)
    if grid:
        cols, rows = grid
        note("refine_w", width, cols, grid)
        note("refine_h", height, rows, grid)
        best("cell", preprocess.ensure_divide(width, cols) / cols, preprocess.ensure_divide(height, rows) / rows, True)
    # The multiples of the refined size are unbounded: parity is what matters there.
    return [(a, q % 2 if a.startswith("refine") else q, d, g) for a, q, d, g in found]


def pairs(count, seed):
    """(width, height) without repeats: the edges, 1:100 shapes, every kind of tie that turns up, then random sizes."""
    edges = [1, 2, 3, 6, 7, 8, 13, 14, 15, 20, 21, 22, 35, 49, 63, 100, 200, 223, 224, 225, 300, 400, 447, 448, 449, 480,
             500, 634, 640, 672, 720, 800, 896, 897, 1000, 1080, 1280, 1343, 1344, 1345, 1500, 1920, 2160, 3000, 3840,
             4000, 5000, 8000]
    seen = dict.fromkeys((w, h) for w in edges for h in edges)
    for n in list(range(1, 90)) + list(range(90, 400, 7)):
        for other in (100 * n - 1, 100 * n, 100 * n + 1):
            seen[(n, other)] = None
            seen[(other, n)] = None
    rng = random.Random(seed)

    def draw():
        w, h = int(10 ** rng.uniform(0, 3.8)), int(10 ** rng.uniform(0, 3.8))
        return (w, h) if rng.random() < 0.5 else (rng.randint(1, 2200), rng.randint(1, 2200))

    known = set()
    for _ in range(200_000):
        pair = draw()
        fresh = set(ties(*pair)) - known
        if fresh:
            known |= fresh
            seen[pair] = None
    while len(seen) < count:
        seen[draw()] = None
    return list(seen), len(known)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, help="folder")
    parser.add_argument("--count", type=int, default=11_000)
    parser.add_argument("--seed", type=int, default=3)
    args = parser.parse_args()

    def write(name, header, rows):
        with open(os.path.join(args.out, name), "w", encoding="ascii") as f:
            f.write(header + "\n")
            f.writelines(",".join(str(v) for v in row) + "\n" for row in rows)

    sizes, n_ties = pairs(args.count, args.seed)
    rows = []
    for w, h in sizes:
        overview, grid, cell = preprocess.plan_slices(w, h)
        rows.append((w, h) + overview + grid + cell)
    write("slice_plans.csv", "# 9 slices at most, scale 448, divisor 14; cols = rows = 0: no slices\n"
          "w,h,overview_w,overview_h,cols,rows,slice_w,slice_h", rows)
    write("temporal_ids.csv", "# only where the id differs, for grid indices 0..20000\ni,id",
          [(i, preprocess.temporal_id(i)) for i in range(20001) if preprocess.temporal_id(i) != i])
    write("position_buckets.csv", "# bucket of patch i of n along one axis (float32 arange as torch runs it on AVX2)\n"
          "n,i,bucket", [(n, i, b) for n in range(1, 141) for i, b in enumerate(preprocess.buckets(n))])
    write("audio_tokens.csv", "# one piece of at most 480000 samples at 16 kHz\nsamples,mel_frames,encoder_frames,tokens",
          [(s,) + preprocess.audio_tokens(s) for s in
           sorted({1, 159, 160, 161, 800, 1440, 1441, 1600, 8000, 16000, 16480, 16560, 479999, 480000}
                  | set(range(1, 480001, 1999)))])
    print(f"{len(rows)} slice plans, {n_ties} kinds of exact halves among them")


if __name__ == "__main__":
    main()
