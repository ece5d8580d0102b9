"""Renders training pictures and speech in seeded shards, cut into patches and features once, and reads them back in batches of
one shape. Shards live outside git and can be deleted at any time. Not for the held-out sets (heldout.py)."""
import os

import numpy as np
import torch
from PIL import Image

import parts
import questions
import speech
import views

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.environ.get("TRAINING_CACHE", os.path.join(HERE, "..", ".cache", "training"))
SYMBOLS = parts.LETTERS + "."
DENSE = {"region": len(parts.REGIONS), "defect": len(parts.DEFECTS), "hole": 2, "part": 2, "char": len(SYMBOLS) + 1, "colour": len(parts.COLOURS) + 1}
SHARD = 512


def dense(truth, box, size, view_shape):
    """What every patch of a view shows -> [P, len(DENSE)] u8. box: the part of the picture that the view shows."""
    h, w = view_shape[0] // views.PATCH, view_shape[1] // views.PATCH
    x0, y0, x1, y1 = box
    out = np.zeros((h, w, len(DENSE)), np.uint8)
    region = Image.fromarray(truth["region"]).resize((w, h), Image.NEAREST, box)
    out[..., 0] = np.asarray(region)
    d = np.asarray(Image.fromarray(truth["defects"]).resize((w * 7, h * 7), Image.NEAREST, box))
    out[..., 1] = d.reshape(h, 7, w, 7).max((1, 3))
    for index, name in ((2, "holes"), (3, "parts"), (4, "chars")):
        for point in truth[name]:
            c, r = int((point[0] - x0) / (x1 - x0) * w // 1), int((point[1] - y0) / (y1 - y0) * h // 1)
            if 0 <= c < w and 0 <= r < h:
                out[r, c, index] = SYMBOLS.index(point[2]) + 1 if name == "chars" else 1
    colour = truth["facts"]["colour"]
    if colour:
        out[..., 5] = np.where((out[..., 0] > 0) & (out[..., 0] < 7), list(parts.COLOURS).index(colour) + 1, 0)
    return out.reshape(h * w, -1)


def one_picture(picture, truth):
    """-> (shape key, patches and dense labels of the overview and of the slices)."""
    cut, boxes, (cols, rows) = views.cut(picture)
    packed = [(views.patches(v), dense(truth, b, picture.size, v.shape)) for v, b in zip(cut, boxes)]
    grids = [(v.shape[0] // views.PATCH, v.shape[1] // views.PATCH) for v in cut]
    key = grids[0] + (grids[1] if cols else (0, 0)) + (cols, rows)
    return key, packed


def scene(rng, sliced):
    """One training picture -> (spec, size)."""
    sizes = views.SLICED if sliced else views.SINGLE
    size = sizes[int(rng.integers(len(sizes)))]
    kind = str(rng.choice(["plate", "gear", "board", "tray", "no part"], p=[0.3, 0.24, 0.22, 0.19, 0.05]))
    if kind == "tray":
        return parts.make_spec(rng, "train", size, parts.pick(rng, ["nuts", "washers", "screws"]), "wrong part" if rng.random() < 0.3 else "none", "none")
    if kind == "no part":
        return parts.make_spec(rng, "train", size, kind, extra="none")
    wanted = "none" if rng.random() < 0.22 else parts.pick(rng, parts.DEFECTS[1:])
    return parts.make_spec(rng, "train", size, kind, wanted, parts.pick(rng, ["label", "label", "display", "display", "none"]))


def render_shard(index, sliced_share, pair_share, n=SHARD):
    """-> {(pictures, overview grid, slice grid, columns, rows): {"patches", "slices", "dense", "dense_slices", "facts"}}."""
    groups = {}
    rng = np.random.default_rng([20261201, index])
    while n > 0:
        if rng.random() < pair_share:
            change = parts.CHANGES[int(rng.integers(len(parts.CHANGES)))]
            size = views.SINGLE[int(rng.integers(len(views.SINGLE)))]
            pair = parts.make_pair(rng, "train", size, change)
            drawn = [one_picture(*parts.render(s, k)) for k, s in enumerate(pair)]
            key, facts = (2,) + drawn[0][0], {"change": change}
        else:
            spec = scene(rng, rng.random() < sliced_share)
            picture, truth = parts.render(spec)
            drawn = [one_picture(picture, truth)]
            key, facts = (1,) + drawn[0][0], truth["facts"]
        g = groups.setdefault(key, {"patches": [], "dense": [], "slices": [], "dense_slices": [], "facts": []})
        g["facts"].append(facts)
        for _, packed in drawn:
            g["patches"].append(packed[0][0])
            g["dense"].append(packed[0][1])
            g["slices"] += [p for p, _ in packed[1:]]
            g["dense_slices"] += [d for _, d in packed[1:]]
        n -= 1
    for g in groups.values():
        for name in ("patches", "dense", "slices", "dense_slices"):
            g[name] = torch.from_numpy(np.stack(g[name])) if g[name] else None
    return groups


def render_speech(index, each=3):
    """-> list of (type, language, way of asking, mel [L, 80] f16)."""
    out = []
    rng = np.random.default_rng([20261202, index])
    for kind in questions.SPOKEN_TYPES:
        for language in ("en", "zh"):
            for way, text in enumerate(questions.ASK[kind][language]):
                for _ in range(each):
                    v = speech.voice(rng, "train", language)
                    out.append((kind, language, way, torch.from_numpy(speech.features(speech.speak(text, v))).half()))
    return out


def load(name, make):
    """A shard from its file, made first when it is not there."""
    os.makedirs(FOLDER, exist_ok=True)
    path = os.path.join(FOLDER, name)
    if not os.path.exists(path):
        value = make()
        torch.save(value, path + ".part")
        os.replace(path + ".part", path)
        return value
    return torch.load(path, weights_only=False)
