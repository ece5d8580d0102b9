"""Byte-level BPE as the model files define it: load, encode, decode, and a small trainer for the tiny models' vocabulary.

Slow and plain; rules of the GPT-2 byte map, NFC, the Qwen2 split pattern (or its marks-aware form), merges by rank.
"""
import json
import os
import unicodedata

import regex

PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
           r"|\s+(?!\S)|\s+")
PATTERN_MARKS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
                 r"|\s*[\r\n]+|\s+(?!\S)|\s+")


def byte_symbols():
    """The printable character that stands for each byte: itself where it is printable Latin-1, else 256, 257, ..."""
    plain = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    table, spare = {}, 256
    for b in range(256):
        if b in plain:
            table[b] = chr(b)
        else:
            table[b] = chr(spare)
            spare += 1
    return table


SYMBOL = byte_symbols()
BYTE = {s: b for b, s in SYMBOL.items()}


def split(text, pattern=PATTERN):
    """Pieces of the text, none lost, each as byte symbols."""
    # In this module \s is spelled out: Unicode White_Space, as Oniguruma has it.
    found = regex.findall(pattern.replace(r"\s", r"\p{White_Space}").replace(r"\S", r"\P{White_Space}"), text)
    return ["".join(SYMBOL[b] for b in piece.encode("utf-8")) for piece in found]


def merge(symbols, ranks):
    """Applies the lowest-ranked merge, leftmost first, until none applies."""
    symbols = list(symbols)
    while len(symbols) > 1:
        best = min(range(len(symbols) - 1), key=lambda i: ranks.get((symbols[i], symbols[i + 1]), 1 << 60))
        if (symbols[best], symbols[best + 1]) not in ranks:
            break
        symbols[best:best + 2] = [symbols[best] + symbols[best + 1]]
    return symbols


class Tokenizer:
    def __init__(self, vocab, merges, added, pattern=PATTERN):
        """vocab: symbols -> id; merges: list of pairs; added: id -> (text, is_special)."""
        self.vocab = vocab
        self.ranks = {tuple(pair): rank for rank, pair in enumerate(merges)}
        self.added = added
        self.pattern = pattern
        self.added_id = {text: i for i, (text, _) in added.items()}
        self.symbols = {i: s for s, i in vocab.items()}
        longest_first = sorted(self.added_id, key=len, reverse=True)
        self.splitter = regex.compile("|".join(regex.escape(t) for t in longest_first))

    @staticmethod
    def load(folder):
        def read(name):
            with open(os.path.join(folder, name), encoding="utf-8") as f:
                return f.read()

        config = json.loads(read("tokenizer_config.json"))
        added = {int(i): (t["content"], t["special"]) for i, t in config["added_tokens_decoder"].items()}
        if os.path.exists(os.path.join(folder, "tokenizer.json")):
            model = json.loads(read("tokenizer.json"))["model"]
            merges = [m.split(" ") if isinstance(m, str) else m for m in model["merges"]]
            return Tokenizer(model["vocab"], merges, added)
        lines = read("merges.txt").split("\n")
        merges = [line.split(" ") for line in lines if line and not line.startswith("#version")]
        return Tokenizer(json.loads(read("vocab.json")), merges, added)

    def encode_plain(self, text):
        """No added token is recognised."""
        ids = []
        for piece in split(unicodedata.normalize("NFC", text), self.pattern):
            ids += [self.vocab[s] for s in merge(piece, self.ranks)]
        return ids

    def encode(self, text):
        ids, start = [], 0
        for match in self.splitter.finditer(text):
            ids += self.encode_plain(text[start:match.start()])
            ids.append(self.added_id[match.group()])
            start = match.end()
        return ids + self.encode_plain(text[start:])

    def decode(self, ids, skip_special=True):
        out = b""
        for i in ids:
            if i in self.added:
                text, special = self.added[i]
                out += b"" if special and skip_special else text.encode("utf-8")
            elif i in self.symbols:
                out += bytes(BYTE[c] for c in self.symbols[i])
        return out.decode("utf-8", "replace")


def train(text, n_merges, pattern=PATTERN):
    """The n most useful merges of the text: most frequent pair first, ties by the pair's symbols."""
    words = {}
    for piece in split(unicodedata.normalize("NFC", text), pattern):
        words[piece] = words.get(piece, 0) + 1
    words = [(list(piece), n) for piece, n in words.items()]
    merges = []
    while len(merges) < n_merges:
        counts = {}
        for symbols, n in words:
            for pair in zip(symbols, symbols[1:]):
                counts[pair] = counts.get(pair, 0) + n
        if not counts:
            break
        best = max(counts, key=lambda pair: (counts[pair], pair))
        if counts[best] < 2:
            break
        merges.append(best)
        for symbols, _ in words:
            i = 0
            while i + 1 < len(symbols):
                if (symbols[i], symbols[i + 1]) == best:
                    symbols[i:i + 2] = [symbols[i] + symbols[i + 1]]
                i += 1
    return merges
