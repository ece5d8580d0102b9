"""Reads and writes safetensors (f64, f32, f16, bf16, u8, i32) with NumPy alone; bf16 comes and goes as float arrays."""
import json
import os
import struct

import numpy as np

PLAIN = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "U8": np.uint8, "I32": np.int32}


def to_bf16(x):
    """Round to nearest even bf16, given back as float64."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return bits.view(np.float32).astype(np.float64)


def exact_everywhere(x):
    """Nearest values that bf16 and f16 both hold exactly: bf16, with everything below f16's normal range flushed to 0."""
    x = to_bf16(x)
    x = np.where(np.abs(x) < 2.0 ** -14, 0.0, x)
    assert np.array_equal(x, x.astype(np.float16).astype(np.float64)), "a value is too large for f16"
    return x


def write(path, tensors, metadata=None):
    """tensors: name -> (dtype name, array). Data is packed in the given order."""
    header, parts, offset = {}, [], 0
    if metadata:
        header["__metadata__"] = metadata
    for name, (dtype, array) in tensors.items():
        array = np.asarray(array)
        if dtype == "BF16":
            assert np.array_equal(to_bf16(array), array), f"{name} is not exact in bf16"
            data = (array.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).tobytes()
        else:
            data = np.ascontiguousarray(array.astype(PLAIN[dtype])).tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [offset, offset + len(data)]}
        parts.append(data)
        offset += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(parts))


def read(path):
    """name -> array; bf16 and f16 and f32 all as float64."""
    with open(path, "rb") as f:
        raw = f.read()
    n, = struct.unpack_from("<Q", raw)
    header = json.loads(raw[8:8 + n])
    header.pop("__metadata__", None)
    out = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        data = raw[8 + n + begin:8 + n + end]
        if entry["dtype"] == "BF16":
            array = (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        else:
            array = np.frombuffer(data, PLAIN[entry["dtype"]])
            if array.dtype.kind == "f":
                array = array.astype(np.float64)
        out[name] = array.reshape(entry["shape"])
    return out


def read_checkpoint(folder):
    index = os.path.join(folder, "model.safetensors.index.json")
    if not os.path.exists(index):
        return read(os.path.join(folder, "model.safetensors"))
    with open(index, encoding="utf-8") as f:
        shards = sorted(set(json.load(f)["weight_map"].values()))
    out = {}
    for shard in shards:
        out.update(read(os.path.join(folder, shard)))
    return out
