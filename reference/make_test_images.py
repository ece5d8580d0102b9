"""Draws the small pictures of tests/data/images and writes what their pixels must be (expected.csv).

Every format and mode that src/image reads, a few kilobytes each. The picture is made up here, so nobody's rights are
touched. Truth is Pillow (exif_transpose, then convert("RGB")) reading the very file; where the product means to differ
(16-bit and 12-bit grey: the upper 8 bits) or Pillow 9 is wrong or cannot read the file, the samples that were written are
the truth.

Run with Debian's python3-pil: its JPEG, WebP and TIFF libraries are those that the product links. Needs cjpeg from
libjpeg-turbo-progs for kinds of JPEG that Pillow cannot write.

    python3 reference/make_test_images.py --out tests/data/images
"""
import argparse
import io
import pathlib
import struct
import subprocess
import warnings
import zlib

import numpy as np
from PIL import Image, ImageOps

import image_writers as writers

W, H = 37, 29  # not multiples of 8, 14 or 16


def picture():
    """[H, W, 3] uint8: gradients, a disc, hard edges, a little noise."""
    y, x = np.mgrid[0:H, 0:W]
    r = x * 255 // (W - 1)
    g = y * 255 // (H - 1)
    b = (x * 7 + y * 13) % 256
    rgb = np.stack([r, g, b], -1)
    rgb[(x - 12) ** 2 + (y - 10) ** 2 < 49] = (250, 40, 10)
    rgb[20:25, 25:33] = (0, 0, 255)
    noise = np.random.RandomState(3).randint(-6, 7, rgb.shape)
    return np.clip(rgb + noise, 0, 255).astype(np.uint8)


def alpha():
    y, x = np.mgrid[0:H, 0:W]
    a = (x * 11 + y * 5) % 256
    a[:4] = 0
    a[-4:] = 255
    return a.astype(np.uint8)


TURNS = {2: Image.FLIP_LEFT_RIGHT, 3: Image.ROTATE_180, 4: Image.FLIP_TOP_BOTTOM, 5: Image.TRANSPOSE,
         6: Image.ROTATE_270, 7: Image.TRANSVERSE, 8: Image.ROTATE_90}


def turned(data, orientation):
    """The file's pixels, turned here: Pillow 9 turns TIFF files twice and reads XMP of PNG files only."""
    image = Image.open(io.BytesIO(data)).convert("RGB")
    return np.asarray(image.transpose(TURNS[orientation]) if orientation in TURNS else image)


def encode(image, format_name, **options):
    out = io.BytesIO()
    image.save(out, format_name, **options)
    return out.getvalue()


def exif_block(orientation, big_endian=False):
    e = ">" if big_endian else "<"
    head = b"MM\0*" if big_endian else b"II*\0"
    return head + struct.pack(e + "IH", 8, 1) + struct.pack(e + "HHIHH", 0x112, 3, 1, orientation, 0) + bytes(4)


def xmp_packet(orientation):
    return (b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF><rdf:Description tiff:Orientation="%d"/></rdf:RDF>'
            b"</x:xmpmeta>" % orientation)


def jpeg_segment(marker, data):
    return struct.pack(">BBH", 0xff, marker, len(data) + 2) + data


def after_soi(jpeg, segment):
    return jpeg[:2] + segment + jpeg[2:]


