"""Small writers of PNG, TIFF, GIF, BMP and animated WebP, for kinds of files that Pillow cannot write itself.

Used by make_test_images.py. They write valid files and nothing else: no options that no test picture needs.
"""
import struct
import zlib

import numpy as np


def spread_palette(n):
    """n RGB entries, all different from grey, in no order."""
    i = np.arange(n)
    return np.stack([(i * 37 + 11) % 256, (i * 91 + 200) % 256, (i * 151 + 60) % 256], -1).astype(np.uint8).tobytes()


def pack_bits(rows, bits):
    """[h, n] samples of 1, 2, 4, 8, 12 or 16 bits -> list of h byte strings, most significant bit first."""
    packed = []
    for row in np.asarray(rows):
        if bits == 16:
            packed.append(row.astype(">u2").tobytes())
        elif bits == 8:
            packed.append(row.astype(np.uint8).tobytes())
        else:
            text = "".join(format(int(v), f"0{bits}b") for v in row)
            text += "0" * (-len(text) % 8)
            packed.append(bytes(int(text[i:i + 8], 2) for i in range(0, len(text), 8)))
    return packed


# ---------------------------------------------------------------- PNG
def _png_chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def png(samples, bits, colour_type, before=(), behind=(), interlace=False):
    """samples [h, w] or [h, w, n]; chunks `before` and `behind` stand around IDAT."""
    h, w = samples.shape[:2]
    samples = samples.reshape(h, w, -1)
    data = b""
    for x0, y0, dx, dy in ADAM7 if interlace else ((0, 0, 1, 1),):
        part = samples[y0::dy, x0::dx]
        if part.size:
            data += b"".join(b"\0" + row for row in pack_bits(part.reshape(part.shape[0], -1), bits))
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", w, h, bits, colour_type, 0, 0, int(interlace))), *before,
              (b"IDAT", zlib.compress(data, 9)), *behind, (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_png_chunk(*c) for c in chunks)


