"""The whole journey: pictures, sounds and a question in, token ids out, greedy. Reads a checkpoint folder in the official layout."""
import json
import os
import wave

import numpy as np
from PIL import Image

import decoder
import mel
import preprocess
import resampler
import siglip
import template
import weights
import whisper
from tokenizer import Tokenizer


def load_picture(path):
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB"))


def load_sound(path):
    """16-bit mono WAV at 16 kHz -> samples in [-1, 1)."""
    with wave.open(path) as f:
        assert (f.getnchannels(), f.getsampwidth(), f.getframerate()) == (1, 2, mel.RATE)
        return np.frombuffer(f.readframes(f.getnframes()), "<i2") / 32768.0


class Model:
    def __init__(self, folder):
        self.family = os.path.basename(os.path.normpath(folder))
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
            self.config = json.load(f)
        self.weights = weights.read_checkpoint(folder)
        self.tokenizer = Tokenizer.load(folder)

    def encode_view(self, view, tap=lambda name, value, layer=None: None):
        """[H, W, 3] u8 -> [Q, E]."""
        grid = preprocess.grid_of(view)
        patches = preprocess.patches_of(view)
        tap("view.pixels", view.reshape(view.shape[0], -1))
        tap("view.patches", patches)
        rows = siglip.forward(patches, grid, self.weights, self.config, tap)
        return resampler.forward([rows], [grid], self.weights, tap=lambda name, value, _: tap(name, value))

    def encode_sound(self, samples, tap=lambda item, name, value, layer=None: None):
        """A clip of any length, in pieces of 30 s -> [rows, E]. tap also hears the number of the piece."""
        pieces = mel.clip_features(samples, self.config["audio_config"]["num_mel_bins"])
        return np.concatenate([whisper.forward(m, self.weights, self.config, lambda *args, at=i: tap(at, *args))
                               for i, m in enumerate(pieces)])

    def count_sound(self, samples):
        return sum(max(whisper.n_rows(-(-min(len(samples) - i, mel.PIECE) // mel.HOP), self.config), 0)
                   for i in range(0, len(samples), mel.PIECE))

    def prompt(self, question, pictures, thinking=None, system=None, max_slices=preprocess.MAX_SLICES, sounds=()):
        """-> (text, token ids, views, slice grids). Pictures come first, then sounds, then the question (may be None)."""
        views, grids, parts = [], [], []
        for index, pixels in enumerate(pictures):
            cut, grid = preprocess.cut_views(pixels, max_slices)
            views += cut
            grids.append(grid)
            parts.append(template.placeholder(index, grid, self.config["query_num"], self.config.get("use_image_id", True)))
        parts += [template.sound_placeholder(self.count_sound(samples)) for samples in sounds]
        parts += [] if question is None else [question]
        turns = [("system", [system])] if system else []
        text = template.chat(self.family, turns + [("user", parts)], thinking, spoken=len(sounds) > 0)
        return text, self.tokenizer.encode(text), views, grids

    def embed(self, ids, visual):
        """Token rows, with the rows of pictures and sounds in place of the fill tokens, in order."""
        x = self.weights["llm.model.embed_tokens.weight"][ids]
        places = [i for i, token in enumerate(ids) if token == self.tokenizer.added_id[template.FILL]]
        if visual:
            rows = np.concatenate(visual)
            assert len(places) == len(rows)
            x[places] = rows
        return x

    def generate(self, x, n_tokens, tap=lambda name, value, layer=None: None):
        """Greedy ids and the gaps between the best and the second logit. Stop tokens do not stop it."""
        cache, ids, margins = [], [], []
        y = decoder.forward(x, self.weights, self.config, cache, tap)[-1:]
        tap("llm.norm", y)
        while True:
            row = decoder.logits(y, self.weights, self.config)
            if not ids:
                tap("llm.logits", row)
            order = np.argsort(-row[0], kind="stable")
            ids.append(int(order[0]))
            margins.append(float(row[0][order[0]] - row[0][order[1]]))
            if len(ids) == n_tokens:
                return ids, margins
            x = self.weights["llm.model.embed_tokens.weight"][ids[-1:]]
            y = decoder.forward(x, self.weights, self.config, cache)
