"""Frame choice and temporal ids of MiniCPM-V 4.5 for many lengths and frame rates: writes video_plans.csv.

The rule of the model card's encode_video in plain Python, with numpy's arange and scipy's cKDTree as there, because both
decide roundings and ties. Needs scipy; the tests only read the result.

    python3 reference/video_vectors.py --out tests/data/preprocess/video_plans.csv
"""
import argparse
import math
import random
import zlib

import numpy as np
from scipy.spatial import cKDTree

MAX_FRAMES, MAX_PACKING, TICK = 180, 3, 0.1


def plan(n_frames, fps, choose_fps, force_packing):
    seconds = n_frames / fps
    if choose_fps * int(seconds) <= MAX_FRAMES:
        packing, count = 1, round(min(choose_fps, round(fps)) * min(MAX_FRAMES, seconds))
    else:
        packing = math.ceil(seconds * choose_fps / MAX_FRAMES)
        if packing <= MAX_PACKING:
            count = round(seconds * choose_fps)
        else:
            packing, count = MAX_PACKING, round(MAX_FRAMES * MAX_PACKING)
    if force_packing:
        packing = min(force_packing, MAX_PACKING)
    if count == 0:
        return None
    gap = n_frames / count
    frames = np.array([int(i * gap + gap / 2) for i in range(count)])
    ticks = np.arange(0, seconds, TICK)
    _, nearest = cKDTree(ticks[:, None]).query((frames / fps)[:, None])
    return packing, frames, (ticks[nearest] / TICK).astype(np.int32)


def checksum(values):
    return zlib.crc32(np.asarray(values, "<i4").tobytes())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    out = parser.parse_args().out
    rng = random.Random(5)
    rates = [1, 4, 5, 10, 12.5, 15, 20, 24, 24000 / 1001, 25, 29.97, 30000 / 1001, 30, 50, 60, 100]
    rows = []
    for rate in rates:
        for _ in range(20):
            seconds = rng.choice((0.7, 3, 20, 59, 60, 61, 120, 179, 180, 181, 240, 1000))
            n_frames = max(1, round(seconds * rate) + rng.choice((0, 0, 0, 1, -1, 7)))
            choose, force = rng.choice((3, 3, 5, 1, 10)), rng.choice((0, 0, 0, 2))
            result = plan(n_frames, rate, choose, force)
            if result:
                packing, frames, ids = result
                rows.append(f"{n_frames},{rate!r},{choose},{force},{packing},{len(frames)},{checksum(frames)},{checksum(ids)}\n")
    # Every frame of a video: the exact ties between two ticks are all in here.
    for rate in rates:
        n_frames = int(300 * rate)
        ticks = np.arange(0, n_frames / rate, TICK)
        _, nearest = cKDTree(ticks[:, None]).query((np.arange(n_frames) / rate)[:, None])
        rows.append(f"{n_frames},{rate!r},0,0,0,{n_frames},0,{checksum((ticks[nearest] / TICK).astype(np.int32))}\n")
    with open(out, "w", encoding="ascii") as f:
        f.write("# CRC-32 of the frame indices and of the temporal ids as little-endian int32; choose_fps 0: ids of every frame\n")
        f.write("n_frames,fps,choose_fps,force_packing,packing,n_chosen,frames_crc32,ids_crc32\n" + "".join(rows))
    print(f"{len(rows)} rows")


if __name__ == "__main__":
    main()
