"""Runs the reference on the tiny models and writes the expected results that the C++ golden tests read. Format: README.md."""
import argparse
import hashlib
import json
import os
import platform

import numpy as np

import preprocess
import resampler
import siglip
import template
import weights
from model import Model, load_picture, load_sound

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
N_TOKENS = 64
LLM_ROWS, VIT_ROWS, PIXEL_ROWS = 24, 16, 8

CASES = {  # family -> case -> (question, pictures)
    "minicpm-v-2_6": {
        "text": ("Describe a fast machine in one sentence.", []),
        "nine_slices": ("What is in the image?", ["nine"]),
        "two_pictures": ("Compare the two pictures.", ["photo", "small"]),
    },
    "minicpm-v-4_5": {
        "text": ("请用中文回答：什么是机器？ Please think, then answer.", []),
        "nine_slices": ("What is in the image?", ["nine"]),
        "two_pictures": ("Compare the two pictures.", ["wide", "square"]),
    },
    "minicpm-o-4_5": {
        "text": ("桌子上有什么？ Say it's true.", []),
        "nine_slices": ("How many objects are there?", ["exact"]),
        "two_pictures": ("Which picture is brighter?", ["tall", "photo"]),
    },
}

SOUND_CASES = {  # of o 4.5: case -> (question or None, pictures, sounds)
    "speech": ("Which cards did he read?", [], ["cards_005"]),
    "picture_and_speech": ("Answer the question.", ["small"], ["cards_001"]),
    "two_clips": (None, [], ["cards_001", "cards_005"]),
}


def some_rows(n, count, always=()):
    """Sorted row numbers: first, last, `always`, and others spread evenly."""
    chosen = {0, n - 1} | {r for r in always if 0 <= r < n}
    for r in np.linspace(0, n - 1, count).astype(int):
        if len(chosen) < count:
            chosen.add(int(r))
    return np.array(sorted(chosen), np.int32)


class Dump:
    """Collects stages as f32 (pixels as u8), whole or as a subset of rows with its row numbers beside it."""

    def __init__(self):
        self.tensors = {}

    def add(self, key, value, rows=None, dtype="F32"):
        if rows is not None and len(rows) < len(value):
            self.tensors[key] = (dtype, value[rows])
            self.tensors[key + "#rows"] = ("I32", rows)
        else:
            self.tensors[key] = (dtype, value)

    def view_tap(self, item, everything):
        def tap(name, value, layer=None):
            if not everything and name != "resampler.out":
                return
            key = name + (f".{layer}" if layer is not None else "") + f"@{item}"
            count = {"view.pixels": PIXEL_ROWS, "view.patches": 8}.get(name, VIT_ROWS)
            self.add(key, value, some_rows(len(value), count), "U8" if name == "view.pixels" else "F32")

        return tap

    def sound_tap(self, first, count=VIT_ROWS):
        def tap(piece, name, value, layer=None):
            key = name + (f".{layer}" if layer is not None else "") + f"@{first + piece}"
            self.add(key, value, None if name == "aud.pool" else some_rows(len(value), count))

        return tap

    def text_tap(self, rows):
        def tap(name, value, layer=None):
            key = name + (f".{layer}" if layer is not None else "")
            self.add(key, value, rows if len(value) > 1 else None)

        return tap


def sensitivity(model, ids, views, visual, expected):
    """For every view: the first of the greedy tokens that changes when a square of 56 x 56 pixels is painted on it, or None."""
    found = []
    for i, view in enumerate(views):
        painted = view.copy()
        y, x = view.shape[0] // 2, view.shape[1] // 2
        painted[y:y + 56, x:x + 56] = (250, 240, 10)
        other = visual[:i] + [model.encode_view(painted)] + visual[i + 1:]
        tokens, _ = model.generate(model.embed(ids, other), N_TOKENS)
        found.append(next((k for k in range(N_TOKENS) if tokens[k] != expected[k]), None))
    return found


def deal_sound(model, clips, tap):
    """All clips of a message are encoded as one sound; its rows are dealt out in order, as many as each clip alone would give."""
    if not clips:
        return []
    rows = model.encode_sound(np.concatenate(clips), tap)
    ends = np.cumsum([model.count_sound(c) for c in clips])
    assert ends[-1] <= len(rows), "a clip would get too few rows"
    return [rows[end - model.count_sound(c):end] for c, end in zip(clips, ends)]


def frame(width, height, index):
    """A made-up frame: gradients that move with the index (tests/golden/fake_video.h draws the same)."""
    y, x = np.mgrid[:height, :width]
    return np.stack([x * 5 + index * 37, y * 3 + index * 11, (x ^ y) + index], axis=-1).astype(np.uint8)


