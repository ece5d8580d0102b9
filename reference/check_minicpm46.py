"""Compares minicpm46.py with transformers' own MiniCPM-V 4.6, in float64 and in float32: every stage, 64 greedy tokens.

Needs torch and transformers >= 5.7; run by hand. The bundled miniature, then random small configurations; pictures that become 1, 3
and 10 views, in both modes. transformers computes some things in float32 whatever the model's type; `double_everywhere` lifts that
for the first comparison, the second takes its float32 model as it is.
"""
import argparse
import contextlib
import copy
import json
import os
import sys

import numpy as np
import torch
from transformers import MiniCPMV4_6Config, MiniCPMV4_6ForConditionalGeneration

import dump
import make_tiny46
import minicpm46
import preprocess
from check_transformers import double_everywhere
from pictures import draw

N_TOKENS = 64
VIEWS = {"one": (300, 200), "three": (640, 480), "ten": (1300, 1250)}
worst = {}


def compare(kind, what, ours, theirs):
    theirs = theirs.detach().double().numpy()
    ours = np.asarray(ours).reshape(theirs.shape)
    difference = float(np.abs(ours - theirs).max() / np.abs(theirs).max())
    worst[kind, what] = max(worst.get((kind, what), 0.0), difference)


def build(model, dtype):
    config = MiniCPMV4_6Config(**copy.deepcopy(model.config))
    config.text_config.eos_token_id = None
    config.eos_token_id = None
    config._attn_implementation = "eager"
    theirs = MiniCPMV4_6ForConditionalGeneration._from_config(config, attn_implementation="eager").to(dtype).eval()
    theirs.generation_config.eos_token_id = None
    theirs.generation_config.pad_token_id = 0
    state = {n: torch.from_numpy(v).to(dtype) for n, v in model.weights.items()}
    missing, unexpected = theirs.load_state_dict(state, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    theirs.tie_weights()
    return theirs


def hooks(theirs, heard):
    """Remembers every stage's output under the names of the reference."""
    def on(module, name):
        def listen(_, __, out):
            heard.setdefault(name, []).append(out[0] if isinstance(out, tuple) else out)
        return module.register_forward_hook(listen)

    tower = theirs.model.vision_tower
    out = [on(tower.embeddings, ("vit.embed", None)), on(tower.post_layernorm, ("vit.post_norm", None)),
           on(tower.vit_merger, ("vit.window_merger", None)), on(theirs.model.language_model.norm, ("llm.norm", None))]
    out += [on(layer, ("vit.layer", i)) for i, layer in enumerate(tower.encoder.layers)]
    return out + [on(layer, ("llm.layer", i)) for i, layer in enumerate(theirs.model.language_model.layers)]


def check_case(model, theirs, kind, dtype, question, pictures):
    text, ids, views, _ = model.prompt(question, pictures, False)
    ours, visual = [], []
    for view in views:
        stages = {}
        visual.append(model.encode_view(view, lambda name, value, layer=None: stages.__setitem__((name, layer), value)))
        ours.append(stages)
    patches = [preprocess.patches_of(v).reshape(-1, 3, 14, 14).transpose(1, 2, 0, 3).reshape(3, 14, -1) for v in views]
    inputs = {"input_ids": torch.tensor([ids]), "attention_mask": torch.ones(1, len(ids), dtype=torch.long)}
    if views:
        inputs["pixel_values"] = torch.from_numpy(np.concatenate(patches, -1)[None]).to(dtype)
        inputs["target_sizes"] = torch.tensor([preprocess.grid_of(v) for v in views], dtype=torch.int32)
        inputs["downsample_mode"] = model.downsample
    heard = {}
    handles = hooks(theirs, heard)
    with torch.no_grad():
        out = theirs.generate(**inputs, max_new_tokens=N_TOKENS, do_sample=False, output_logits=True, return_dict_in_generate=True)
        for handle in handles:
            handle.remove()
        tokens = out.sequences[0, len(ids):].tolist()
        if views:
            features = theirs.get_image_features(inputs["pixel_values"], inputs["target_sizes"],
                                                 downsample_mode=model.downsample).pooler_output
    for name in ours[0] if ours else ():
        if name[0].startswith("view."):
            continue
        rows = np.concatenate([stages[name] for stages in ours])
        compare(kind, name[0], rows, torch.cat(features) if name[0] == "merger.out" else heard[name][0])
    language = {}
    expected, margins = model.generate(model.embed(ids, visual), N_TOKENS,
                                       lambda name, value, layer=None: language.__setitem__((name, layer), value))
    for (name, layer), value in language.items():  # the first of what was heard is the prompt's pass
        if name == "llm.layer":
            compare(kind, name, value, heard[name, layer][0])
    compare(kind, "llm.norm", language["llm.norm", None], heard["llm.norm", None][0][:, -1])
    compare(kind, "llm.logits", language["llm.logits", None], out.logits[0])
    if tokens != expected:
        at = next(i for i in range(N_TOKENS) if tokens[i] != expected[i])
        print(f"  {kind} {model.downsample} {len(views)} views: tokens differ at {at}, margin there {margins[at]:.2g}")
        return 1
    return 0


class Random(minicpm46.Model):
    """The bundled tokenizer with another small configuration and other weights."""

    def __init__(self, folder, seed, downsample):
        super().__init__(folder, downsample)
        rng = np.random.default_rng(seed)
        self.config = json.loads(json.dumps(self.config))
        text, vision = self.config["text_config"], self.config["vision_config"]
        kinds = [str(rng.choice(["linear_attention", "linear_attention", "full_attention"])) for _ in range(4)] + ["full_attention"]
        heads = int(rng.integers(1, 5))
        text.update({"layer_types": kinds, "num_hidden_layers": len(kinds), "hidden_size": int(rng.choice([40, 64, 96])),
                     "intermediate_size": int(rng.integers(30, 90)), "linear_num_key_heads": heads, "linear_num_value_heads": heads,
                     "linear_key_head_dim": int(rng.choice([12, 16, 36])), "linear_value_head_dim": int(rng.choice([8, 20, 32])),
                     "head_dim": int(rng.choice([16, 32, 40])), "num_attention_heads": int(rng.choice([2, 4, 6])),
                     "num_key_value_heads": int(rng.choice([1, 2]))})
        text["linear_conv_kernel_dim"] = int(rng.choice([2, 3, 4]))
        vision.update({"num_attention_heads": int(rng.choice([1, 2, 4])), "intermediate_size": int(rng.integers(30, 90)),
                       "num_hidden_layers": 3})
        self.config["insert_layer_id"] = int(rng.integers(0, 3))
        self.weights = make_tiny46.make_weights(self.config, self.tokenizer.added_id.values(), seed)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default=os.path.join(dump.ROOT, "models", "tiny", "minicpm-v-4_6"))
    parser.add_argument("--configs", type=int, default=4, help="random configurations after the bundled one")
    args = parser.parse_args()
    torch.manual_seed(0)
    pictures = {name: draw(*size, seed) for seed, (name, size) in enumerate(VIEWS.items())}
    wrong = cases = 0
    for seed in range(args.configs + 1):
        for mode in ("16x", "4x"):
            model = minicpm46.Model(args.model, mode) if seed == 0 else Random(args.model, 460 + seed, mode)
            for kind, dtype in (("f64", torch.float64), ("f32", torch.float32)):
                with double_everywhere() if kind == "f64" else contextlib.nullcontext():
                    theirs = build(model, dtype)
                    for shown in ([], ["one"], ["three"], ["ten"], ["three", "one"]):
                        if (seed and len(shown) > 1) or (mode == "4x" and not shown):
                            continue
                        wrong += check_case(model, theirs, kind, dtype, "What is in the image?", [pictures[p] for p in shown])
                        cases += 1
                        print(f"  configuration {seed} {mode} {kind} {shown}", flush=True)
        print(f"configuration {seed}: {cases} cases so far, {wrong} with other tokens", flush=True)
    for kind in ("f64", "f32"):
        print(kind, ", ".join(f"{what} {value:.1e}" for (k, what), value in worst.items() if k == kind))
    sys.exit(wrong > 0 or any(value > (1e-9 if kind == "f64" else 1e-4) for (kind, _), value in worst.items()))


if __name__ == "__main__":
    main()
