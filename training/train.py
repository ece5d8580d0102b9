"""Trains the small inspector on drawn parts and synthetic speech. Seeded; goes on where it stopped (--resume), in pieces of --minutes.

One look at a picture serves several questions in one sequence; small extra heads on the towers (what each patch shows, which
question was said) make them learn quickly and are not part of the model. README.md tells how to run it and what it took.
"""
import argparse
import csv
import os
import signal
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import cache
import evaluate
import questions
from model import Inspector
from prompts import Prompts, layout

DENSE_STEPS = 1000     # first the towers alone, from their extra heads
PLAIN_SHARDS = 10      # then pictures of one view only
SHARDS, PASSES = 80, 4  # distinct shards of pictures; times each is used in a row
SPEECH_SHARDS = 16
WEIGHT = {"label": 2.0, "display": 1.6, "holes": 1.5, "where": 1.6, "defect": 1.4, "count": 1.5, "json": 1.0, "colour": 0.6, "kind": 0.6}
SPEECH_CLASSES = [(t, language, way) for t in questions.SPOKEN_TYPES for language in ("en", "zh") for way in range(len(questions.ASK[t][language]))]


class Extra(nn.Module):
    """Heads that only training has."""

    def __init__(self, width, embed):
        super().__init__()
        self.patch = nn.Linear(width, sum(cache.DENSE.values()))
        self.said = nn.Linear(embed, len(SPEECH_CLASSES))

    def dense(self, x, labels):
        """x [N, P, width], labels [N, P, kinds] u8 -> loss."""
        out, total = self.patch(x).split(list(cache.DENSE.values()), -1), 0.0
        for i, (name, n) in enumerate(cache.DENSE.items()):
            weight = torch.ones(n, device=x.device)
            if name in ("defect", "char", "hole", "part"):
                weight[0] = 0.2
            total = total + F.cross_entropy(out[i].flatten(0, 1), labels[..., i].flatten().long(), weight) * (0.5 if name in ("region", "part", "colour") else 1.0)
        return total

    def heard(self, rows, counts, classes):
        real = (torch.arange(rows.shape[1], device=rows.device) < counts[:, None])[..., None]
        logits = self.said((rows * real).sum(1) / counts[:, None])
        return F.cross_entropy(logits, classes), (logits.argmax(-1) == classes).float().mean()