def run_video(model):
    """A video through the whole model: frames as the family takes them, for o 4.5 with their sound."""
    family, question = model.family, "What happens?"
    dump, visual, parts, item = Dump(), [], [], 0
    width, height, fps = 56, 42, 10
    n_frames = {"minicpm-v-2_6": 31, "minicpm-v-4_5": 20, "minicpm-o-4_5": 20}[family]
    # Groups of (frames, times): every second, six frames in two packs, every second.
    groups = {"minicpm-v-2_6": [([i], [-1]) for i in (0, 10, 20, 30)],
              "minicpm-v-4_5": [],
              "minicpm-o-4_5": [([i], [-1]) for i in (0, 10)]}[family]
    if family == "minicpm-v-4_5":
        gap = n_frames / 6  # 3 a second for 2 s, from the middle of each sixth
        frames = [int(i * gap + gap / 2) for i in range(6)]
        times = [preprocess.temporal_id(int(np.argmin(np.abs(np.arange(0, n_frames / fps, 0.1) - f / fps)))) for f in frames]
        groups = [(frames[i:i + 3], times[i:i + 3]) for i in (0, 3)]
    for frames, times in groups:
        rows, grids = [], []
        for i in frames:
            views, cut = preprocess.cut_views(frame(width, height, i), 2 if family == "minicpm-v-2_6" else 1)
            assert len(views) == 1 and cut == (0, 0)
            tap = dump.view_tap(item, item in (0, 5))
            grids.append(preprocess.grid_of(views[0]))
            patches = preprocess.patches_of(views[0])
            tap("view.patches", patches)
            rows.append(siglip.forward(patches, grids[-1], model.weights, model.config, tap))
            item += 1
        first = item - len(frames)
        visual += [resampler.forward(rows, grids, model.weights, times,
                                     lambda name, value, i, first=first: dump.add(
                                         f"{name}@{first + i}", value, some_rows(len(value), 4 if name == "resampler.kv" else 16)))]
        parts.append(template.placeholder(0, (0, 0), model.config["query_num"], False))
    case = {"family": family, "model": f"models/tiny/{family}", "case": "video", "kind": "video", "prompt": question,
            "width": width, "height": height, "frames": n_frames, "fps": fps, "groups": [g[0] for g in groups],
            "temporal_ids": [g[1] for g in groups]}
    spoken = family == "minicpm-o-4_5"
    if spoken:
        sound = load_sound(os.path.join(ROOT, "tests", "data", "audio", "cards_005.wav"))[:32000]
        heard = deal_sound(model, [sound[:16000], sound[16000:]], dump.sound_tap(0))
        visual = [rows for pair in zip(visual, heard) for rows in pair]
        parts = ["".join(p + template.sound_placeholder(len(h)) for p, h in zip(parts, heard)) + question]
        case["sound"], case["samples"] = "../audio/cards_005.wav", len(sound)
    else:
        parts.append(question)
    text = template.chat(family, [("user", parts)], None if family == "minicpm-v-2_6" else False, spoken=spoken)
    ids = model.tokenizer.encode(text)
    tokens, margins = model.generate(model.embed(ids, visual), N_TOKENS, dump.text_tap(some_rows(len(ids), LLM_ROWS)))
    assert len(set(tokens)) >= 20 and min(margins) > 1e-3, (family, len(set(tokens)), min(margins))
    case.update({"rendered": text, "prompt_ids": ids, "stops_ignored": True, "token_ids": tokens,
                 "margins": [round(m, 6) for m in margins], "text": model.tokenizer.decode(tokens)})
    return case, dump.tensors


