"""Measures minicpm and other engines on the same shapes, one after the other, again and again (A B A B), so that all of them see
the same hour of the machine; medians as JSON and as a table for docs/performance.md.

    compare.py --minicpm build/release/bin/minicpm --bundle BUNDLE --out figures.json
               [--text MODEL.gguf] [--picture-text SMALL.gguf --mmproj MMPROJ.gguf] [--onnx f32|int8] [--rounds 3]

BUNDLE: `minicpm convert --synthetic`; GGUF files: random_gguf.py. node_modules with node-llama-cpp in the current folder; Python
packages xllamacpp, onnxruntime, onnx, numpy, Pillow in this interpreter. README.md has the commands in order.
"""
import argparse
import json
import os
import platform
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# Not in a registry: figures of August 2026 on the 2-core AVX2 machine that docs/performance.md describes; never measured here.
FIXED = {"0.6b": {"prefill_tok_s": 152, "decode_tok_s": 33},
         "8b": {"prefill_tok_s": 12.7, "decode_tok_s": 3.5, "image_slice_ms": 13000, "first_token_ms": 1100, "peak_rss_mb": 4700}}
ROWS = (("image_slice_ms", "one slice, ms"), ("prefill_tok_s", "prefill, tokens/s"), ("decode_tok_s", "decode, tokens/s"),
        ("first_token_ms", "start to first token, ms"), ("peak_rss_mb", "peak memory, MB"))


def run(command):
    """The last line of stdout that is a JSON object."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        sys.exit(f"{' '.join(command)} failed ({done.returncode}):\n{done.stderr[-2000:]}")
    return json.loads(lines[-1])


def ours(args):
    r = run([args.minicpm, "bench", args.bundle, "--json", "--warm", "--quiet", "--repeat", "1", "--prompt", str(args.prompt), "--generate", str(args.generate),
             "--threads", str(args.threads)])
    return {"image_slice_ms": r["image_slice"]["ms"], "prefill_tok_s": r["prefill"]["tok_s"], "decode_tok_s": r["decode"]["tok_s"],
            "first_token_ms": r["first_token_ms"], "peak_rss_mb": r["peak_rss_mb"], "image_slice_share": r["image_slice"]["share"],
            "prefill_share": r["prefill"]["share"], "decode_share": r["decode"]["share"], "read_gb_s": r["machine"]["read_gb_s"],
            "int8_gop_s": r["machine"]["int8_gop_s"], "int4_gop_s": r["machine"]["int4_gop_s"], "f32_gflop_s": r["machine"]["f32_gflop_s"]}


def engines(args):
    """name -> what measures it once."""
    found = {"minicpm": lambda: ours(args)}
    threads = str(args.threads)
    if args.text:
        found["llama.cpp text"] = lambda: run(["node", os.path.join(HERE, "llama_text.mjs"), args.text, str(args.prompt), str(args.generate), threads])
    if args.mmproj:
        found["llama.cpp picture"] = lambda: run([sys.executable, os.path.join(HERE, "llama_vision.py"), args.picture_text, args.mmproj,
                                                  "--threads", threads, "--repeat", "1"])
    for form in args.onnx:
        found[f"ONNX Runtime {form}"] = lambda form=form: run([sys.executable, os.path.join(HERE, "onnx_layer.py"), "--format", form, "--threads", threads])
    return found


def summary(rounds):
    """Median, least and most of every number; what is text stands once."""
    out = {}
    for key, first in rounds[0].items():
        values = [r[key] for r in rounds]
        if isinstance(first, (int, float)) and not isinstance(first, bool):
            out[key] = {"median": statistics.median(values), "min": min(values), "max": max(values)}
        else:
            out[key] = first
    return out


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        names = [line.split(":")[1].strip() for line in f if line.startswith("model name")]
    return {"cpu": names[0] if names else platform.processor(), "cores": len(os.sched_getaffinity(0)), "system": platform.platform()}


def table(result):
    names = list(result["engines"])
    fixed = result["fixed"]
    head = names + (["ik_llama.cpp (fixed)"] if fixed else [])
    lines = ["| | " + " | ".join(head) + " |", "| --- |" + " --- |" * len(head)]
    for key, title in ROWS:
        cells = []
        for name in names:
            v = result["engines"][name].get(key)
            cells.append(f"{v['median']:.4g} ({v['min']:.4g} to {v['max']:.4g})" if v else "-")
        if fixed:
            cells.append(f"{fixed[key]:g}" if key in fixed else "-")
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minicpm", required=True)
    parser.add_argument("--bundle", required=True)
    parser.add_argument("--text", help="GGUF language model")
    parser.add_argument("--picture-text", help="GGUF language model behind the picture")
    parser.add_argument("--mmproj", help="GGUF vision tower")
    parser.add_argument("--onnx", action="append", choices=("f32", "int8"), default=[])
    parser.add_argument("--shape", choices=FIXED, help="also print the fixed figures for this shape")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--generate", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    if bool(args.mmproj) != bool(args.picture_text):
        parser.error("--mmproj and --picture-text go together")
    measured = {name: [] for name in engines(args)}
    for i in range(args.rounds):
        for name, measure in engines(args).items():
            print(f"round {i + 1} of {args.rounds}: {name} ...", file=sys.stderr)
            measured[name].append(measure())
    result = {"machine": machine(), "command": " ".join(sys.argv), "rounds": args.rounds, "prompt": args.prompt, "generate": args.generate, "threads": args.threads,
              "engines": {name: summary(rounds) for name, rounds in measured.items()}, "fixed": FIXED.get(args.shape, {})}
    with open(args.out, "w", encoding="utf-8") as f:
        json.dump(result, f, indent=1)
        f.write("\n")
    print(table(result))


if __name__ == "__main__":
    main()
