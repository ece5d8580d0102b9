"""Exact match of the PyTorch model on a JSONL set (README.md describes the lines), per question type, greedy. Not the product's
`minicpm eval`; it serves training and the comparison with it."""
import argparse
import collections
import json
import os
import sys

import soundfile
import torch
from PIL import Image

import cache
import heldout
import speech
import views
from model import Inspector
from prompts import Prompts


@torch.no_grad()
def embed(net, prompts, content, folder, blind=False):
    """Content of one user message -> rows [1, T, E] of the whole prompt."""
    grids, rows, sound, text = [], [], None, None
    for part in content:
        if part["type"] == "image_url":
            with Image.open(os.path.join(folder, part["image_url"]["url"])) as f:
                cut, _, grid = views.cut(f.convert("RGB"))
            grids.append(grid)
            for group in ([cut[0]], cut[1:]):
                if group:
                    shape = group[0].shape[0] // views.PATCH, group[0].shape[1] // views.PATCH
                    patches = torch.stack([torch.from_numpy(views.patches(v)) for v in group])
                    rows.append(net.see(torch.full_like(patches, 127) if blind else patches, shape)[0].flatten(0, 1))
        elif part["type"] == "audio_url":
            samples, rate = soundfile.read(os.path.join(folder, part["audio_url"]["url"]))
            assert rate == speech.RATE
            mel = torch.from_numpy(speech.features(samples))[None]
            heard, counts, _ = net.hear(mel.to(net.llm.lm_head.weight.dtype), torch.tensor([mel.shape[1]]))
            sound = heard[0, :counts[0]]
        else:
            text = part["text"]
    table = net.llm.model.embed_tokens.weight
    ids = torch.tensor(prompts.pictures(grids))
    x = table[ids]
    if rows:
        x[ids == prompts.fill] = torch.cat(rows)
    tail = [table[torch.tensor(prompts.before_sound)], sound, table[torch.tensor(prompts.after_sound)]] if sound is not None else \
        [table[torch.tensor(prompts.typed(text))]]
    return torch.cat([x] + tail)[None]


@torch.no_grad()
def generate(net, prompts, x, limit=40):
    n = x.shape[1]
    y, past = net.llm(x, torch.arange(n)[None], torch.ones(n, n, dtype=torch.bool).tril()[None, None])
    ids = []
    while len(ids) < limit:
        best = int(net.llm.lm_head(y[0, -1]).argmax())
        if best == prompts.stop:
            break
        ids.append(best)
        at = n + len(ids) - 1
        y, past = net.llm(net.llm.model.embed_tokens.weight[None, best:best + 1], torch.tensor([[at]]), torch.ones(1, 1, 1, at + 1, dtype=torch.bool), past)
    return ids


def score(net, prompts, path, limit=0, blind=False, wrong=None):
    """-> {type: (right, asked)}. limit: so many of each type."""
    found, folder = collections.defaultdict(lambda: [0, 0]), os.path.dirname(path)
    net.eval()
    with open(path, encoding="utf-8") as f:
        for line in f:
            row = json.loads(line)
            if limit and found[row["type"]][1] >= limit:
                continue
            text = prompts.tokenizer.decode(generate(net, prompts, embed(net, prompts, row["messages"][0]["content"], folder, blind)))
            right = text in [row["answer"]] + row.get("accepted", [])
            found[row["type"]][0] += right
            found[row["type"]][1] += 1
            if wrong is not None and not right:
                wrong.append((row["id"], row["answer"], text))
    net.train()
    return dict(found)


def validation():
    """Folder of the validation set: made like the held-out sets, with fonts, textures and voices of its own."""
    folder = os.path.join(cache.FOLDER, "validation")
    if not os.path.exists(os.path.join(folder, "speech.jsonl")):
        heldout.make(folder, 24, 12, "val", 555000001)
    return folder


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint")
    parser.add_argument("set", nargs="+")
    parser.add_argument("--limit", type=int, default=0)
    parser.add_argument("--blind", action="store_true", help="with grey pictures: what can be guessed")
    parser.add_argument("--wrong", action="store_true", help="print the wrong answers")
    args = parser.parse_args()
    prompts = Prompts()
    net = Inspector(prompts.rows)
    state = torch.load(args.checkpoint, map_location="cpu", weights_only=False)
    net.load_state_dict(state["average"] if "average" in state else state["model"])
    for path in args.set:
        wrong = []
        found = score(net, prompts, path, args.limit, args.blind, wrong)
        for kind, (right, n) in found.items():
            print(f"{os.path.basename(path)} {kind:10} {right:4}/{n} {100 * right / n:.1f} %")
        right, n = (sum(v[i] for v in found.values()) for i in (0, 1))
        print(f"{os.path.basename(path)} {'all':10} {right:4}/{n} {100 * right / n:.1f} %")
        if args.wrong:
            for row in wrong:
                print(*row, sep="\t")


if __name__ == "__main__":
    sys.exit(main())
