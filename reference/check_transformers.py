"""Compares the reference with code that nobody here wrote, all in float64: transformers' SigLIP, Qwen2, Qwen3, torch's attention and arange.

Needs torch and transformers; run by hand when the reference changes. Prints the largest relative differences; fails above 1e-9.
transformers computes softmax, RMS norms and rotary angles in float32 whatever the model's type; `double_everywhere` lifts that.
"""
import contextlib
import os
import sys

import numpy as np
import torch
from transformers import (Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM, SiglipVisionConfig,
                          SiglipVisionModel)

import decoder
import dump
import preprocess
import resampler
from model import Model, load_picture

GOLDEN = os.path.join(dump.ROOT, "tests", "data", "golden")
worst = {}


def compare(what, ours, theirs):
    theirs = theirs.detach().numpy()
    ours = np.asarray(ours).reshape(theirs.shape)
    difference = float(np.abs(ours - theirs).max() / np.abs(theirs).max())
    worst[what] = max(worst.get(what, 0.0), difference)


@contextlib.contextmanager
def double_everywhere():
    """While this holds, asking torch for float32 gives float64: torch.float32, torch.float and Tensor.float()."""
    saved = torch.float32, torch.float, torch.Tensor.float
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    try:
        yield
    finally:
        torch.float32, torch.float, torch.Tensor.float = saved


def load(module, tensors, prefix, drop=()):
    """Fills a module with the weights below prefix; nothing of the module may be missing."""
    module = module.double().eval()
    state = {n[len(prefix):]: torch.from_numpy(t) for n, t in tensors.items() if n.startswith(prefix)}
    missing = [n for n in module.load_state_dict(state, strict=False).missing_keys if not n.startswith(drop)]
    assert not missing, missing
    return module


def torch_buckets(n):
    """As modeling_navit_siglip.py asks torch for them, in float32."""
    bounds = torch.arange(1 / 70, 1.0, 1 / 70)
    return torch.bucketize(torch.arange(0, 1 - 1e-6, 1 / torch.tensor(n)), bounds, right=True)


def check_tower(model, view):
    """SigLIP's encoder and convolution; the position rows are looked up with torch's own arange and bucketize."""
    vision = model.config["vision_config"]
    stages = {}
    model.encode_view(view, lambda name, value, layer=None: stages.__setitem__((name, layer), value))
    config = SiglipVisionConfig(hidden_size=vision["hidden_size"], intermediate_size=vision["intermediate_size"],
                                num_hidden_layers=vision["num_hidden_layers"], image_size=vision["image_size"],
                                num_attention_heads=vision["num_attention_heads"], patch_size=vision["patch_size"],
                                vision_use_head=False, attn_implementation="eager")
    whole = SiglipVisionModel(config)
    tower = load(getattr(whole, "vision_model", whole), model.weights, "vpm.", drop=("head.",))
    if model.config["drop_vision_last_layer"]:
        tower.encoder.layers = tower.encoder.layers[:-1]
    h, w = preprocess.grid_of(view)
    rows, cols = torch_buckets(h), torch_buckets(w)
    with torch.no_grad():
        pixels = torch.from_numpy(view.astype(np.float64)).permute(2, 0, 1)[None] / 255.0 * 2 - 1
        x = tower.embeddings.patch_embedding(pixels).flatten(2).transpose(1, 2)
        x = x + tower.embeddings.position_embedding((rows[:, None] * 70 + cols).flatten())
        compare("vit.embed", stages["vit.embed", None], x)
        for i, layer in enumerate(tower.encoder.layers):
            out = layer(x, attention_mask=None)
            x = out[0] if isinstance(out, tuple) else out
            compare("vit.layer", stages["vit.layer", i], x)
        compare("vit.post_norm", stages["vit.post_norm", None], tower.post_layernorm(x))


