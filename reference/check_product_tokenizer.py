"""Compares the product's tokenizer (program text_tool) with Hugging Face's `tokenizers` on many seeded strings.

FOLDER holds a checkpoint's tokenizer.json, or vocab.json + merges.txt + tokenizer_config.json. Trusted text is compared with the
library as it is, untrusted text with the library without its added tokens, pieces with trust in turn with both, put together.
--unicode also compares every code point's class and NFC form. --ggml compares with the vocabulary tests inside a package's source bundle.
--write makes tests/data/text/ids-NAME.jsonl for each FOLDER; only for the tiny models, real vocabularies are not ours to spread.
"""
import argparse
import json
import os
import random
import struct
import subprocess
import tempfile

from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers

from text_strings import broken_bytes, strings
from text_tool import TextTool
from tokenizer import PATTERN, PATTERN_MARKS

BATCH = 2000


def added_entry(token_id, token):
    return {"id": int(token_id), **{key: token[key] for key in ("content", "single_word", "lstrip", "rstrip", "normalized", "special")}}


def tokenizer_json(vocab, merges, added, pattern, normalizer={"type": "NFC"}):
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": normalizer,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]}, "post_processor": byte_level,
            "decoder": byte_level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "", "end_of_word_suffix": "",
                      "fuse_unk": False, "byte_fallback": False, "ignore_merges": False, "vocab": vocab, "merges": merges}}


