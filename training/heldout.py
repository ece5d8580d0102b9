"""Writes the held-out sets: questions on pictures and spoken questions, from seeds, fonts, textures, photographs and voices that
training never uses. Balanced answers. Run once, before training; the files are in the repository. Format: README.md."""
import argparse
import collections
import json
import os

import numpy as np
import soundfile

import parts
import questions
import speech

SEED = 777000001
CYCLE = {"defective": 2, "part": 2, "defect": 7, "json": 7, "kind": 7, "changed": 8, "where": 9, "holes": 9, "colour": 9, "count": 9, "label": 3, "display": 3}


def some_size(rng):
    """Any size: most pictures fit one view, the others need 2 to 9 slices."""
    area = rng.uniform(14000, 28000) if rng.random() < 0.72 else pick_area(rng)
    ratio = np.exp(rng.uniform(-0.55, 0.55))
    return max(int(np.sqrt(area * ratio)), 80), max(int(np.sqrt(area / ratio)), 80)


def pick_area(rng):
    n = int(rng.choice([2, 3, 4, 6, 8, 9], p=[0.3, 0.15, 0.2, 0.15, 0.1, 0.1]))
    return 28224 * (n - rng.uniform(0.1, 0.8))


def sample_for(rng, kind, i, split):
    """Spec(s) whose answer to `kind` is the i-th of a cycle over all answers. -> (list of specs, facts, list of pictures)."""
    size = some_size(rng)
    if kind == "changed":
        while size[0] * size[1] > 28000:
            size = some_size(rng)
        change = parts.CHANGES[i % len(parts.CHANGES)]
        pair = parts.make_pair(rng, split, size, change)
        return {"change": change}, [parts.render(s, k, jpeg=False)[0] for k, s in enumerate(pair)]
    while True:
        want = {}
        if kind == "defective":
            want = {"defect": "none"} if i % 2 else {"defect": parts.DEFECTS[1 + i // 2 % 6]}
        elif kind in ("defect", "json"):
            want = {"defect": parts.DEFECTS[i % 7]}
        elif kind == "where":
            want = {"defect": parts.DEFECTS[1 + int(rng.integers(6))]}
        elif kind == "holes":
            want = {"kind": ["plate", "gear", "plate", "board"][int(rng.integers(4))], "n": 1 + i % 9}
        elif kind in ("label", "display"):
            want = {"extra": kind if i % 10 else "none"}
        elif kind == "count":
            want = {"kind": ["nuts", "washers", "screws"][int(rng.integers(3))], "n": 1 + i % 9, "extra": "none"}
        elif kind == "kind":
            want = {"kind": parts.KINDS[i % 7]}
        elif kind == "part":
            want = {"kind": "no part" if i % 2 else parts.KINDS[int(rng.integers(6))]}
        if want.get("defect") == "wrong part":
            want["kind"] = ["board", "board", "nuts", "screws"][int(rng.integers(4))] if kind != "json" else "board"
        if want.get("defect") == "dent":
            want["kind"] = ["plate", "gear"][int(rng.integers(2))]
        if want.get("kind") in ("nuts", "washers", "screws", "no part"):
            want["extra"] = "none"
        spec = parts.make_spec(rng, split, size, **want)
        if kind == "where":
            spec["cell"] = i % 9
        if kind == "colour":
            spec["colour"] = list(parts.COLOURS)[i % 9]
        picture, truth = parts.render(spec, jpeg=False)
        facts = truth["facts"]
        if (kind == "holes" and facts["holes"] != want["n"]) or (kind == "where" and facts["where"] != i % 9):
            continue
        return facts, [picture]


def message(pictures, sound=None, text=None):
    content = [{"type": "image_url", "image_url": {"url": p}} for p in pictures]
    content.append({"type": "audio_url", "audio_url": {"url": sound}} if sound else {"type": "text", "text": text})
    return [{"role": "user", "content": content}]


def make(folder, per_type, spoken_per_type, split="heldout", seed=SEED):
    for sub in ("pictures", "speech"):
        os.makedirs(os.path.join(folder, sub), exist_ok=True)
    lines, spoken, pool = [], [], collections.defaultdict(list)
    for t, kind in enumerate(questions.TYPES):
        for i in range(per_type):
            rng = np.random.default_rng([seed, t, i])
            facts, pictures = sample_for(rng, kind, i, split)
            files = []
            for k, picture in enumerate(pictures):
                files.append(f"pictures/{kind}_{i:02d}{'ab'[k] if len(pictures) > 1 else ''}.jpg")
                picture.save(os.path.join(folder, files[-1]), quality=int(rng.integers(66, 90)))
            language = ("en", "zh")[i // CYCLE[kind] % 2]  # whole cycles, so that answers are balanced in each language
            text, _, _, answer = questions.ask(rng, kind, facts, language, loose=False)
            lines.append({"id": f"{kind}_{i:02d}", "type": kind, "language": language, "messages": message(files, text=text), "answer": answer})
            pool[kind].append((facts, files))
    for t, kind in enumerate(questions.SPOKEN_TYPES):
        for i in range(spoken_per_type):
            rng = np.random.default_rng([seed, 100 + t, i])
            facts, files = pool[kind][i]
            language = ("zh", "en")[i // CYCLE[kind] % 2]
            _, plain, _, answer = questions.ask(rng, kind, facts, language, loose=False)
            samples = speech.speak(plain, speech.voice(rng, split, language))
            sound = f"speech/{kind}_{i:02d}.ogg"
            soundfile.write(os.path.join(folder, sound), samples, speech.RATE, format="OGG", subtype="VORBIS", compression_level=0.7)
            spoken.append({"id": f"spoken_{kind}_{i:02d}", "type": kind, "language": language, "spoken": plain,
                           "messages": message(files, sound=sound), "answer": answer})
    for name, rows in (("pictures.jsonl", lines), ("speech.jsonl", spoken)):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            f.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        for kind in questions.TYPES:
            for language in ("en", "zh"):
                truth = collections.Counter(r["answer"] for r in rows if (r["type"], r["language"]) == (kind, language))
                if truth:
                    print(name, kind, language, truth.total(), f"majority {max(truth.values()) / truth.total():.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "data", "inspector"))
    parser.add_argument("--per-type", type=int, default=48)
    parser.add_argument("--spoken-per-type", type=int, default=20)
    args = parser.parse_args()
    make(args.out, args.per_type, args.spoken_per_type)


if __name__ == "__main__":
    main()