def check_resampler(model, shapes, times):
    rng = np.random.default_rng(4)
    views = [rng.standard_normal((h * w, model.config["vision_config"]["hidden_size"])) for h, w in shapes]
    ours = resampler.forward(views, shapes, model.weights, times)
    t = {n[10:]: torch.from_numpy(v) for n, v in model.weights.items() if n.startswith("resampler.")}
    dim = t["query"].shape[1]
    attention = load(torch.nn.MultiheadAttention(dim, dim // 128, batch_first=True), model.weights, "resampler.attn.")

    def norm(x, name):
        return torch.nn.functional.layer_norm(x, (dim,), t[name + ".weight"], t[name + ".bias"], 1e-6)

    values = [norm(torch.from_numpy(v) @ t["kv_proj.weight"].T, "ln_kv") for v in views]
    keys = [v + torch.from_numpy(resampler.pos2d(h, w, dim) + resampler.pos_time(at, dim))
            for v, (h, w), at in zip(values, shapes, times)]
    out, _ = attention(norm(t["query"], "ln_q")[None], torch.cat(keys)[None], torch.cat(values)[None])
    compare("resampler", ours, norm(out[0], "ln_post") @ t["proj"])


def check_decoder(model, x, expected):
    """Every layer of the prompt's pass, the logits, and 64 tokens by transformers' own greedy loop with its own cache."""
    c = model.config
    qwen2 = model.family == "minicpm-v-2_6"
    config = (Qwen2Config if qwen2 else Qwen3Config)(
        vocab_size=c["vocab_size"], hidden_size=c["hidden_size"], intermediate_size=c["intermediate_size"],
        num_hidden_layers=c["num_hidden_layers"], num_attention_heads=c["num_attention_heads"],
        num_key_value_heads=c["num_key_value_heads"], head_dim=c["head_dim"], rms_norm_eps=c["rms_norm_eps"],
        rope_theta=c["rope_theta"], rope_parameters={"rope_type": "default", "rope_theta": c["rope_theta"]},
        tie_word_embeddings=False, attn_implementation="eager", eos_token_id=None, bos_token_id=None, pad_token_id=0)
    theirs = load((Qwen2ForCausalLM if qwen2 else Qwen3ForCausalLM)(config), model.weights, "llm.")
    ours = {}
    last = decoder.forward(x, model.weights, c, tap=lambda name, value, layer=None: ours.__setitem__((name, layer), value))
    embeds = torch.from_numpy(x)[None]
    heard = []
    for layer in theirs.model.layers:
        layer.register_forward_hook(lambda _, __, out: heard.append(out[0] if isinstance(out, tuple) else out))
    with torch.no_grad():
        out = theirs(inputs_embeds=embeds)
        for i, value in enumerate(heard):
            compare("llm.layer", ours["llm.layer", i], value)
        compare("llm.logits", decoder.logits(last, model.weights, c), out.logits)
        ids = theirs.generate(inputs_embeds=embeds, attention_mask=torch.ones(embeds.shape[:2], dtype=torch.long),
                              max_new_tokens=64, do_sample=False)[0].tolist()
    assert ids == expected, (ids, expected)


def main():
    torch.manual_seed(0)
    for n in range(1, 141):
        if torch_buckets(n).tolist() != preprocess.buckets(n):
            print(f"position buckets differ for n = {n} (torch here runs {torch.backends.cpu.get_cpu_capability()})")
    for family, cases in dump.CASES.items():
        model = Model(os.path.join(dump.ROOT, "models", "tiny", family))
        for name, (question, pictures) in cases.items():
            loaded = [load_picture(os.path.join(GOLDEN, f"images/{p}.png")) for p in pictures]
            _, ids, views, _ = model.prompt(question, loaded, None if family == "minicpm-v-2_6" else False)
            for view in (views[0], views[-1]) if views else ():
                with double_everywhere():
                    check_tower(model, view)
            x = model.embed(ids, [model.encode_view(v) for v in views])
            with double_everywhere():
                check_decoder(model, x, model.generate(x, 64)[0])
        check_resampler(model, [(9, 13)], [-1])
        check_resampler(model, [(75, 6)], [-1])
        check_resampler(model, [(5, 8), (8, 5), (6, 6)], [0, 43, 700])
        print(family, "64 tokens equal in", len(cases), "cases;",
              ", ".join(f"{what} {value:.1e}" for what, value in worst.items()))
    sys.exit(max(worst.values()) > 1e-9)


if __name__ == "__main__":
    main()
