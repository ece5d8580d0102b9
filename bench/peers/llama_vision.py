"""Times llama.cpp (PyPI xllamacpp) on one picture of 448 x 448, which is one slice for MiniCPM-V; one JSON object on stdout.

    llama_vision.py MODEL.gguf MMPROJ.gguf [--threads 2] [--repeat 3]

The time is that between two lines of the engine's log: encoding begins, its rows go to the language model. Every picture is another one, so that no cache answers.
Needs xllamacpp, numpy, Pillow. Both files: random_gguf.py.
"""
import argparse
import base64
import io
import json
import os
import re
import resource
import subprocess
import sys
import time
from importlib.metadata import version

# Lines of the engine's log begin with minutes.seconds.milliseconds.microseconds.
ENCODING = re.compile(r"^(\d+)\.(\d+)\.(\d+)\.(\d+) [^\n]*encoding mtmd batch.*?^(\d+)\.(\d+)\.(\d+)\.(\d+) [^\n]*decoding image batch", re.M | re.S)


def encode_times(log):
    """Milliseconds between "encoding" and "decoding the encoded rows", one for every picture."""
    times = []
    for found in ENCODING.findall(log):
        begin, end = ((int(m) * 60 + int(s)) * 1e3 + int(ms) + int(us) / 1e3 for m, s, ms, us in (found[:4], found[4:]))
        times.append(end - begin)
    return times


def picture(seed):
    import numpy as np
    from PIL import Image
    pixels = np.random.default_rng(seed).integers(0, 256, (448, 448, 3), dtype=np.uint8)
    data = io.BytesIO()
    Image.fromarray(pixels).save(data, "PNG")
    return "data:image/png;base64," + base64.b64encode(data.getvalue()).decode()


def child(args):
    """The engine writes its times to stderr; they are read by the parent."""
    import xllamacpp
    params = xllamacpp.CommonParams()
    params.model.path, params.mmproj.path = args.model, args.mmproj
    params.mmproj_use_gpu, params.n_gpu_layers = False, 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = args.threads
    params.n_ctx, params.n_parallel, params.n_predict, params.warmup = 1024, 1, 1, False
    params.chat_template, params.verbosity = "chatml", 4
    server = xllamacpp.Server(params)
    walls = []
    for i in range(args.repeat + 1):
        content = [{"type": "image_url", "image_url": {"url": picture(i)}}, {"type": "text", "text": "a"}]
        start = time.perf_counter()
        answer = server.handle_chat_completions({"messages": [{"role": "user", "content": content}], "max_tokens": 1, "temperature": 0})
        walls.append((time.perf_counter() - start) * 1e3)
        if i == 0:
            print(str(answer)[:300], file=sys.stderr)
    print(json.dumps({"walls": walls[1:], "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6}), flush=True)
    os._exit(0)  # the server's threads need no farewell


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("mmproj")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args)
    run = subprocess.run([sys.executable, os.path.abspath(__file__), *sys.argv[1:], "--child"], capture_output=True, text=True, check=False)
    lines = [line for line in run.stdout.splitlines() if line.startswith('{"walls"')]
    if run.returncode != 0 or not lines:
        sys.exit(f"xllamacpp failed ({run.returncode}):\n{run.stderr[-3000:]}")
    told = json.loads(lines[-1])
    encoded = encode_times(run.stderr)[1:]  # the first one finds its memory
    times = sorted(encoded or told["walls"])
    print(json.dumps({"package": "xllamacpp", "version": version("xllamacpp"), "image_slice_ms": times[len(times) // 2], "min": times[0], "max": times[-1],
                      "source": "the engine's log" if encoded else "time of the whole request", "peak_rss_mb": told["peak_rss_mb"]}))


if __name__ == "__main__":
    main()
