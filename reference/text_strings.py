"""Seeded strings of all kinds for checking tokenizers and templates: scripts, emoji, marks, control characters, white space, runs."""
import random

WORDS = ["the", " picture", "Hello", " World", "图片", "里有什么", "红色", "日本語の", "カタカナ", "é", "e\u0301", "क्षि", "ไทย", "한국어", "\u1112\u1161\u11ab", "مرحبا",
         "שלום", "Привет", "ελληνικά", "I'm", "'LL", "'\u017f", "'S", "they're", "we'Ve", "can't", "'d'D", "'l", "'r", "''s", "\r\n", "\n\n", "\n", "\r", " ", "  ",
         "    ", "\t", " \t ", "\u00a0", "\u3000", "\u2009", "\u200b", "\u200d", "\u180e", "\u0085", "\u2028", "\x1c", "\x00", "\x7f", "\ufeff", "\ufffd",
         "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "👍🏽", "❤️", "1234", "3.14", "½", "٣", "Ⅷ", "²", "①", "...", "=>", "?!", "_x", "://",
         "ﬁ", "Å", "\u212b", "\u0344", "\u0958", "\u1e9b\u0323", "ß", "İ", "ǅ", "ʰ", "ª", "º", "\u0345\u0323", "\u0334\u0301", "\u093c\u0915", "\u11ab", "\uac00\u11a8",
         "example.org/a?b=c&d=%20e", "def f(x):\n    return x ** 2\n", "SELECT * FROM t;", "{\"a\": [1, 2.5e-3]}", "<br/>", "aaaaaaaa", "AAAA", "ΑΣ", "x" * 40]
RANGES = [(0, 0x7F), (0, 0x2FF), (0x300, 0x36F), (0x370, 0x52F), (0x530, 0x8FF), (0x900, 0xDFF), (0xE00, 0x1FFF), (0x2000, 0x2BFF), (0x2C00, 0x2FFF),
          (0x3000, 0x33FF), (0x3400, 0x9FFF), (0xA000, 0xABFF), (0xAC00, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x1FFFF), (0x1F000, 0x1FAFF), (0x20000, 0x323AF),
          (0x0, 0x10FFFF)]
MARKS = [(0x300, 0x345), (0x483, 0x487), (0x591, 0x5BD), (0x610, 0x61A), (0x64B, 0x65F), (0x6D6, 0x6ED), (0x730, 0x74A), (0x898, 0x8FF), (0x93C, 0x94D),
         (0xE31, 0xE4E), (0xF18, 0xF87), (0x1AB0, 0x1ACE), (0x1DC0, 0x1DFF), (0x20D0, 0x20F0), (0x3099, 0x309A), (0xFE20, 0xFE2F), (0x10D24, 0x10D27),
         (0x1D165, 0x1D172), (0x1E000, 0x1E02A), (0x1E130, 0x1E136)]
SPACES = " \t\n\r\u000b\u000c\u0085\u00a0\u1680\u2000\u2009\u2028\u2029\u202f\u205f\u3000\u180e\u200b"


def character(rng, ranges):
    while True:
        c = rng.randint(*rng.choice(ranges))
        if not 0xD800 <= c < 0xE000:
            return chr(c)


def part(rng, special):
    kind = rng.randrange(12)
    if kind < 5:
        return rng.choice(WORDS)
    if kind == 5:
        return "".join(rng.choice(SPACES) for _ in range(rng.randint(1, 6)))
    if kind == 6:
        return character(rng, RANGES) + "".join(character(rng, MARKS) for _ in range(rng.randint(1, 5)))
    if kind == 7:
        return "".join(chr(rng.randint(0x20, 0x7E)) for _ in range(rng.randint(1, 12)))
    if kind == 8:
        return rng.choice(["'", "\u2019"]) + "".join(rng.choice("sStTrReEvVmMlLdD\u017f\u212a") for _ in range(rng.randint(1, 3)))
    if kind == 9 and special:
        text = rng.choice(special)
        return text if rng.random() < 0.8 else text[: rng.randint(1, len(text))]
    if kind == 10 and rng.random() < 0.05:
        return rng.choice(["a", "ab", " ", "\n", "1", "!", "字", "e\u0301", "\u0301", " x", "\r\n"]) * rng.randint(50, 3000)
    low, high = rng.choice(RANGES)
    return "".join(character(rng, [(low, high)]) for _ in range(rng.randint(1, 6)))


def strings(count, seed, special=()):
    rng = random.Random(seed)
    special = list(special)
    for _ in range(count):
        yield "".join(part(rng, special) for _ in range(rng.randint(0, 14)))


def broken_bytes(count, seed):
    """Byte strings that are mostly not UTF-8: cut, changed and surrogate sequences."""
    rng = random.Random(seed)
    for text in strings(count, seed + 1):
        data = bytearray(text[:60].encode())
        for _ in range(rng.randint(1, 5)):
            at = rng.randint(0, len(data))
            if rng.random() < 0.5:
                data[at:at] = bytes(rng.randint(0x80, 0xFF) for _ in range(rng.randint(1, 4)))
            else:
                del data[at:at + 1]
        yield bytes(data)