# ---------------------------------------------------------------- WebP
def webp_animation(still, canvas, offset, size):
    """An animation of one frame: the VP8L chunk of the file `still`, at an even offset of a larger canvas."""
    def u24(v):
        return struct.pack("<I", v)[:3]

    def chunk(kind, data):
        return kind + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)

    at = still.index(b"VP8L")
    n = struct.unpack_from("<I", still, at + 4)[0]
    picture = chunk(b"VP8L", still[at + 8:at + 8 + n])
    frame = u24(offset[0] // 2) + u24(offset[1] // 2) + u24(size[0] - 1) + u24(size[1] - 1) + u24(100) + b"\0" + picture
    flags = 0x02 | 0x10  # animation, alpha
    body = (b"WEBP" + chunk(b"VP8X", struct.pack("<I", flags) + u24(canvas[0] - 1) + u24(canvas[1] - 1))
            + chunk(b"ANIM", struct.pack("<IH", 0xff8040ff, 0)) + chunk(b"ANMF", frame))
    return b"RIFF" + struct.pack("<I", len(body)) + body


# ---------------------------------------------------------------- GIF
def _lzw(indices, bits):
    """Codes that never grow: a clear code before the table would need longer ones."""
    width, clear = bits + 1, 1 << bits
    codes = []
    for i, v in enumerate(indices):
        if i % (clear - 2) == 0:
            codes.append(clear)
        codes.append(int(v))
    codes.append(clear + 1)
    value = n = 0
    data = bytearray()
    for c in codes:
        value |= c << n
        n += width
        while n >= 8:
            data.append(value & 255)
            value >>= 8
            n -= 8
    if n:
        data.append(value & 255)
    return b"".join(bytes([len(data[i:i + 255])]) + bytes(data[i:i + 255]) for i in range(0, len(data), 255)) + b"\0"


def gif(index, screen, palette, local_palette=None, offset=(0, 0), transparent=None, interlace=False):
    """palette: bytes of 3 * 2^n entries or None."""
    def flags(p):
        return 0x80 | ((len(p) // 3).bit_length() - 2) if p else 0

    h, w = index.shape
    out = b"GIF89a" + struct.pack("<HHBBB", *screen, flags(palette), 0, 0) + (palette or b"")
    if transparent is not None:
        out += b"\x21\xf9\x04" + struct.pack("<BHB", 1, 0, transparent) + b"\0"
    out += b"," + struct.pack("<HHHHB", *offset, w, h, flags(local_palette) | (0x40 if interlace else 0))
    rows = index
    if interlace:
        rows = np.concatenate([index[0::8], index[4::8], index[2::4], index[1::2]])
    return out + (local_palette or b"") + b"\x08" + _lzw(rows.reshape(-1), 8) + b";"


# ---------------------------------------------------------------- BMP
def _bmp_rle(index, nibbles):
    """Runs, literals, one delta in the first row and an end mark; rows from the bottom up."""
    out = bytearray()
    h, w = index.shape
    for y in range(h - 1, -1, -1):
        row, x = index[y], 0
        while x < w:
            n = 1
            while x + n < w and n < 255 and row[x + n] == row[x]:
                n += 1
            if n >= 3 or w - x < 3:
                out += bytes([n, row[x] * 17 if nibbles else row[x]])
            else:
                n = min(5, w - x)
                literal = list(row[x:x + n])
                packed = bytes(a << 4 | b for a, b in zip(literal[::2], literal[1::2] + [0])) if nibbles else bytes(literal)
                out += bytes([0, n]) + packed + b"\0" * (len(packed) % 2)
            x += n
        out += b"\0\0"
    return bytes(out) + b"\0\1"


def bmp(samples, bits, palette=b"", core=False, top_down=False, masks=(), rle=False):
    """samples: [h, w] indices, [h, w, 3] RGB or [h, w, 4] RGBX; masks: red, green, blue of 16 or 32 bits."""
    h, w = samples.shape[:2]
    rows = samples if top_down else samples[::-1]
    if rle:
        data = _bmp_rle(samples.astype(int), bits == 4)
    else:
        if bits <= 8:
            lines = pack_bits(rows, bits)
        elif bits == 24:
            lines = [row[:, ::-1].tobytes() for row in rows]
        elif bits == 32:
            order = [0, 1, 2, 3] if masks else [2, 1, 0, 3]
            lines = [np.ascontiguousarray(row[:, order]).tobytes() for row in rows]
        else:
            green_bits = 6 if masks else 5
            v = (rows[:, :, 0].astype(int) >> 3) << (5 + green_bits) | (rows[:, :, 1].astype(int) >> (8 - green_bits)) << 5
            lines = [row.astype("<u2").tobytes() for row in v | rows[:, :, 2].astype(int) >> 3]
        data = b"".join(line + b"\0" * (-len(line) % 4) for line in lines)
    entries = [palette[i:i + 3][::-1] for i in range(0, len(palette), 3)]
    colours = b"".join(e + (b"" if core else b"\0") for e in entries)
    if core:
        header = struct.pack("<IHHHH", 12, w, h, 1, bits)
    else:
        compression = (2 if bits == 4 else 1) if rle else 3 if masks else 0
        header = struct.pack("<IiiHHIIiiII", 40, w, -h if top_down else h, 1, bits, compression, len(data), 2835, 2835,
                             len(entries), 0) + struct.pack(f"<{len(masks)}I", *masks)
    offset = 14 + len(header) + len(colours)
    return b"BM" + struct.pack("<IHHI", offset + len(data), 0, 0, offset) + header + colours + data


# ---------------------------------------------------------------- TIFF
def ycbcr_units(rgb):
    """Data units of 2 x 2 subsampling: four luma bytes, then Cb and Cr (BT.601, full range)."""
    h, w = rgb.shape[:2]
    padded = np.pad(rgb, ((0, h % 2), (0, w % 2), (0, 0)), "edge").astype(float)
    y = padded @ [0.299, 0.587, 0.114]
    cb = 128 + (padded[:, :, 2] - y) / 1.772
    cr = 128 + (padded[:, :, 0] - y) / 1.402
    units = []
    for r in range(0, padded.shape[0], 2):
        for c in range(0, padded.shape[1], 2):
            block = np.s_[r:r + 2, c:c + 2]
            units += list(y[block].reshape(-1)) + [cb[block].mean(), cr[block].mean()]
    return np.clip(np.rint(units), 0, 255).astype(np.uint8)


def tiff(samples, bits, photometric, palette=None, extra=(), planar=False, tile=None, rows_per_strip=None, deflate=False,
         big_endian=False, big_tiff=False, fill_order=1, orientation=None, xmp=None, shape=None):
    """samples [h, w] or [h, w, n]; with `shape` = (w, h) they are bytes that are written as they stand."""
    e = ">" if big_endian else "<"
    if shape:
        w, h, n_samples = *shape, 3
        blocks = [samples.tobytes()]
    else:
        h, w = samples.shape[:2]
        samples = samples.reshape(h, w, -1)
        n_samples = samples.shape[2]
        planes = [samples[:, :, i:i + 1] for i in range(n_samples)] if planar else [samples]
        tw, th = tile or (w, rows_per_strip or h)
        blocks = []
        for plane in planes:
            for y in range(0, h, th):
                for x in range(0, w, tw):
                    block = plane[y:y + th, x:x + tw]
                    if tile:
                        block = np.pad(block, ((0, th - block.shape[0]), (0, tw - block.shape[1]), (0, 0)))
                    data = b"".join(pack_bits(block.reshape(block.shape[0], -1), bits))
                    if bits == 16 and not big_endian:
                        data = np.frombuffer(data, ">u2").astype("<u2").tobytes()
                    blocks.append(data)
    if fill_order == 2:
        blocks = [bytes(int(format(v, "08b")[::-1], 2) for v in b) for b in blocks]
    if deflate:
        blocks = [zlib.compress(b, 9) for b in blocks]
    tags = {256: (4, [w]), 257: (4, [h]), 258: (3, [bits] * n_samples), 259: (3, [8 if deflate else 1]),
            262: (3, [photometric]), 277: (3, [n_samples])}
    offset_tag, count_tag = (324, 325) if tile else (273, 279)
    if tile:
        tags[322], tags[323] = (4, [tile[0]]), (4, [tile[1]])
    else:
        tags[278] = (4, [rows_per_strip or h])
    if planar:
        tags[284] = (3, [2])
    if extra:
        tags[338] = (3, list(extra))
    if fill_order != 1:
        tags[266] = (3, [fill_order])
    if orientation:
        tags[274] = (3, [orientation])
    if xmp:
        tags[700] = (1, list(xmp))
    if photometric == 5:
        tags[332] = (3, [1])
    if photometric == 6:
        tags[530] = (3, [2, 2])
    if palette:
        p = np.frombuffer(palette, np.uint8).reshape(-1, 3)
        tags[320] = (3, [int(v) * 257 for v in p.T.reshape(-1)])
    return _tiff_file(e, big_tiff, tags, blocks, offset_tag, count_tag)


def _tiff_file(e, big, tags, blocks, offset_tag, count_tag):
    word, width = ("Q", 8) if big else ("I", 4)
    at = 16 if big else 8
    offsets = []
    body = b""
    for b in blocks:
        offsets.append(at + len(body))
        body += b + b"\0" * (len(b) % 2)
    tags[offset_tag], tags[count_tag] = (16 if big else 4, offsets), (16 if big else 4, [len(b) for b in blocks])
    codes = {1: "B", 3: "H", 4: "I", 16: "Q"}
    entries = b""
    for tag, (kind, values) in sorted(tags.items()):
        data = struct.pack(f"{e}{len(values)}{codes[kind]}", *values)
        if len(data) > width:
            where = at + len(body)
            body += data + b"\0" * (len(data) % 2)
            data = struct.pack(e + word, where)
        entries += struct.pack(f"{e}HH{word}", tag, kind, len(values)) + data.ljust(width, b"\0")
    directory = at + len(body)
    mark = b"MM" if e == ">" else b"II"
    head = mark + (struct.pack(e + "HHHQ", 43, 8, 0, directory) if big else struct.pack(e + "HI", 42, directory))
    return head + body + struct.pack(e + ("Q" if big else "H"), len(tags)) + entries + struct.pack(e + word, 0)