def jpegs(files, truth):
    rgb = Image.fromarray(picture())
    for name, subsampling in (("444", 0), ("422", 1), ("420", 2)):
        files[f"rgb_{name}.jpg"] = encode(rgb, "JPEG", quality=85, subsampling=subsampling)
    files["progressive.jpg"] = encode(rgb, "JPEG", quality=80, progressive=True)
    files["grey.jpg"] = encode(rgb.convert("L"), "JPEG", quality=90)
    cmyk = Image.fromarray(np.dstack([picture(), alpha() // 2]), "CMYK")
    files["cmyk.jpg"] = encode(cmyk, "JPEG", quality=90)
    # The same data, read as YCCK: byte 11 of the Adobe segment says so.
    at = files["cmyk.jpg"].index(b"Adobe")
    files["ycck.jpg"] = files["cmyk.jpg"][:at + 11] + b"\2" + files["cmyk.jpg"][at + 12:]
    # Three components that an Adobe segment calls RGB.
    adobe_rgb = jpeg_segment(0xee, b"Adobe" + struct.pack(">HHHB", 100, 0, 0, 0))
    files["adobe_rgb.jpg"] = after_soi(files["rgb_444.jpg"], adobe_rgb)
    ppm = encode(rgb, "PPM")
    for name, options in (("rgb_440", ["-sample", "1x2"]), ("rgb_411", ["-sample", "4x1"]),
                          ("restart", ["-restart", "1"]), ("arithmetic", ["-arithmetic"])):
        files[f"{name}.jpg"] = subprocess.run(["cjpeg", "-quality", "85", *options], input=ppm, check=True,
                                              stdout=subprocess.PIPE).stdout
    base = files["rgb_420.jpg"]
    for orientation in range(1, 9):
        segment = jpeg_segment(0xe1, b"Exif\0\0" + exif_block(orientation, big_endian=orientation % 2 == 0))
        files[f"exif_{orientation}.jpg"] = after_soi(base, segment)
    files["exif_9.jpg"] = after_soi(base, jpeg_segment(0xe1, b"Exif\0\0" + exif_block(9)))
    files["xmp_6.jpg"] = after_soi(base, jpeg_segment(0xe1, b"http://ns.adobe.com/xap/1.0/\0" + xmp_packet(6)))
    truth["xmp_6.jpg"] = turned(base, 6)
    both = jpeg_segment(0xe1, b"Exif\0\0" + exif_block(3)) + jpeg_segment(
        0xe1, b"http://ns.adobe.com/xap/1.0/\0" + xmp_packet(6))
    files["exif_3_xmp_6.jpg"] = after_soi(base, both)
    files["trailing_bytes.jpg"] = base + b"something after the picture"


def pngs(files, truth):
    rgb, a = picture(), alpha()
    grey = np.asarray(Image.fromarray(rgb).convert("L"))
    wide = (rgb.astype(np.uint16) << 8 | rgb[:, ::-1]).astype(np.uint16)
    wide_grey, wide_alpha = wide[:, :, 1], (a.astype(np.uint16) << 8 | 77).astype(np.uint16)
    for bits in (1, 2, 4):
        files[f"grey{bits}.png"] = writers.png(grey >> (8 - bits), bits, 0)
        files[f"grey{bits}_interlaced.png"] = writers.png(grey >> (8 - bits), bits, 0, interlace=True)
    files["grey8.png"] = writers.png(grey, 8, 0)
    files["grey8_trns.png"] = writers.png(grey, 8, 0, before=[(b"tRNS", struct.pack(">H", int(grey[3, 3])))])
    for interlace in (False, True):
        name = "grey16_interlaced.png" if interlace else "grey16.png"
        files[name] = writers.png(wide_grey, 16, 0, interlace=interlace)
        truth[name] = np.repeat((wide_grey >> 8).astype(np.uint8)[:, :, None], 3, 2)
    files["grey_alpha8.png"] = writers.png(np.dstack([grey, a]), 8, 4)
    files["grey_alpha16.png"] = writers.png(np.dstack([wide_grey, wide_alpha]), 16, 4)
    files["rgb8.png"] = writers.png(rgb, 8, 2)
    files["rgb8_interlaced.png"] = writers.png(rgb, 8, 2, interlace=True)
    files["rgb8_trns.png"] = writers.png(rgb, 8, 2, before=[(b"tRNS", struct.pack(">3H", *map(int, rgb[3, 3])))])
    files["rgb16.png"] = writers.png(wide, 16, 2)
    files["rgba8.png"] = writers.png(np.dstack([rgb, a]), 8, 6)
    files["rgba8_interlaced.png"] = writers.png(np.dstack([rgb, a]), 8, 6, interlace=True)
    files["rgba16.png"] = writers.png(np.dstack([wide, wide_alpha]), 16, 6)
    for bits in (1, 2, 4, 8):
        palette = writers.spread_palette(1 << bits)
        index = grey >> (8 - bits)
        files[f"palette{bits}.png"] = writers.png(index, bits, 3, before=[(b"PLTE", palette)])
        files[f"palette{bits}_interlaced.png"] = writers.png(index, bits, 3, before=[(b"PLTE", palette)], interlace=True)
    trns = [(b"PLTE", writers.spread_palette(256)), (b"tRNS", bytes(range(200)))]
    files["palette8_trns.png"] = writers.png(grey, 8, 3, before=trns)
    # Indices beyond the palette are black.
    files["palette_short.png"] = writers.png(grey, 8, 3, before=[(b"PLTE", writers.spread_palette(100))])
    table = np.zeros((256, 3), np.uint8)
    table[:100] = np.frombuffer(writers.spread_palette(100), np.uint8).reshape(-1, 3)
    truth["palette_short.png"] = table[grey]
    files["exif_8.png"] = writers.png(rgb, 8, 2, before=[(b"eXIf", exif_block(8))])
    files["exif_7_behind.png"] = writers.png(rgb, 8, 2, behind=[(b"eXIf", exif_block(7, True))])
    raw = b"Exif\0\0" + exif_block(5)
    profile = b"Raw profile type exif\0\nexif\n%8d\n" % len(raw) + raw.hex().encode() + b"\n"
    files["raw_profile_5.png"] = writers.png(rgb, 8, 2, before=[(b"tEXt", profile)])
    itxt = b"XML:com.adobe.xmp\0\0\0\0\0" + xmp_packet(6)
    files["xmp_6.png"] = writers.png(rgb, 8, 2, before=[(b"iTXt", itxt)])
    files["gamma_profile.png"] = writers.png(rgb, 8, 2, before=[(b"gAMA", struct.pack(">I", 220000)),
                                                                (b"sBIT", bytes([5, 6, 5]))])


def webps(files, truth):
    rgb = Image.fromarray(picture())
    rgba = Image.fromarray(np.dstack([picture(), alpha()]))
    files["lossy.webp"] = encode(rgb, "WEBP", quality=80)
    files["lossy_alpha.webp"] = encode(rgba, "WEBP", quality=80)
    files["lossless.webp"] = encode(rgb, "WEBP", lossless=True)
    files["lossless_alpha.webp"] = encode(rgba, "WEBP", lossless=True, exact=True)
    files["animated.webp"] = encode(rgb, "WEBP", lossless=True, save_all=True,
                                    append_images=[rgb.transpose(Image.FLIP_TOP_BOTTOM)], duration=100)
    files["exif_6.webp"] = encode(rgb, "WEBP", lossless=True, exif=b"Exif\0\0" + exif_block(6))
    files["xmp_8.webp"] = encode(rgb, "WEBP", lossless=True, xmp=xmp_packet(8))
    truth["xmp_8.webp"] = turned(files["lossless.webp"], 8)
    part = encode(rgba.crop((0, 0, 21, 17)), "WEBP", lossless=True, exact=True)
    files["first_frame_offset.webp"] = writers.webp_animation(part, (W, H), (4, 6), (21, 17))


def gifs(files):
    rgb = Image.fromarray(picture())
    few = rgb.quantize(40, dither=Image.NONE)
    files["plain.gif"] = encode(few, "GIF", interlace=0)
    files["interlaced.gif"] = encode(few, "GIF", interlace=1)
    files["transparent.gif"] = encode(few, "GIF", transparency=5)
    files["animated.gif"] = encode(few, "GIF", save_all=True, duration=50,
                                   append_images=[few.transpose(Image.FLIP_LEFT_RIGHT), few])
    index = np.asarray(few)
    palette = bytes(few.getpalette())[:3 * 64].ljust(3 * 64, b"\0")
    local = writers.spread_palette(64)
    part = index[5:21, 3:24]
    files["local_palette.gif"] = writers.gif(index, (W, H), palette, local_palette=local)
    files["offset.gif"] = writers.gif(part, (W, H), palette, offset=(6, 4))
    files["offset_transparent.gif"] = writers.gif(part, (W, H), palette, offset=(6, 4), transparent=7)
    files["beyond_screen.gif"] = writers.gif(index, (20, 15), palette, offset=(2, 1))
    files["no_palette.gif"] = writers.gif(index * 4, (W, H), None)
    files["interlaced_local.gif"] = writers.gif(index, (W, H), None, local_palette=local, interlace=True)
    files["old_87a.gif"] = writers.gif(index, (W, H), palette).replace(b"GIF89a", b"GIF87a", 1)


def tiffs(files, truth):
    rgb, a = picture(), alpha()
    image = Image.fromarray(rgb)
    grey = np.asarray(image.convert("L"))
    cmyk = np.dstack([rgb, a // 2])
    bilevel = image.convert("L").point(lambda v: 255 * (v > 120)).convert("1", dither=Image.NONE)
    for name, compression in (("lzw", "tiff_lzw"), ("deflate", "tiff_adobe_deflate"), ("packbits", "packbits"),
                              ("zstd", "zstd"), ("jpeg", "jpeg"), ("raw", "raw"), ("lzma", "lzma")):
        files[f"rgb_{name}.tif"] = encode(image, "TIFF", compression=compression)
    for name, compression in (("g3", "group3"), ("g4", "group4"), ("packbits", "packbits")):
        files[f"bilevel_{name}.tif"] = encode(bilevel, "TIFF", compression=compression)
    files["grey_jpeg.tif"] = encode(image.convert("L"), "TIFF", compression="jpeg")
    files["palette_lzw.tif"] = encode(image.quantize(200, dither=Image.NONE), "TIFF", compression="tiff_lzw")
    files["cmyk_lzw.tif"] = encode(Image.fromarray(cmyk, "CMYK"), "TIFF", compression="tiff_lzw")
    files["pages.tif"] = encode(image, "TIFF", save_all=True, append_images=[ImageOps.mirror(image)])
    wide = (rgb.astype(np.uint16) << 8 | rgb[:, ::-1]).astype(np.uint16)
    wide_grey = wide[:, :, 1]
    high = np.repeat((wide_grey >> 8).astype(np.uint8)[:, :, None], 3, 2)
    tiff = writers.tiff
    for big in (False, True):
        end = "be" if big else "le"
        files[f"grey16_{end}.tif"] = tiff(wide_grey, 16, 1, big_endian=big)
        truth[f"grey16_{end}.tif"] = high
        files[f"rgb16_{end}.tif"] = tiff(wide, 16, 2, big_endian=big)
    files["grey16_white.tif"] = tiff(wide_grey, 16, 0)
    truth["grey16_white.tif"] = 255 - high
    files["grey12.tif"] = tiff(wide_grey >> 4, 12, 1)
    truth["grey12.tif"] = high
    for bits in (1, 2, 4, 8):
        files[f"grey{bits}_white.tif"] = tiff(grey >> (8 - bits), bits, 0)
        if bits < 8:
            files[f"grey{bits}.tif"] = tiff(grey >> (8 - bits), bits, 1, big_endian=True)
    for bits in (1, 2, 4, 8):
        files[f"palette{bits}.tif"] = tiff(grey >> (8 - bits), bits, 3, palette=writers.spread_palette(1 << bits))
    files["fill_order2.tif"] = tiff(grey >> 7, 1, 1, fill_order=2)
    for name, extra in (("unspecified", 0), ("premultiplied", 1), ("alpha", 2)):
        files[f"rgba_{name}.tif"] = tiff(np.dstack([rgb, a]), 8, 2, extra=[extra])
    files["rgba16_premultiplied.tif"] = tiff(np.dstack([wide, (a.astype(np.uint16) << 8 | 9)]), 16, 2, extra=[1])
    files["grey_alpha.tif"] = tiff(np.dstack([grey, a]), 8, 1, extra=[2])
    files["five_samples.tif"] = tiff(np.dstack([rgb, a, grey]), 8, 2, extra=[2, 0])
    truth["five_samples.tif"] = rgb
    files["cmyk16.tif"] = tiff((cmyk.astype(np.uint16) << 8 | 3).astype(np.uint16), 16, 5)
    files["planes.tif"] = tiff(rgb, 8, 2, planar=True, rows_per_strip=7)
    files["planes16.tif"] = tiff(wide, 16, 2, planar=True)
    truth["planes16.tif"] = (wide >> 8).astype(np.uint8)
    files["tiles.tif"] = tiff(rgb, 8, 2, tile=(16, 16))
    files["tiles_grey.tif"] = tiff(grey, 8, 1, tile=(64, 48))
    files["tiles_planes_deflate.tif"] = tiff(rgb, 8, 2, tile=(16, 32), planar=True, deflate=True)
    truth["tiles_planes_deflate.tif"] = rgb
    files["strips.tif"] = tiff(rgb, 8, 2, rows_per_strip=5, deflate=True)
    files["big_tiff.tif"] = tiff(rgb, 8, 2, big_tiff=True, rows_per_strip=10)
    for orientation in range(1, 9):
        files[f"orientation_{orientation}.tif"] = tiff(rgb, 8, 2, orientation=orientation, deflate=True)
        truth[f"orientation_{orientation}.tif"] = turned(files["rgb_raw.tif"], orientation)
    files["xmp_6.tif"] = tiff(rgb, 8, 2, xmp=xmp_packet(6), deflate=True)
    truth["xmp_6.tif"] = turned(files["rgb_raw.tif"], 6)
    files["ycbcr_subsampled.tif"] = tiff(writers.ycbcr_units(rgb), 8, 6, shape=(W, H), deflate=True)


def bmps(files, truth):
    rgb = picture()
    grey = np.asarray(Image.fromarray(rgb).convert("L"))
    for bits in (1, 4, 8):
        palette = writers.spread_palette(1 << bits)
        files[f"palette{bits}.bmp"] = writers.bmp(grey >> (8 - bits), bits, palette=palette)
    files["palette8_short.bmp"] = writers.bmp(grey >> 2, 8, palette=writers.spread_palette(64))
    files["grey8.bmp"] = encode(Image.fromarray(grey), "BMP")
    files["core_palette4.bmp"] = writers.bmp(grey >> 4, 4, palette=writers.spread_palette(16), core=True)
    files["core_rgb24.bmp"] = writers.bmp(rgb, 24, core=True)
    files["rgb24.bmp"] = writers.bmp(rgb, 24)
    files["rgb24_top_down.bmp"] = writers.bmp(rgb, 24, top_down=True)
    files["rgb32.bmp"] = writers.bmp(np.dstack([rgb, alpha()]), 32)
    files["rgb32_masks.bmp"] = writers.bmp(np.dstack([rgb, alpha()]), 32, masks=(0xff, 0xff00, 0xff0000))
    truth["rgb32_masks.bmp"] = rgb
    files["rgb555.bmp"] = writers.bmp(rgb, 16)
    files["rgb565.bmp"] = writers.bmp(rgb, 16, masks=(0xf800, 0x7e0, 0x1f))
    blocky = np.repeat(np.repeat(grey[::4, ::5], 4, 0), 5, 1)[:H, :W]
    files["rle8.bmp"] = writers.bmp(blocky, 8, palette=writers.spread_palette(256), rle=True)
    files["rle4.bmp"] = writers.bmp(blocky >> 4, 4, palette=writers.spread_palette(16), rle=True)


def pillow_truth(data):
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    return np.asarray(image.convert("RGB"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    files, truth = {}, {}
    jpegs(files, truth)
    pngs(files, truth)
    webps(files, truth)
    gifs(files)
    tiffs(files, truth)
    bmps(files, truth)
    warnings.simplefilter("ignore")  # Pillow's advice about palettes with transparency
    lines = ["# RGB after orientation: CRC-32 (zlib) of width * height * 3 bytes\n", "file,w,h,crc32\n"]
    for name, data in sorted(files.items()):
        (out / name).write_bytes(data)
        pixels = truth[name] if name in truth else pillow_truth(data)
        lines.append(f"{name},{pixels.shape[1]},{pixels.shape[0]},{zlib.crc32(np.ascontiguousarray(pixels))}\n")
    (out / "expected.csv").write_text("".join(lines), encoding="ascii")
    print(f"{len(files)} files, {sum(map(len, files.values()))} bytes, largest {max(map(len, files.values()))}")


if __name__ == "__main__":
    main()
