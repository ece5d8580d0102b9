"""Compares tokenizer.py with Hugging Face's `tokenizers` on seeded strings of all kinds, for the tiny models' files and others given.

The library's NFC knows no combining marks younger than about Unicode 10: strings whose NFC differs are left out and counted.
Characters that Python's Unicode tables call unassigned are not drawn: which of them are letters depends on each library's age.
"""
import argparse
import os
import random
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer as Theirs, decoders, models, normalizers, pre_tokenizers

import dump
from tokenizer import PATTERN, PATTERN_MARKS, Tokenizer

NFC = normalizers.NFC()
WORDS = ["the", " picture", "图片", "里有", "红色", "é", "e\u0301", "क्षि", "ไทย", "한국", "\u1112\u1161\u11ab", "I'm", "'LL", "'\u017f", "\r\n",
         "\n\n", " ", "  ", "\t", "\u00a0", "\u3000", "\u200d", "\U0001f468\u200d\U0001f469", "\U0001f1e9\U0001f1ea", "1234", "½", "٣", "Ⅷ",
         "<|im_end|>", "<unk>", "<image>", "<slice", "</think>", "...", "=>", "?!", "_x", "\x00", "\x1c", "\x85", "\u2028", "ﬁ", "Å", "\u212b"]


def strings(count, seed):
    rng = random.Random(seed)
    ranges = [(0, 0x7F), (0, 0x2FF), (0x300, 0x36F), (0x370, 0x1FFF), (0x2000, 0x2BFF), (0x3000, 0xA000), (0xAC00, 0xD7A3),
              (0xE000, 0xFFFF), (0x1F300, 0x1FAFF), (0x10000, 0x10FFFF)]
    for _ in range(count):
        parts = []
        for _ in range(rng.randint(0, 24)):
            if rng.random() < 0.5:
                parts.append(rng.choice(WORDS))
            else:
                low, high = rng.choice(ranges)
                drawn = [chr(rng.randint(low, high)) for _ in range(rng.randint(1, 4))]
                parts.append("".join(c for c in drawn if unicodedata.category(c) not in ("Cn", "Cs")))
        yield "".join(parts)


def library_tokenizer(ours):
    """The same vocabulary, merges, pattern and added tokens in the library."""
    merges = sorted(ours.ranks, key=ours.ranks.get)
    out = Theirs(models.BPE(vocab=ours.vocab, merges=merges))
    out.normalizer = normalizers.NFC()
    out.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(ours.pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)])
    out.decoder = decoders.ByteLevel()
    for _, (text, special) in sorted(ours.added.items()):
        token = AddedToken(text, normalized=False, special=special)
        (out.add_special_tokens if special else out.add_tokens)([token])
        assert out.token_to_id(text) == ours.added_id[text]
    return out


def compare(name, ours, theirs, count):
    left_out = 0
    for text in strings(count, 11):
        if NFC.normalize_str(text) != unicodedata.normalize("NFC", text):
            left_out += 1
            continue
        a, b = ours.encode(text), theirs.encode(text, add_special_tokens=False).ids
        if a != b:
            raise SystemExit(f"{name}: {text!r}\n ours   {a}\n theirs {b}")
        for skip in (False, True):
            if ours.decode(a, skip) != theirs.decode(a, skip_special_tokens=skip):
                raise SystemExit(f"{name}: decoding {a} differs, skip_special {skip}")
    print(name, count - left_out, "strings equal, ids and text;", left_out, "left out")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("folder", nargs="*", help="more folders with tokenizer.json and tokenizer_config.json")
    args = parser.parse_args()
    tiny = [os.path.join(dump.ROOT, "models", "tiny", family) for family in dump.CASES]
    for folder in tiny + args.folder:
        ours = Tokenizer.load(folder)
        compare(folder, ours, library_tokenizer(ours), args.count)
        if os.path.exists(os.path.join(folder, "tokenizer.json")):
            compare(folder + " (tokenizer.json)", ours, Theirs.from_file(os.path.join(folder, "tokenizer.json")), args.count)
    assert ours.pattern == PATTERN
    ours.pattern = PATTERN_MARKS
    compare("pattern with marks", ours, library_tokenizer(ours), args.count)


if __name__ == "__main__":
    main()
