"""Cuts a picture into the overview and its slices as the reference does, with Pillow's own bicubic, at this model's resolution."""
import os
import sys

import numpy as np
from PIL import Image

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "reference"))
import preprocess  # noqa: E402

SCALE, PATCH, MAX_SLICES, SIDE = 168, 14, 9, 24


def plan(width, height):
    """(overview size, (cols, rows), slice size); sizes are (width, height)."""
    return preprocess.plan_slices(width, height, MAX_SLICES, SCALE, PATCH)


def cut(picture):
    """RGB picture -> (list of views [H, W, 3] u8, list of boxes in the picture that they show, (cols, rows))."""
    w, h = picture.size
    overview, (cols, rows), (cw, ch) = plan(w, h)
    views, boxes = [np.asarray(picture.resize(overview, Image.BICUBIC))], [(0.0, 0.0, float(w), float(h))]
    if cols:
        whole = np.asarray(picture.resize((cw * cols, ch * rows), Image.BICUBIC))
        for r in range(rows):
            for c in range(cols):
                views.append(whole[r * ch:(r + 1) * ch, c * cw:(c + 1) * cw])
                boxes.append((c * w / cols, r * h / rows, (c + 1) * w / cols, (r + 1) * h / rows))
    return views, boxes, (cols, rows)


def patches(view):
    """[H, W, 3] u8 -> [P, 588] u8, ordered (channel, y, x) in a patch."""
    h, w = view.shape[0] // PATCH, view.shape[1] // PATCH
    return np.ascontiguousarray(view.reshape(h, PATCH, w, PATCH, 3).transpose(0, 2, 4, 1, 3)).reshape(h * w, 3 * PATCH * PATCH)


def position_rows(h, w):
    return preprocess.position_rows(h, w, SIDE)


# Sizes used for training: few shapes of views, so that batches need no padding. The held-out sets have any size.
SINGLE = [(168, 168), (160, 160), (190, 144), (144, 190), (206, 137), (137, 206), (220, 124), (120, 90), (100, 132)]
SLICED = [(300, 168), (168, 300), (280, 200), (336, 336), (300, 330), (420, 300), (300, 420), (480, 320), (400, 380), (480, 480), (500, 460), (560, 400)]
