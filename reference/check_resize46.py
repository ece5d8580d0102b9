"""Compares preprocess46.resize and cut_views with transformers' image processor of MiniCPM-V 4.6 and with torchvision itself: pixels, sizes, grids.

Needs torch, torchvision and transformers; run by hand. Fails on any difference.
"""
import argparse
import sys
import zlib

import numpy as np
import torch
from torchvision.transforms.v2 import functional
from transformers.models.minicpmv4_6.image_processing_minicpmv4_6 import MiniCPMV4_6ImageProcessor

import preprocess
import preprocess46
import resize_vectors


def check_resize(rng, count):
    wrong = 0
    for i in range(count):
        w, h = (int(2 ** rng.uniform(0, 9.5)) for _ in range(2))
        to_w, to_h = (int(2 ** rng.uniform(0, 8.5)) for _ in range(2))
        pixels = rng.integers(0, 256, (h, w, 3), dtype=np.uint8)
        if i % 3 == 0:
            pixels = np.where(pixels > 127, 255, 0).astype(np.uint8)  # overshoots need clamping
        theirs = functional.resize(torch.from_numpy(pixels).permute(2, 0, 1).contiguous(), [to_h, to_w],
                                   interpolation=functional.InterpolationMode.BICUBIC, antialias=True)
        ours = preprocess46.resize(pixels, to_w, to_h)
        off = np.abs(ours.astype(int) - theirs.permute(1, 2, 0).numpy().astype(int)).max()
        if off:
            wrong += 1
            print(f"resize {w} x {h} -> {to_w} x {to_h}: {off} grey levels off")
    return wrong


def write_vectors(path, count):
    """The sizes of resize_vectors.py, torchvision's pixels."""
    with open(path, "w", encoding="ascii") as f:
        f.write("# w,h,new_w,new_h,crc32: as resize_crc.csv, but torchvision's antialiased bicubic of uint8.\nw,h,new_w,new_h,crc32\n")
        for w, h, to_w, to_h in resize_vectors.cases(count, 46):
            if min(w, h, to_w, to_h) == 1:
                continue  # torch 2.15 fails with an internal error on some of these
            source = resize_vectors.picture(w, h)
            theirs = functional.resize(torch.from_numpy(source).permute(2, 0, 1).contiguous(), [to_h, to_w],
                                       interpolation=functional.InterpolationMode.BICUBIC, antialias=True)
            f.write(f"{w},{h},{to_w},{to_h},{zlib.crc32(theirs.permute(1, 2, 0).contiguous().numpy().tobytes())}\n")


def check_views(rng, count):
    """All sizes by arithmetic; the pixels of some of the smaller pictures."""
    processor = MiniCPMV4_6ImageProcessor()
    wrong = 0
    for i in range(count):
        pixels = i < count // 10
        w, h = (int(2 ** rng.uniform(3, 10.5 if pixels else 12.5)) for _ in range(2))
        for mode in ("16x", "4x"):
            slices = int(rng.integers(1, 13))
            grid = processor.get_sliced_grid((h, w), slices, 448)
            ours = preprocess.plan_slices(w, h, slices, divisor=preprocess46.DIVISORS[mode])
            source = processor.find_best_resize((h, w), 448, 14, mode, allow_upscale=grid is None)
            refined = processor.get_refine_size((h, w), grid, 448, 14, mode, allow_upscale=True) if grid else (0, 0)
            theirs = (source[::-1], tuple(grid[::-1]) if grid else (0, 0),
                      (refined[1] // grid[1], refined[0] // grid[0]) if grid else (0, 0))
            if ours != theirs:
                wrong += 1
                print(f"{w} x {h}, {slices} slices, {mode}: ours {ours}, theirs {theirs}")
            if not pixels:
                continue
            picture = rng.integers(0, 256, (h, w, 3), dtype=np.uint8)
            views, cut = preprocess46.cut_views(picture, slices, mode)
            theirs = processor(images=torch.from_numpy(picture).permute(2, 0, 1), max_slice_nums=slices, downsample_mode=mode,
                               return_tensors="pt")
            strip = np.concatenate([preprocess.patches_of(v).reshape(-1, 3, 14, 14) for v in views])
            strip = strip.transpose(1, 2, 0, 3).reshape(3, 14, -1)
            sizes = [list(preprocess.grid_of(v)) for v in views]
            same = sizes == theirs["target_sizes"].tolist() and list(theirs["grids"][0]) == [cut[1], cut[0]]
            if not same or np.abs(strip - theirs["pixel_values"][0].numpy()).max() > 1e-6:
                wrong += 1
                print(f"{w} x {h}, {slices} slices, {mode}: views differ")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--resizes", type=int, default=300)
    parser.add_argument("--pictures", type=int, default=500)
    parser.add_argument("--write", metavar="FILE", help="also write checksums of torchvision's results")
    args = parser.parse_args()
    if args.write:
        write_vectors(args.write, 200)
    rng = np.random.default_rng(46)
    wrong = check_resize(rng, args.resizes)
    print(f"{args.resizes} resizes, {wrong} differ (torch here runs {torch.backends.cpu.get_cpu_capability()})")
    views_wrong = check_views(rng, args.pictures)
    print(f"{args.pictures} pictures in both modes, {views_wrong} differ")
    sys.exit(wrong + views_wrong > 0)


if __name__ == "__main__":
    main()