def read(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as f:
        return f.read()


def load_json(folder):
    """What tokenizer.json says, or would say."""
    if os.path.exists(os.path.join(folder, "tokenizer.json")):
        return json.loads(read(folder, "tokenizer.json"))
    lines = read(folder, "merges.txt").split("\n")
    merges = [line.split(" ") for i, line in enumerate(lines) if line and not (i == 0 and line.startswith("#version"))]
    decoder = json.loads(read(folder, "tokenizer_config.json"))["added_tokens_decoder"]
    added = [added_entry(i, decoder[i]) for i in sorted(decoder, key=int)]
    return tokenizer_json(json.loads(read(folder, "vocab.json")), merges, added, PATTERN)


def without_added(description):
    return {**description, "added_tokens": []}


def fail(what, text, ours, theirs):
    raise SystemExit(f"{what}: {text!r}\n ours   {ours}\n theirs {theirs}")


def compare(name, questions, texts, library, tool):
    for begin in range(0, len(questions), BATCH):
        answers = tool.ask(questions[begin:begin + BATCH])
        expected = library.encode_batch_fast(texts[begin:begin + BATCH], add_special_tokens=False)
        for text, ours, theirs in zip(texts[begin:], answers, expected):
            if ours["ids"] != theirs.ids:
                fail(name, text, ours["ids"], theirs.ids)
    print(f"{name}: {len(questions)} equal", flush=True)


def compare_decoding(texts, library, tool):
    for skip in (False, True):
        ids = [e.ids for e in library.encode_batch_fast(texts, add_special_tokens=False)]
        answers = tool.ask([{"decode": i, "skip_special": skip} for i in ids])
        for i, ours in zip(ids, answers):
            theirs = library.decode(i, skip_special_tokens=skip)
            text = bytes.fromhex(ours["hex"]).decode("utf-8", "replace")
            if text != theirs:
                fail(f"decode, skip {skip}", i, text, theirs)
    print(f"decoded: 2 x {len(texts)} equal", flush=True)


def compare_seams(texts, seed, library, plain, tool):
    """Plain text cut anywhere into pieces of any trust, and special text in a trusted piece of its own."""
    rng = random.Random(seed)
    specials = [t.content for t in library.get_added_tokens_decoder().values()]
    questions, expected = [], []
    for text in texts:
        cuts = sorted(rng.randint(0, len(text)) for _ in range(rng.randint(0, 4)))
        pieces = [text[a:b] for a, b in zip([0] + cuts, cuts + [len(text)])]
        ids = plain.encode(text, add_special_tokens=False).ids
        if specials and rng.random() < 0.5:
            special = rng.choice(specials)
            questions.append({"pieces": [[p, False] for p in pieces] + [[special, True]] + [[p, False] for p in pieces]})
            expected.append(ids + [library.token_to_id(special)] + ids)
        else:
            questions.append({"pieces": [[p, False] for p in pieces]})
            expected.append(ids)
    for question, ours, theirs in zip(questions, tool.ask(questions), expected):
        if ours["ids"] != theirs:
            fail("pieces", question, ours["ids"], theirs)
    print(f"pieces with seams: {len(questions)} equal", flush=True)


def check_folder(program, folder, count, seed):
    description = load_json(folder)
    library = Tokenizer.from_str(json.dumps(description))
    plain = Tokenizer.from_str(json.dumps(without_added(description)))
    tool = TextTool(program, folder)
    special = [t["content"] for t in description["added_tokens"]]
    texts = list(strings(count, seed, special))
    half = count // 2
    compare(f"{folder}, trusted", [{"encode": t, "special": True} for t in texts[:half]], texts[:half], library, tool)
    compare(f"{folder}, untrusted", [{"encode": t} for t in texts[half:]], texts[half:], plain, tool)
    broken = list(broken_bytes(count // 20, seed + 1))
    compare(f"{folder}, not UTF-8", [{"hex": b.hex()} for b in broken], [b.decode("utf-8", "replace") for b in broken], plain, tool)
    compare_decoding(texts[:count // 20], library, tool)
    compare_seams(list(strings(count // 20, seed + 2)), seed + 3, library, plain, tool)
    tool.close()


def write_vectors(folder, into, seed, count=160):
    """Strings and the library's ids for them, short ones that together hold all kinds of parts."""
    description = load_json(folder)
    library = Tokenizer.from_str(json.dumps(description))
    plain = Tokenizer.from_str(json.dumps(without_added(description)))
    special = [t["content"] for t in description["added_tokens"]]
    texts = [t for t in strings(count * 4, seed, special) if 0 < len(t) < 120][:count]
    path = os.path.join(into, f"ids-{os.path.basename(os.path.normpath(folder))}.jsonl")
    with open(path, "w", encoding="utf-8") as f:
        for i, text in enumerate(texts):
            ids = (library if i % 2 else plain).encode(text, add_special_tokens=False).ids
            f.write(json.dumps({"text": text, "special": i % 2 == 1, "ids": ids}) + "\n")
    print("wrote", path)


def check_splits(program, count, seed):
    """Both patterns, native and on PCRE2, against the library's own pre-tokenizer, without any vocabulary."""
    tool = TextTool(program)
    texts = list(strings(count, seed))
    for name, pattern in (("Qwen2", PATTERN), ("marks", PATTERN_MARKS)):
        library = pre_tokenizers.Split(Regex(pattern), "isolated")
        for ours, text in zip(tool.ask([{"split": t, "pattern": pattern} for t in texts]), texts):
            theirs = [piece for piece, _ in library.pre_tokenize_str(text)]
            if ours["pieces"] != theirs:
                fail(f"split {name}", text, ours["pieces"], theirs)
        print(f"split by pattern {name}: {count} equal", flush=True)
    tool.close()


def in_lines(texts, per_line=200):
    return ["".join(texts[i:i + per_line]) for i in range(0, len(texts), per_line)]


def check_unicode(program):
    """Every code point: class as both patterns see it (alone, between letters, before a letter), and NFC (also among marks)."""
    tool = TextTool(program)
    points = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    for name, pattern in (("Qwen2", PATTERN), ("marks", PATTERN_MARKS)):
        library = pre_tokenizers.Split(Regex(pattern), "isolated")
        lines = in_lines([f"a{c}{c}b 1{c} {c}.\n" for c in points])
        for ours, line in zip(tool.ask([{"split": t, "pattern": pattern} for t in lines]), lines):
            theirs = [piece for piece, _ in library.pre_tokenize_str(line)]
            for mine, other in zip(ours["pieces"], theirs):
                if mine != other:
                    fail(f"class {name}", line, mine, other)
            assert len(ours["pieces"]) == len(theirs)
        print(f"classes, pattern {name}: {len(points)} code points equal", flush=True)
    nfc = normalizers.NFC()
    rng = random.Random(5)
    moved = "\u0334\u0345"  # combining classes 1 and 240: every other mark changes places with one of them
    second = [c for c in points if nfc.normalize_str("a" + c + moved[0]) == "a" + moved[0] + c]
    second += sorted({part for c in points for part in normalizers.NFD().normalize_str(c)[1:]})
    drawn = ["".join(rng.choice(second) if rng.random() < 0.8 else rng.choice(points) for _ in range(rng.randint(2, 9))) + "z"
             for _ in range(200000)]
    lines = in_lines(points) + in_lines([f"a{c}{moved}b\u0345{c}\u0334" for c in points]) + in_lines(drawn)
    for ours, line in zip(tool.ask([{"nfc": t} for t in lines]), lines):
        theirs = nfc.normalize_str(line)
        if ours["text"] != theirs:
            at = next(i for i, (x, y) in enumerate(zip(ours["text"], theirs)) if x != y)
            fail("NFC", *([hex(ord(c)) for c in t[max(at - 10, 0):at + 10]] for t in (line, ours["text"], theirs)))
    print(f"NFC: {len(points)} code points alone and among marks, {len(drawn)} strings of marks ({len(second)} kinds) equal", flush=True)
    tool.close()


def gguf_metadata(data):
    """The key/value part of a GGUF file."""
    at = 0

    def take(form):
        nonlocal at
        values = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize("<" + form)
        return values[0]

    def text():
        nonlocal at
        n = take("Q")
        at += n
        return data[at - n:at].decode("utf-8")

    simple = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}

    def value(kind):
        if kind == 8:
            return text()
        if kind == 9:
            inner, n = take("I"), take("Q")
            return [value(inner) for _ in range(n)]
        return take(simple[kind])

    assert take("I") == 0x46554747
    take("I")
    take("Q")
    return {text(): value(take("I")) for _ in range(take("Q"))}


def check_ggml(program, package):
    """PACKAGE: the unpacked npm package node-llama-cpp, whose llama/gitRelease.bundle holds vocabulary-only models with .inp and .out."""
    with tempfile.TemporaryDirectory() as folder:
        git = os.path.join(folder, "git")
        subprocess.run(["git", "clone", "--quiet", "--bare", os.path.join(package, "llama", "gitRelease.bundle"), git], check=True, stderr=subprocess.DEVNULL)
        commit = subprocess.check_output(["git", "--git-dir", git, "rev-parse", "HEAD"], text=True).strip()

        def show(name):
            return subprocess.check_output(["git", "--git-dir", git, "show", f"{commit}:models/{name}"])

        for name, pattern in (("qwen2", PATTERN), ("qwen35", PATTERN_MARKS)):
            meta = gguf_metadata(show(f"ggml-vocab-{name}.gguf"))
            tokens, kinds = meta["tokenizer.ggml.tokens"], meta["tokenizer.ggml.token_type"]
            added = [added_entry(i, {"content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                                     "special": kind == 3}) for i, (t, kind) in enumerate(zip(tokens, kinds)) if kind in (3, 4)]
            kept = {t: i for i, (t, kind) in enumerate(zip(tokens, kinds)) if kind == 1}
            merges = [m.split(" ") for m in meta["tokenizer.ggml.merges"]]
            os.makedirs(os.path.join(folder, name), exist_ok=True)
            with open(os.path.join(folder, name, "tokenizer.json"), "w", encoding="utf-8") as f:
                json.dump(tokenizer_json(kept, merges, added, pattern, normalizer=None), f)  # the vectors were made without NFC
            tool = TextTool(program, os.path.join(folder, name))
            texts = show(f"ggml-vocab-{name}.gguf.inp").decode("utf-8").split("\n__ggml_vocab_test__\n")
            expected = [[int(i) for i in line.split()] for line in show(f"ggml-vocab-{name}.gguf.out").decode().split("\n")[:len(texts)]]
            for text, ours, theirs in zip(texts, tool.ask([{"encode": t} for t in texts]), expected, strict=True):
                if ours["ids"] != theirs:
                    fail(name, text, ours["ids"], theirs)
            print(f"ggml-vocab-{name}: {len(texts)} published vectors equal", flush=True)
            tool.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tool", required=True, help="build/<preset>/bin/text_tool")
    parser.add_argument("--count", type=int, default=20000, help="strings per folder")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--unicode", action="store_true")
    parser.add_argument("--ggml", metavar="PACKAGE", help="folder of the unpacked npm package node-llama-cpp")
    parser.add_argument("--write", metavar="FOLDER", help="tests/data/text")
    parser.add_argument("folder", nargs="*")
    args = parser.parse_args()
    if args.write:
        for folder in args.folder:
            write_vectors(folder, args.write, args.seed)
        return
    for folder in args.folder:
        check_folder(args.tool, folder, args.count, args.seed)
    if args.folder:
        check_splits(args.tool, args.count, args.seed)
    if args.unicode:
        check_unicode(args.tool)
    if args.ggml:
        check_ggml(args.tool, args.ggml)


if __name__ == "__main__":
    main()
