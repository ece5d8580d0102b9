"""Reads a Whisper model in CTranslate2's format and writes its encoder under the names of MiniCPM-o's audio tower (f32), so
that the tower can be run on real weights; with --speech also what transformers' WhisperEncoder makes of a recording.

    python3 reference/whisper_ct2.py --model FOLDER --out FOLDER [--speech FILE.wav]

FOLDER/model.bin: format version 6. Written: model.safetensors (apm.* tensors), apm.json (its numbers), and with --speech
speech.safetensors: mel [L, 80], encoder [C, A] (full attention) and encoder_blocks [C, A] (each second sees itself and all
before it, as MiniCPM-o does) of the first 30 s, without padding. Not part of any test that runs everywhere: no weights are
in this repository.
"""
import argparse
import json
import os
import struct

import numpy as np

import weights

DTYPES = {0: np.float32, 1: np.int8, 2: np.int16, 3: np.int32, 4: np.float16}
HEAD_WIDTH = 64  # of every Whisper


def read_variables(path):
    """name -> array. Aliases stand for the same array."""
    with open(path, "rb") as f:
        data = f.read()
    at = 0

    def number(form):
        nonlocal at
        value, = struct.unpack_from(form, data, at)
        at += struct.calcsize(form)
        return value

    def string():
        nonlocal at
        length = number("<H")
        value = data[at:at + length].rstrip(b"\0").decode()
        at += length
        return value

    version, spec, _ = number("<I"), string(), number("<I")
    if version != 6 or spec != "WhisperSpec":
        raise SystemExit(f"{path}: version {version} of {spec}, expected version 6 of WhisperSpec")
    variables = {}
    for _ in range(number("<I")):
        name = string()
        shape = [number("<I") for _ in range(number("<B"))]
        dtype, n_bytes = DTYPES[number("<B")], number("<I")
        variables[name] = np.frombuffer(data, dtype, n_bytes // np.dtype(dtype).itemsize, at).reshape(shape)
        at += n_bytes
    for _ in range(number("<I")):
        alias, target = string(), string()
        variables[alias] = variables[target]
    assert at == len(data), f"{path}: {len(data) - at} bytes are left"
    return variables


def encoder_tensors(variables):
    """The encoder under the names of MiniCPM-o, and its numbers."""
    def get(name):
        array = variables["encoder/" + name]
        if array.dtype == np.int8:  # [out, in] with a scale for every row
            scale = variables["encoder/" + name + "_scale"].astype(np.float32)
            array = array.astype(np.float32) / scale.reshape([-1] + [1] * (array.ndim - 1))
        return array.astype(np.float32)

    out = {}
    for i in (1, 2):
        out[f"conv{i}.weight"], out[f"conv{i}.bias"] = get(f"conv{i}/weight"), get(f"conv{i}/bias")
    out["embed_positions.weight"] = get("position_encodings/encodings")
    n_layers = len({name.split("/")[1] for name in variables if name.startswith("encoder/layer_") and
                    name.split("/")[1] != "layer_norm"})
    width = len(out["conv1.bias"])
    for k in range(n_layers):
        here, to = f"layer_{k}/", f"layers.{k}."
        out[to + "self_attn_layer_norm.weight"] = get(here + "self_attention/layer_norm/gamma")
        out[to + "self_attn_layer_norm.bias"] = get(here + "self_attention/layer_norm/beta")
        q, key, v = np.split(get(here + "self_attention/linear_0/weight"), 3)
        q_bias, key_bias, v_bias = np.split(get(here + "self_attention/linear_0/bias"), 3)
        assert not key_bias.any(), "keys have no bias in Whisper"
        out[to + "self_attn.q_proj.weight"], out[to + "self_attn.q_proj.bias"] = q, q_bias
        out[to + "self_attn.k_proj.weight"] = key
        out[to + "self_attn.v_proj.weight"], out[to + "self_attn.v_proj.bias"] = v, v_bias
        out[to + "self_attn.out_proj.weight"] = get(here + "self_attention/linear_1/weight")
        out[to + "self_attn.out_proj.bias"] = get(here + "self_attention/linear_1/bias")
        out[to + "final_layer_norm.weight"] = get(here + "ffn/layer_norm/gamma")
        out[to + "final_layer_norm.bias"] = get(here + "ffn/layer_norm/beta")
        for i in (0, 1):
            out[to + f"fc{i + 1}.weight"], out[to + f"fc{i + 1}.bias"] = get(here + f"ffn/linear_{i}/weight"), \
                get(here + f"ffn/linear_{i}/bias")
    out["layer_norm.weight"], out["layer_norm.bias"] = get("layer_norm/gamma"), get("layer_norm/beta")
    config = {"d_model": width, "encoder_layers": n_layers, "encoder_attention_heads": width // HEAD_WIDTH,
              "encoder_ffn_dim": len(out["layers.0.fc1.bias"]), "num_mel_bins": out["conv1.weight"].shape[1],
              "max_source_positions": len(out["embed_positions.weight"])}
    assert int(variables["encoder/num_heads"]) == config["encoder_attention_heads"]
    return out, config


def encode_with_transformers(tensors, config, mel_frames, block):
    """[L, mels] -> [C, A] in float64 by transformers' layers; block: frames that see each other, 0 = all.

    WhisperEncoder.forward wants exactly 30 s and no mask, so its modules are called one by one."""
    import torch
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder
    encoder = WhisperEncoder(WhisperConfig(**config, attn_implementation="eager")).double().eval()
    missing, unexpected = encoder.load_state_dict({k: torch.tensor(v, dtype=torch.float64) for k, v in tensors.items()},
                                                  strict=False)
    assert not missing and not unexpected, (missing, unexpected)
    with torch.no_grad():
        x = torch.tensor(np.ascontiguousarray(mel_frames.T), dtype=torch.float64)[None]
        x = torch.nn.functional.gelu(encoder.conv1(x))
        x = torch.nn.functional.gelu(encoder.conv2(x))[0].T[None]
        n = x.shape[1]
        x = x + encoder.embed_positions.weight[:n]
        mask = torch.zeros(1, 1, n, n, dtype=torch.float64)
        if block:
            frame = torch.arange(n)
            mask[0, 0][frame[None, :] >= (frame[:, None] // block + 1) * block] = -torch.inf
        for layer in encoder.layers:
            x = layer(x, mask)
            x = x[0] if isinstance(x, tuple) else x
        return encoder.layer_norm(x)[0].numpy(), encoder


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--model", required=True)
    options.add_argument("--out", required=True)
    options.add_argument("--speech")
    arguments = options.parse_args()
    tensors, config = encoder_tensors(read_variables(os.path.join(arguments.model, "model.bin")))
    os.makedirs(arguments.out, exist_ok=True)
    weights.write(os.path.join(arguments.out, "model.safetensors"), {"apm." + k: ("F32", v) for k, v in tensors.items()})
    with open(os.path.join(arguments.out, "apm.json"), "w", encoding="utf-8") as f:
        json.dump(config, f, indent=1)
    print(config)
    if not arguments.speech:
        return

    import soundfile
    import torch
    import mel
    samples, rate = soundfile.read(arguments.speech, dtype="float32")
    assert rate == mel.RATE and samples.ndim == 1
    frames = mel.piece_features(samples[:mel.PIECE])
    full, encoder = encode_with_transformers(tensors, config, frames, 0)
    blocks, _ = encode_with_transformers(tensors, config, frames, 50)
    # The modules one by one are the whole encoder: compare on the padded 30 s that its own forward wants.
    padded = mel.piece_features(np.concatenate([samples, np.zeros(mel.PIECE - len(samples))]))
    with torch.no_grad():
        own = encoder(torch.tensor(np.ascontiguousarray(padded.T))[None]).last_hidden_state[0].numpy()
    by_modules, _ = encode_with_transformers(tensors, config, padded, 0)
    print("modules one by one - WhisperEncoder.forward on 30 s:", np.abs(own - by_modules).max(), "of", np.abs(own).max())
    weights.write(os.path.join(arguments.out, "speech.safetensors"),
                  {"mel": ("F32", frames), "encoder": ("F32", full), "encoder_blocks": ("F32", blocks)})
    print("mel", frames.shape, "encoder", full.shape, "largest", np.abs(full).max(), np.abs(blocks).max())


if __name__ == "__main__":
    main()