class Batches:
    """Pictures and questions in an order that depends on the seed and the step alone."""

    def __init__(self, prompts, device):
        self.prompts, self.device, self.speech, self.sounds = prompts, device, {}, []
        self.n_speech = 0

    def shard(self, number):
        kind = number // PASSES
        index = kind if kind < PLAIN_SHARDS else PLAIN_SHARDS + (kind - PLAIN_SHARDS) % (SHARDS - PLAIN_SHARDS)
        while self.n_speech < min(1 + kind // 2, SPEECH_SHARDS):
            for t, language, way, mel in cache.load(f"speech_{self.n_speech:03d}.pt", lambda: cache.render_speech(self.n_speech)):
                self.speech.setdefault((t, language), []).append((way, mel))
            self.n_speech += 1
        plain = index < PLAIN_SHARDS
        return cache.load(f"pictures_{index:03d}.pt", lambda: cache.render_shard(index, 0.0 if plain else 0.14, 0.0 if plain else 0.1))

    def order(self, groups, number, wide):
        """[(key, picture numbers)] of one pass."""
        rng, out = np.random.default_rng([7, number]), []
        for key, g in groups.items():
            n_views = key[0] * (1 + key[5] * key[6])
            size = 32 if wide else max(16 // max(n_views, 1), 2) if n_views > 1 else 16
            at = rng.permutation(len(g["facts"]))
            out += [(key, at[i:i + size]) for i in range(0, len(at), size)]
        return [out[i] for i in rng.permutation(len(out))]

    def clips(self, rng, wanted):
        """[(type, language)] -> padded mel [N, L, 80], lengths, classes."""
        chosen = []
        for t, language in wanted:
            pool = self.speech[t, language]
            way, mel = pool[int(rng.integers(len(pool)))]
            chosen.append((SPEECH_CLASSES.index((t, language, way)), mel, way))
        lengths = torch.tensor([len(m) for _, m, _ in chosen])
        out = torch.zeros(len(chosen), int(lengths.max()), 80)
        for i, (_, m, _) in enumerate(chosen):
            out[i, :len(m)] = m
        return out.to(self.device), lengths.to(self.device), torch.tensor([c for c, _, _ in chosen], device=self.device), [w for _, _, w in chosen]

    def choose(self, rng, facts, n, spoken=False):
        """n types that make sense for the picture."""
        types, weights = [], []
        for t in questions.possible(facts):
            if spoken and t == "json":
                continue
            w = WEIGHT.get(t, 1.0)
            if t == "defective":
                w = 0.4 if facts["defect"] != "none" else 1.6
            if t == "part":
                w = 0.12 if facts["kind"] != "no part" else 1.5
            types.append(t)
            weights.append(w)
        if facts.get("kind") not in (None, "no part") and rng.random() < 0.12:
            types.append("label" if facts["extra"] != "label" else "display")
            weights.append(1.0)
        p = np.array(weights) / sum(weights)
        picked = list(rng.choice(len(types), min(n, len(types)), replace=False, p=p))
        picked += list(rng.choice(len(types), n - len(picked), p=p)) if n > len(picked) else []
        return [types[i] for i in picked]


def gather(group, key, numbers, device):
    """-> patches and dense labels of the overviews and of the slices, pictures in order."""
    n_pictures, n_slices = key[0], key[5] * key[6]
    at = torch.as_tensor(np.asarray(numbers))
    first = (at[:, None] * n_pictures + torch.arange(n_pictures)).flatten()
    out = [group["patches"][first].to(device), group["dense"][first].to(device), None, None]
    if n_slices:
        cut = (at[:, None] * n_slices + torch.arange(n_slices)).flatten()
        out[2:] = [group["slices"][cut].to(device), group["dense_slices"][cut].to(device)]
    return out


def language_loss(net, extra, batches, key, group, numbers, rng, typed, spoken):
    """-> (loss, language loss, dense loss, speech loss, share of right tokens, questions)."""
    prompts, device, n = batches.prompts, batches.device, len(numbers)
    patches, labels, slices, slice_labels = gather(group, key, numbers, device)
    rows, x = net.see(patches, key[1:3])
    dense = extra.dense(x, labels)
    rows = rows.view(n, -1, rows.shape[-1])
    if slices is not None:
        more, x = net.see(slices, key[3:5])
        dense = 0.5 * dense + 0.5 * extra.dense(x, slice_labels)
        rows = torch.cat([rows, more.view(n, -1, rows.shape[-1])], 1)
    ids = torch.tensor(prompts.pictures([key[5:7]] * key[0]), device=device)
    table = net.llm.model.embed_tokens.weight
    prefix = table[ids].expand(n, -1, -1).clone()
    prefix[:, ids == prompts.fill] = rows.to(prefix.dtype)

    facts = [group["facts"][i] for i in numbers]
    wanted, texts, answers = [], [], []  # of every segment, segments of one picture side by side
    for f in facts:
        for t in batches.choose(rng, f, typed):
            text, _, _, a = questions.ask(rng, t, f)
            texts.append(prompts.typed(text))
            answers.append(prompts.answer(a))
        for t in batches.choose(rng, f, spoken, True):
            language = "en" if rng.random() < 0.5 else "zh"
            wanted.append((t, language))
            answers.append(prompts.answer(questions.answer(t, language, f, "")))
    mel, lengths, classes, _ = batches.clips(rng, wanted)
    heard, counts, _ = net.hear(mel, lengths)
    said, right_said = extra.heard(heard, counts, classes)
    counts_list = counts.tolist()
    per = typed + spoken
    typed_width = max(len(texts[i * typed + j]) + len(answers[i * per + j]) for i in range(n) for j in range(typed))
    b, a = len(prompts.before_sound), len(prompts.after_sound)
    spoken_width = max(b + counts_list[i * spoken + j] + a + len(answers[i * per + typed + j]) for i in range(n) for j in range(spoken))
    widths = [typed_width] * typed + [spoken_width] * spoken
    tail = torch.zeros(n, sum(widths), dtype=torch.long)
    target = torch.full((n, sum(widths)), -100)
    weight = torch.zeros(n, sum(widths))
    to, sound_from = [], []
    for i in range(n):
        at = 0
        for j in range(per):
            ans = answers[i * per + j]
            if j < typed:
                head = texts[i * typed + j]
            else:
                c = counts_list[i * spoken + j - typed]
                head = prompts.before_sound + [0] * c + prompts.after_sound
                to.append(i * sum(widths) + at + b + torch.arange(c))
                sound_from.append((i * spoken + j - typed) * heard.shape[1] + torch.arange(c))
            full = head + ans
            tail[i, at:at + len(full)] = torch.tensor(full)
            target[i, at + len(head) - 1:at + len(full) - 1] = torch.tensor(ans)
            weight[i, at + len(head) - 1:at + len(full) - 1] = len(ans) ** -0.5
            at += widths[j]
    y = table[tail.to(device)].flatten(0, 1)
    y = y.index_copy(0, torch.cat(to).to(device), heard.flatten(0, 1)[torch.cat(sound_from).to(device)].to(y.dtype)).view(n, -1, y.shape[-1])
    positions, mask = layout(len(ids), widths)
    out, _ = net.llm(torch.cat([prefix, y], 1), positions.to(device), mask.to(device))
    out = out[:, len(ids):].flatten(0, 1)
    keep = (target.flatten() >= 0).nonzero()[:, 0].to(device)
    logits = net.llm.lm_head(out[keep])
    truth, w = target.flatten().to(device)[keep], weight.flatten().to(device)[keep]
    loss = (F.cross_entropy(logits, truth, reduction="none") * w).sum() / w.sum()
    right = (logits.argmax(-1) == truth).float().mean()
    return loss + 0.3 * dense + 0.2 * said, loss.item(), dense.item(), said.item(), right.item(), right_said.item(), len(answers)


def towers_loss(net, extra, batches, key, group, numbers, rng):
    """The first steps: towers and their extra heads only."""
    patches, labels, slices, slice_labels = gather(group, key, numbers, batches.device)
    grid = key[1:3]
    if slices is not None:
        chosen = torch.as_tensor(rng.permutation(len(slices))[:32])
        patches, labels, grid = slices[chosen], slice_labels[chosen], key[3:5]
    dense = extra.dense(net.vpm(patches, grid), labels)
    wanted = [(questions.SPOKEN_TYPES[int(rng.integers(len(questions.SPOKEN_TYPES)))], ("en", "zh")[int(rng.integers(2))]) for _ in range(12)]
    mel, lengths, classes, _ = batches.clips(rng, wanted)
    heard, counts, _ = net.hear(mel, lengths)
    said, right_said = extra.heard(heard, counts, classes)
    return dense + said, 0.0, dense.item(), said.item(), 0.0, right_said.item(), 0


class Run:
    def __init__(self, args):
        os.makedirs(cache.FOLDER, exist_ok=True)
        torch.manual_seed(1)
        torch.set_num_threads(args.threads)
        torch.set_flush_denormal(True)
        self.args, self.device = args, "cuda" if torch.cuda.is_available() else "cpu"
        self.prompts = Prompts()
        self.net = Inspector(self.prompts.rows).to(self.device)
        c = self.net.config
        self.extra = Extra(c["vision"]["width"], c["embed"]).to(self.device)
        params = list(self.net.named_parameters()) + list(self.extra.named_parameters())
        plain = [p for n, p in params if p.ndim < 2 or "embed" in n or n.endswith("query")]
        rest = [p for n, p in params if not (p.ndim < 2 or "embed" in n or n.endswith("query"))]
        self.parameters = plain + rest
        self.optimizer = torch.optim.AdamW([{"params": plain, "weight_decay": 0.0}, {"params": rest, "weight_decay": 0.05}], lr=args.lr, betas=(0.9, 0.98), fused=True)
        self.average = {n: p.detach().clone() for n, p in self.net.named_parameters()}
        self.step, self.shard, self.seconds, self.cpu, self.decay_from = 0, 0, 0.0, 0.0, None
        self.path = os.path.join(cache.FOLDER, args.name + ".pt")
        self.stop = False
        for s in (signal.SIGTERM, signal.SIGINT):
            signal.signal(s, lambda *_: setattr(self, "stop", True))
        if args.resume and os.path.exists(self.path):
            self.load()

    def load(self):
        s = torch.load(self.path, map_location=self.device, weights_only=False)
        self.net.load_state_dict(s["model"])
        self.extra.load_state_dict(s["extra"])
        self.optimizer.load_state_dict(s["optimizer"])
        self.average = s["average"]
        self.step, self.shard, self.seconds, self.decay_from = s["step"], s["shard"], s["seconds"], s["decay_from"]
        self.cpu = s.get("cpu", 0.0)

    def save(self):
        state = {"model": self.net.state_dict(), "extra": self.extra.state_dict(), "optimizer": self.optimizer.state_dict(), "average": self.average,
                 "step": self.step, "shard": self.shard, "seconds": self.seconds, "cpu": self.cpu, "decay_from": self.decay_from}
        torch.save(state, self.path + ".part")
        os.replace(self.path + ".part", self.path)

    def rate(self):
        """Warm-up, constant; falls to nothing in the last --decay steps once that is asked for."""
        lr = self.args.lr * min(1.0, (self.step + 1) / 150)
        if self.args.decay and self.decay_from is None:
            self.decay_from = self.step
        if self.decay_from is not None:
            lr *= max(0.0, 1 - (self.step - self.decay_from) / max(self.args.decay, 1))
        return lr

    def validate(self):
        folder = evaluate.validation()
        net = Inspector(self.prompts.rows)
        net.load_state_dict({n: p.cpu() for n, p in self.average.items()})
        with open(os.path.join(cache.FOLDER, self.args.name + "_accuracy.csv"), "a", newline="") as f:
            out = csv.writer(f)
            for name, limit in (("pictures", self.args.val), ("speech", max(self.args.val // 2, 1))):
                found = evaluate.score(net, self.prompts, os.path.join(folder, name + ".jsonl"), limit)
                for kind, (right, n) in found.items():
                    out.writerow([self.step, round(self.seconds), name, kind, right, n])
                total = [sum(v[i] for v in found.values()) for i in (0, 1)]
                print(f"step {self.step} {name}: {total[0]}/{total[1]} " + " ".join(f"{k} {r}/{n}" for k, (r, n) in found.items()), flush=True)

    def train(self):
        args, batches = self.args, Batches(self.prompts, self.device)
        begin = last = saved = checked = time.time()
        spent = time.process_time()
        log = open(os.path.join(cache.FOLDER, args.name + "_loss.csv"), "a", newline="")
        out, sums, asked, seen, pending = csv.writer(log), [], 0, 0, 0
        if log.tell() == 0:
            out.writerow("step seconds shard loss_answers loss_patches loss_speech right_tokens right_speech views_per_s questions_per_s rate cpu_seconds".split())
        done = lambda: self.stop or time.time() - begin > args.minutes * 60 or (self.decay_from is not None and self.step - self.decay_from >= args.decay) \
            or (args.steps and self.step >= args.steps)
        while not done():
            groups = batches.shard(self.shard)
            begun = self.step
            for key, numbers in batches.order(groups, self.shard, self.step < DENSE_STEPS):
                rng = np.random.default_rng([11, self.step, pending])
                if self.step < DENSE_STEPS:
                    result = towers_loss(self.net, self.extra, batches, key, groups[key], numbers, rng)
                else:
                    pair = key[0] == 2
                    result = language_loss(self.net, self.extra, batches, key, groups[key], numbers, rng, 2 if pair else args.typed, args.spoken)
                (result[0] * (len(numbers) / 16)).backward()
                pending += len(numbers)
                sums.append(result[1:6])
                asked += result[6]
                seen += len(numbers) * key[0] * (1 + key[5] * key[6])
                if pending < 12:  # big pictures come two at a time; several such batches make one step
                    continue
                pending = 0
                nn.utils.clip_grad_norm_(self.parameters, 1.0)
                for g in self.optimizer.param_groups:
                    g["lr"] = self.rate()
                self.optimizer.step()
                self.optimizer.zero_grad(set_to_none=True)
                self.step += 1
                keep = min(0.998, (1 + self.step) / (10 + self.step))
                with torch.no_grad():
                    torch._foreach_lerp_(list(self.average.values()), [p.detach() for _, p in self.net.named_parameters()], 1 - keep)
                if self.step % 20 == 0:
                    now = time.time()
                    self.seconds += now - last
                    self.cpu, spent = self.cpu + time.process_time() - spent, time.process_time()
                    mean = np.mean(sums, 0)
                    out.writerow([self.step, round(self.seconds), self.shard, *(f"{m:.4f}" for m in mean), f"{seen / (now - last):.2f}", f"{asked / (now - last):.2f}", f"{self.rate():.2e}", round(self.cpu)])
                    log.flush()
                    last, sums, asked, seen = now, [], 0, 0
                if time.time() - saved > 300:
                    self.save()
                    saved = time.time()
                if args.val and time.time() - checked > args.val_minutes * 60 and self.step > DENSE_STEPS:
                    self.validate()
                    checked = last = time.time()
                if done():
                    break
            else:
                self.shard += 1
                continue
            if self.step - begun > 0:
                self.shard += 1  # the rest of this pass is skipped
        self.save()
        print(f"step {self.step}, {self.seconds / 3600:.2f} h in all", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", default="inspector")
    parser.add_argument("--minutes", type=float, default=55)
    parser.add_argument("--steps", type=int, default=0, help="stop at this step")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--threads", type=int, default=int(os.environ.get("OMP_NUM_THREADS", "1")))
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--typed", type=int, default=4, help="typed questions for each picture")
    parser.add_argument("--spoken", type=int, default=1)
    parser.add_argument("--decay", type=int, default=0, help="let the learning rate fall to nothing in so many steps from now on, then end")
    parser.add_argument("--val", type=int, default=10, help="validation questions of each type; 0: none")
    parser.add_argument("--val-minutes", type=float, default=25)
    Run(parser.parse_args()).train()


if __name__ == "__main__":
    main()
