"""Compares the product's pictures with Pillow's: decoding, orientation, slicing, resizing. Prints figures, exits 1 on any miss.

    python3 reference/check_images.py --tool build/release/bin/image_tool [--photos DIR ...] [--quick]

Photographs come from Debian's python3-skimage and python3-sklearn (or from folders given by --photos) and are converted
here to every format and mode that the product reads, and turned by every EXIF orientation. Use Debian's python3-pil
(9.4): it links the same codec libraries, and every Pillow below 12.3 resizes horizontally first, as the models' own
code was published with.
"""
import argparse
import io
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import zlib

import numpy as np
import PIL
from PIL import Image

import preprocess
from make_test_images import TURNS
from resize_vectors import picture

Image.MAX_IMAGE_PIXELS = None
PHOTOS = ["astronaut.png", "coffee.png", "chelsea.png", "page.png", "text.png", "china.jpg", "flower.jpg"]
FOLDERS = ["/usr/lib/python3/dist-packages/skimage/data", "/usr/lib/python3/dist-packages/sklearn/datasets/images"]


class Tool:
    def __init__(self, path):
        self.path = path

    def __call__(self, *arguments, lines=()):
        result = subprocess.run([self.path, *map(str, arguments)], input="\n".join(lines), text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if result.stderr:
            raise SystemExit(f"image_tool {arguments} printed: {result.stderr}")
        return result.stdout.splitlines()


class Count:
    def __init__(self, what):
        self.what, self.n, self.misses, self.start = what, 0, [], time.time()

    def check(self, equal, name):
        self.n += 1
        if not equal:
            self.misses.append(name)

    def report(self):
        print(f"{self.what}: {self.n} compared, {len(self.misses)} differ ({time.time() - self.start:.0f} s)")
        for name in self.misses[:10]:
            print("   ", name)
        return not self.misses


def crc(pixels):
    return zlib.crc32(np.ascontiguousarray(pixels))


def encodings(image):
    """(name, suffix, bytes, may carry EXIF) of one RGB picture, in every format and mode that Pillow writes."""
    grey, few = image.convert("L"), image.quantize(200, dither=Image.NONE)
    alpha = Image.fromarray(np.asarray(grey)[::-1])
    rgba, la = image.copy(), grey.copy()
    rgba.putalpha(alpha)
    la.putalpha(alpha)
    bilevel = grey.convert("1")
    cmyk = image.convert("CMYK")
    deep = Image.fromarray((np.asarray(grey).astype(np.uint16) << 8 | np.asarray(alpha)).astype(np.uint16))
    plan = [("jpeg q95 4:4:4", image, "JPEG", dict(quality=95, subsampling=0)),
            ("jpeg q75 4:2:0", image, "JPEG", dict(quality=75, subsampling=2)),
            ("jpeg q80 4:2:2", image, "JPEG", dict(quality=80, subsampling=1)),
            ("jpeg progressive", image, "JPEG", dict(quality=85, progressive=True)),
            ("jpeg grey", grey, "JPEG", {}), ("jpeg cmyk", cmyk, "JPEG", dict(quality=90)),
            ("png rgb", image, "PNG", dict(compress_level=1)), ("png rgba", rgba, "PNG", dict(compress_level=1)),
            ("png grey", grey, "PNG", {}), ("png grey alpha", la, "PNG", {}), ("png bilevel", bilevel, "PNG", {}),
            ("png palette", few, "PNG", {}), ("png 4 bit", image.quantize(16), "PNG", dict(bits=4)),
            ("png grey 16", deep, "PNG", {}),
            ("webp lossy", image, "WEBP", dict(quality=80, method=0)),
            ("webp lossy alpha", rgba, "WEBP", dict(quality=70, method=0)),
            ("webp lossless", image, "WEBP", dict(lossless=True, quality=0, method=0)),
            ("gif", few, "GIF", {}), ("gif plain rows", few, "GIF", dict(interlace=0)), ("gif grey", grey, "GIF", {}),
            ("bmp rgb", image, "BMP", {}), ("bmp grey", grey, "BMP", {}), ("bmp palette", few, "BMP", {}),
            ("bmp bilevel", bilevel, "BMP", {})]
    for compression in ("raw", "tiff_lzw", "tiff_adobe_deflate", "packbits", "jpeg", "zstd"):
        plan.append((f"tiff rgb {compression}", image, "TIFF", dict(compression=compression)))
    plan += [("tiff grey", grey, "TIFF", dict(compression="tiff_lzw")), ("tiff palette", few, "TIFF", {}),
             ("tiff g4", bilevel, "TIFF", dict(compression="group4")), ("tiff rgba", rgba, "TIFF", {}),
             ("tiff cmyk", cmyk, "TIFF", dict(compression="tiff_lzw")), ("tiff grey 16", deep, "TIFF", {})]
    for name, what, format_name, options in plan:
        out = io.BytesIO()
        what.save(out, format_name, **options)
        data = out.getvalue()
        if "16" in name.split():
            pixels = np.repeat((np.asarray(deep) >> 8).astype(np.uint8)[:, :, None], 3, 2)
        else:
            pixels = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
        yield name, format_name, what, options, data, pixels


def check_decoding(tool, photos, folder):
    count, turned = Count("decoding, every format and mode"), Count("EXIF orientation")
    for path in photos:
        image = Image.open(path).convert("RGB")
        for name, format_name, source, options, data, pixels in encodings(image):
            file = folder / "picture"  # no suffix: the content must do
            file.write_bytes(data)
            found = tool("decode", file)
            count.check(found == [f"{pixels.shape[1]} {pixels.shape[0]} {crc(pixels)}"], f"{path.name} as {name}: {found}")
            if name not in ("jpeg q75 4:2:0", "png rgb", "webp lossless", "tiff rgb tiff_lzw"):
                continue
            for orientation in range(1, 9):
                exif = Image.Exif()
                exif[0x112] = orientation
                source.save(file, format_name, **options, **({"tiffinfo": {0x112: orientation}} if format_name == "TIFF"
                                                              else {"exif": exif}))
                shown = np.asarray(Image.fromarray(pixels).transpose(TURNS[orientation])) if orientation > 1 else pixels
                found = tool("decode", file)
                turned.check(found == [f"{shown.shape[1]} {shown.shape[0]} {crc(shown)}"],
                             f"{path.name} as {name}, orientation {orientation}: {found}")
    return [count.report(), turned.report()]


def pillow_views(source):
    """Overview and slices of an RGB picture, by Pillow and reference/preprocess.py."""
    image = Image.fromarray(source)
    overview, (cols, rows), (w, h) = preprocess.plan_slices(*image.size)
    views = [np.asarray(image.resize(overview, Image.BICUBIC))]
    if cols:
        refined = np.asarray(image.resize((cols * w, rows * h), Image.BICUBIC))
        views += [refined[r * h:(r + 1) * h, c * w:(c + 1) * w] for r in range(rows) for c in range(cols)]
    return " ".join(str(crc(v)) for v in views)


def check_views(tool, photos, rng, n):
    count = Count("views of photographs and of drawn pictures (overview and slices)")
    for path in photos:
        count.check(tool("views-of", path)[0].strip() == pillow_views(np.asarray(Image.open(path).convert("RGB"))), path.name)
    sizes = [(449, 448), (1344, 1344), (800, 3000), (35, 3500), (3500, 35), (1920, 1080), (10, 1000), (1000, 10)]
    sizes += [(rng.randint(1, 1400), rng.randint(1, 1400)) for _ in range(n)]
    found = tool("views", lines=[f"{w} {h}" for w, h in sizes])
    for (w, h), line in zip(sizes, found):
        count.check(line.strip() == pillow_views(picture(w, h)), f"{w} x {h}")
    return count.report()


def plan_sizes(rng, quick):
    """Small sizes densely, 1:100 shapes, every kind of tie of the roundings, random ones."""
    top = 120 if quick else 400
    yield from ((w, h) for w in range(1, top) for h in range(1, top))
    for n in range(1, 120):
        yield from ((n, 100 * n), (100 * n, n), (n, 97 * n + 3), (101 * n + 1, n))
    for _ in range(2000 if quick else 40000):  # the grid divides with a rest of exactly one half
        cols, rows = rng.choice(((2, 1), (1, 2), (2, 2), (4, 1), (1, 4), (4, 2), (2, 4), (6, 1), (3, 2), (2, 3), (8, 1)))
        w = cols * rng.randint(150, 1500) + cols // 2
        h = rows * rng.randint(150, 1500) + rows // 2
        yield w, h
    for _ in range(2000 if quick else 60000):
        yield rng.randint(1, 12000), rng.randint(1, 12000)


def check_plans(tool, rng, quick):
    count = Count("slice plans against reference/preprocess.py")
    sizes = list(plan_sizes(rng, quick))
    found = tool("plan", lines=[f"{w} {h}" for w, h in sizes])
    ties = 0
    for (w, h), line in zip(sizes, found):
        overview, grid, cell = preprocess.plan_slices(w, h)
        count.check(line == " ".join(map(str, (*overview, *grid, *cell))), f"{w} x {h}: {line}")
        ties += bool(grid[0]) and ((2 * w % (2 * grid[0]) == grid[0]) or (2 * h % (2 * grid[1]) == grid[1]))
    print(f"    of which {ties} have a size that lies exactly between two multiples of the grid")
    return count.report()


def check_pixels(tool, rng, n):
    count = Count("resized pixels against Pillow, 0 levels off")
    cases = []
    for i in range(n):
        top = rng.choice((8, 40, 160))
        w, h = rng.randint(1, top), rng.randint(1, top)
        if i % 5 == 0:  # 1:100 shapes
            w, h = rng.choice(((w % 8 + 1, 100 * (w % 8 + 1)), (100 * (h % 8 + 1), h % 8 + 1)))
        cases.append((w, h, rng.randint(1, top), rng.randint(1, top)))
    found = tool("batch", lines=[" ".join(map(str, c)) for c in cases])
    for case, line in zip(cases, found):
        w, h, new_w, new_h = case
        truth = np.asarray(Image.fromarray(picture(w, h)).resize((new_w, new_h), Image.BICUBIC))
        count.check(int(line) == crc(truth), case)
    return count.report()


def time_resizes(tool):
    print("CPU milliseconds of one resize, one thread, fastest of 7:")
    for new_w, new_h in ((518, 392), (602, 336), (1092, 1092), (1470, 812), (2000, 1500)):
        image = Image.fromarray(picture(4000, 3000))
        pillow = []
        for _ in range(7):
            start = time.process_time()
            image.resize((new_w, new_h), Image.BICUBIC)
            pillow.append(1e3 * (time.process_time() - start))
        ours = float(tool("time", 4000, 3000, new_w, new_h, 7)[0])
        print(f"    4000 x 3000 to {new_w} x {new_h}: Pillow {min(pillow):.1f}, ours {ours:.1f}, "
              f"{min(pillow) / ours:.1f} times as fast")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", required=True)
    parser.add_argument("--photos", nargs="*", default=FOLDERS, help="folders that hold " + ", ".join(PHOTOS))
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    parser.add_argument("--no-timing", action="store_true")
    args = parser.parse_args()
    if tuple(int(v) for v in PIL.__version__.split(".")[:2]) >= (12, 3):
        raise SystemExit(f"Pillow {PIL.__version__} may resize vertically first; use one below 12.3")
    photos = [f for name in PHOTOS for f in (pathlib.Path(d) / name for d in args.photos) if f.exists()]
    if not photos:
        raise SystemExit("no photographs found: install python3-skimage and python3-sklearn, or name folders by --photos")
    print(f"Pillow {PIL.__version__}; photographs: {', '.join(p.name for p in photos)}")
    tool, rng, part = Tool(args.tool), random.Random(11), 10 if args.quick else 1
    with tempfile.TemporaryDirectory() as folder:
        good = check_decoding(tool, photos, pathlib.Path(folder))
    good += [check_views(tool, photos, rng, 300 // part), check_plans(tool, rng, args.quick),
             check_pixels(tool, rng, 12000 // part)]
    if not args.no_timing:
        time_resizes(tool)
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