def run_case(model, name, question, pictures, check, sounds=()):
    family = model.family
    thinking = None if family == "minicpm-v-2_6" else False
    files = [f"images/{p}.png" for p in pictures]
    loaded = [load_picture(os.path.join(ROOT, "tests", "data", "golden", f)) for f in files]
    heard = [load_sound(os.path.join(ROOT, "tests", "data", "audio", f"{s}.wav")) for s in sounds]
    text, ids, views, grids = model.prompt(question, loaded, thinking, sounds=heard)
    dump = Dump()
    full = {0, 1, len(views) - 1}
    visual = [model.encode_view(v, dump.view_tap(i, i in full)) for i, v in enumerate(views)]
    rows_heard = deal_sound(model, heard, dump.sound_tap(0))
    visual += rows_heard
    fill = model.tokenizer.added_id["<unk>"]
    edges = [i for i in range(1, len(ids)) if (ids[i] == fill) != (ids[i - 1] == fill)][:12]
    rows = some_rows(len(ids), LLM_ROWS, edges + [e - 1 for e in edges[:4]])
    tokens, margins = model.generate(model.embed(ids, visual), N_TOKENS, dump.text_tap(rows))
    starts = [i for i in range(len(ids)) if ids[i] == fill and ids[i - 1] != fill]
    owner = [k for k, (c, r) in enumerate(grids) for _ in range(1 + c * r)]
    case = {"family": family, "model": f"models/tiny/{family}", "case": name, "kind": "generate", "prompt": question or "",
            "images": files, "thinking": None if thinking is None else "off", "max_slices": 9, "rendered": text,
            "prompt_ids": ids, "slice_grids": [list(g) for g in grids],
            "views": [{"image": owner[i], "width": v.shape[1], "height": v.shape[0], "grid": [v.shape[0] // 14, v.shape[1] // 14],
                       "first_token": starts[i], "pixels_sha256": hashlib.sha256(v.tobytes()).hexdigest()}
                      for i, v in enumerate(views)],
            "stops_ignored": True, "token_ids": tokens, "margins": [round(m, 6) for m in margins],
            "text": model.tokenizer.decode(tokens)}
    if sounds:
        case["sounds"] = [{"file": f"../audio/{sounds[i]}.wav", "first_token": starts[len(views) + i],
                           "rows": len(visual[len(views) + i])} for i in range(len(sounds))]
    assert len(set(tokens)) >= 20 and min(margins) > 1e-3, (family, name, len(set(tokens)), min(margins))
    if check and len(views) == 10:
        case["first_change_by_view"] = sensitivity(model, ids, views, visual, tokens)
        assert None not in case["first_change_by_view"]
    return case, dump.tensors


def run_groups(model):
    """The temporal form of the resampler on made-up tower outputs: a still picture, then groups of frames with times."""
    groups, grids = [[-1], [0, 3], [6, 9, 12]], [[[4, 5]], [[6, 4], [6, 4]], [[5, 5], [5, 5], [3, 7]]]
    rng = np.random.default_rng(12)
    dump, item = Dump(), 0
    for times, shapes in zip(groups, grids):
        views = [rng.standard_normal((h * w, model.config["vision_config"]["hidden_size"])).astype(np.float32) for h, w in shapes]
        for i, view in enumerate(views):
            dump.add(f"vit.post_norm@{item + i}", view)
        resampler.forward([v.astype(np.float64) for v in views], shapes, model.weights, times,
                          lambda name, value, i, first=item: dump.add(f"{name}@{first + i}", value))
        item += len(views)
    case = {"family": model.family, "model": f"models/tiny/{model.family}", "case": "temporal_groups", "kind": "resampler",
            "temporal_ids": groups, "grids": grids}
    return case, dump.tensors


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default=os.path.join(ROOT, "tests", "data", "golden"))
    parser.add_argument("--models", default=os.path.join(ROOT, "models", "tiny"))
    parser.add_argument("--family", choices=CASES)
    parser.add_argument("--case", help="only this one")
    parser.add_argument("--no-sensitivity", action="store_true", help="do not test that every slice matters (slow)")
    args = parser.parse_args()
    for family in [args.family] if args.family else CASES:
        model = Model(os.path.join(args.models, family))
        jobs = {name: lambda name=name, spec=spec: run_case(model, name, *spec, not args.no_sensitivity)
                for name, spec in CASES[family].items()}
        if family == "minicpm-o-4_5":
            jobs.update({name: lambda name=name, spec=spec: run_case(model, name, *spec[:2], False, spec[2])
                         for name, spec in SOUND_CASES.items()})
        if family == "minicpm-v-4_5":
            jobs["temporal_groups"] = lambda: run_groups(model)
        jobs["video"] = lambda: run_video(model)
        results = [job() for name, job in jobs.items() if args.case in (None, name)]
        for case, tensors in results:
            folder = os.path.join(args.out, family, case["case"])
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, "case.json"), "w", encoding="utf-8") as f:
                f.write("{\n" + ",\n".join(f" {json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in case.items()) + "\n}\n")
            path = os.path.join(folder, "stages.safetensors")
            weights.write(path, tensors, {"made_by": f"reference/dump.py, NumPy {np.__version__}, Python {platform.python_version()}"})
            print(folder, len(tensors), "tensors", os.path.getsize(path), "bytes",
                  len(set(case.get("token_ids", []))), min(case.get("margins", [0])), case.get("first_change_by_view", ""))


if __name__ == "__main__":
    main()
