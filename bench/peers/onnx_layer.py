"""Times ONNX Runtime on one encoder layer of the vision tower of MiniCPM-V 4.5 (1024 patches; attention included) with random
weights; one JSON object on stdout. A slice is 27 such layers; patch embedding and resampler are left out, in its favour.

    onnx_layer.py [--format f32|int8] [--threads 2] [--repeat 9]

int8 is the dynamic quantisation of onnxruntime.quantization, as its documentation recommends for transformers on CPUs.
Needs onnx, onnxruntime, numpy.
"""
import argparse
import json
import os
import resource
import tempfile
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

PATCHES, WIDTH, HEADS, FFN, LAYERS = 1024, 1152, 16, 4304, 27
DIM = WIDTH // HEADS
GOP = (2 * PATCHES * (4 * WIDTH * WIDTH + 2 * WIDTH * FFN) + 4 * PATCHES * PATCHES * WIDTH) / 1e9


class Graph:
    def __init__(self):
        self.rng, self.nodes, self.constants, self.count = np.random.default_rng(1), [], [], 0

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def op(self, kind, *inputs, **attributes):
        self.count += 1
        self.nodes.append(helper.make_node(kind, inputs, [f"t{self.count}"], **attributes))
        return f"t{self.count}"

    def linear(self, x, rows, columns):
        weight = self.constant((self.rng.standard_normal((columns, rows)) * 0.02).astype(np.float32))
        return self.op("Add", self.op("MatMul", x, weight), self.constant(np.zeros(rows, np.float32)))

    def norm(self, x):
        return self.op("LayerNormalization", x, self.constant(np.ones(WIDTH, np.float32)), self.constant(np.zeros(WIDTH, np.float32)), epsilon=1e-6)

    def heads(self, x, order):
        return self.op("Transpose", self.op("Reshape", x, self.constant(np.array([PATCHES, HEADS, DIM], np.int64))), perm=order)

    def gelu(self, x):
        """The tanh form, as a plain graph."""
        cube = self.op("Mul", x, self.op("Mul", x, x))
        inner = self.op("Mul", self.op("Add", x, self.op("Mul", cube, self.constant(np.float32(0.044715)))), self.constant(np.float32(0.7978845608)))
        return self.op("Mul", self.op("Mul", x, self.constant(np.float32(0.5))), self.op("Add", self.op("Tanh", inner), self.constant(np.float32(1))))


def build(path):
    g = Graph()
    h = g.norm("x")
    q, k, v = (g.linear(h, WIDTH, WIDTH) for _ in range(3))
    scores = g.op("Mul", g.op("MatMul", g.heads(q, [1, 0, 2]), g.heads(k, [1, 2, 0])), g.constant(np.float32(DIM ** -0.5)))
    mixed = g.op("MatMul", g.op("Softmax", scores, axis=-1), g.heads(v, [1, 0, 2]))
    joined = g.op("Reshape", g.op("Transpose", mixed, perm=[1, 0, 2]), g.constant(np.array([PATCHES, WIDTH], np.int64)))
    x = g.op("Add", "x", g.linear(joined, WIDTH, WIDTH))
    y = g.op("Add", x, g.linear(g.gelu(g.linear(g.norm(x), FFN, WIDTH)), WIDTH, FFN))
    shape = [PATCHES, WIDTH]
    graph = helper.make_graph(g.nodes, "layer", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info(y, TensorProto.FLOAT, shape)], g.constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--format", choices=("f32", "int8"), default="int8")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=9)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "layer.onnx")
        build(path)
        if args.format == "int8":
            from onnxruntime.quantization import QuantType, quantize_dynamic
            quantize_dynamic(path, path + ".int8", weight_type=QuantType.QInt8, per_channel=True)
            path += ".int8"
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = args.threads, 1
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    x = np.random.default_rng(2).standard_normal((PATCHES, WIDTH)).astype(np.float32)
    times = []
    for i in range(args.repeat + 2):
        start = time.perf_counter()
        session.run(None, {"x": x})
        if i >= 2:
            times.append((time.perf_counter() - start) * 1e3)
    layer_ms = float(np.median(times))
    print(json.dumps({"package": "onnxruntime", "version": onnxruntime.__version__, "format": args.format, "layer_ms": layer_ms, "image_slice_ms": layer_ms * LAYERS,
                      "gop_s": GOP / layer_ms * 1e3, "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6}))


if __name__ == "__main__":
    main()
