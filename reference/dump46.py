"""Runs minicpm46.py on the tiny model and writes the expected results that the C++ golden tests read. Format: README.md."""
import argparse
import hashlib
import json
import os
import platform

import numpy as np

import dump
import minicpm46
import preprocess
import weights
from model import load_picture

FAMILY = "minicpm-v-4_6"
CASES = {  # case -> (question, pictures, mode)
    "text": ("Wie viele Hunde? Zähle: अनुच्छेद, then answer in one sentence.", [], "16x"),
    "nine_slices": ("What is in the image?", ["nine"], "16x"),
    "two_pictures": ("Compare the two pictures.", ["photo", "small"], "16x"),
    "two_pictures_4x": ("Which picture is brighter?", ["photo", "small"], "4x"),
}


class Dump(dump.Dump):
    def view_tap(self, item, everything):
        tap = super().view_tap(item, everything)
        return lambda name, value, layer=None: (
            tap(name, value, layer) if everything or name != "merger.out"
            else self.add(f"{name}@{item}", value, dump.some_rows(len(value), 4)))


def run_case(folder, name, question, pictures, mode, check):
    model = minicpm46.Model(folder, mode)
    files = [f"images/{p}.png" for p in pictures]
    loaded = [load_picture(os.path.join(dump.ROOT, "tests", "data", "golden", f)) for f in files]
    text, ids, views, grids = model.prompt(question, loaded, False)
    out = Dump()
    full = {0, 1, len(views) - 1}
    visual = [model.encode_view(v, out.view_tap(i, i in full)) for i, v in enumerate(views)]
    pad = model.fill_id
    edges = [i for i in range(1, len(ids)) if (ids[i] == pad) != (ids[i - 1] == pad)][:12]
    rows = dump.some_rows(len(ids), dump.LLM_ROWS, edges + [e - 1 for e in edges[:4]])
    tokens, margins = model.generate(model.embed(ids, visual), dump.N_TOKENS, out.text_tap(rows))
    starts = [i for i in range(len(ids)) if ids[i] == pad and ids[i - 1] != pad]
    owner = [k for k, (c, r) in enumerate(grids) for _ in range(1 + c * r)]
    case = {"family": FAMILY, "model": f"models/tiny/{FAMILY}", "case": name, "kind": "generate", "prompt": question,
            "images": files, "thinking": "off", "max_slices": 9, "downsample": mode, "rendered": text, "prompt_ids": ids,
            "slice_grids": [list(g) for g in grids],
            "views": [{"image": owner[i], "width": v.shape[1], "height": v.shape[0], "grid": list(preprocess.grid_of(v)),
                       "first_token": starts[i], "n_tokens": len(visual[i]),
                       "pixels_sha256": hashlib.sha256(v.tobytes()).hexdigest()} for i, v in enumerate(views)],
            "stops_ignored": True, "token_ids": tokens, "margins": [round(m, 6) for m in margins],
            "text": model.tokenizer.decode(tokens)}
    assert len(set(tokens)) >= 20 and min(margins) > 1e-3, (name, len(set(tokens)), min(margins))
    if check and len(views) == 10:
        case["first_change_by_view"] = dump.sensitivity(model, ids, views, visual, tokens)
        assert None not in case["first_change_by_view"]
    return case, out.tensors


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default=os.path.join(dump.ROOT, "tests", "data", "golden"))
    parser.add_argument("--models", default=os.path.join(dump.ROOT, "models", "tiny"))
    parser.add_argument("--no-sensitivity", action="store_true", help="do not test that every slice matters (slow)")
    args = parser.parse_args()
    for name, spec in CASES.items():
        case, tensors = run_case(os.path.join(args.models, FAMILY), name, *spec, not args.no_sensitivity)
        folder = os.path.join(args.out, FAMILY, name)
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "case.json"), "w", encoding="utf-8") as f:
            f.write("{\n" + ",\n".join(f" {json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in case.items()) + "\n}\n")
        path = os.path.join(folder, "stages.safetensors")
        weights.write(path, tensors, {"made_by": f"reference/dump46.py, NumPy {np.__version__}, Python {platform.python_version()}"})
        print(folder, len(tensors), "tensors", os.path.getsize(path), "bytes", len(set(case["token_ids"])), min(case["margins"]),
              case.get("first_change_by_view", ""), flush=True)


if __name__ == "__main__":
    main()
