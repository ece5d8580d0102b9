"""What differs between the splits: fonts, textures and voices of training, validation and the held-out sets, all disjoint.

Not for the shapes that are drawn (parts.py) or the words that are said (questions.py).
"""
import os

import numpy as np
from PIL import Image, ImageFont

FONT_ROOT = "/usr/share/fonts"
FONTS = {  # split -> files below FONT_ROOT; no file of one split looks like a file of another
    "train": ["truetype/dejavu/DejaVuSans.ttf", "truetype/dejavu/DejaVuSans-Bold.ttf", "truetype/dejavu/DejaVuSansMono.ttf",
              "truetype/dejavu/DejaVuSansMono-Bold.ttf", "truetype/dejavu/DejaVuSerif.ttf", "truetype/dejavu/DejaVuSerif-Bold.ttf",
              "truetype/dejavu/DejaVuSansCondensed-Bold.ttf", "truetype/freefont/FreeSans.ttf", "truetype/freefont/FreeSansBold.ttf",
              "truetype/freefont/FreeMonoBold.ttf", "truetype/freefont/FreeSerif.ttf", "truetype/freefont/FreeSerifBold.ttf",
              "truetype/hack/Hack-Regular.ttf", "truetype/hack/Hack-Bold.ttf", "truetype/lato/Lato-Regular.ttf",
              "truetype/lato/Lato-Bold.ttf", "truetype/lato/Lato-Black.ttf", "truetype/firacode/FiraCode-Regular.ttf",
              "truetype/firacode/FiraCode-Bold.ttf", "truetype/open-sans/OpenSans-Regular.ttf", "truetype/open-sans/OpenSans-Bold.ttf",
              "truetype/open-sans/OpenSans-CondBold.ttf", "truetype/quicksand/Quicksand-Medium.ttf",
              "truetype/quicksand/Quicksand-Bold.ttf", "truetype/comfortaa/Comfortaa-Bold.ttf", "opentype/ocr-b/OCRB.otf",
              "truetype/noto/NotoMono-Regular.ttf", "truetype/noto/NotoSansMono-Bold.ttf"],
    "val": ["opentype/cantarell/Cantarell-Regular.otf", "opentype/cantarell/Cantarell-Bold.otf",
            "opentype/cantarell/Cantarell-ExtraBold.otf", "truetype/inconsolata/Inconsolata.otf"],
    "heldout": ["truetype/roboto/unhinted/RobotoTTF/Roboto-Regular.ttf", "truetype/roboto/unhinted/RobotoTTF/Roboto-Bold.ttf",
                "truetype/roboto/unhinted/RobotoTTF/Roboto-Medium.ttf", "truetype/roboto/unhinted/RobotoCondensed-Bold.ttf",
                "truetype/liberation/LiberationSans-Regular.ttf", "truetype/liberation/LiberationSans-Bold.ttf",
                "truetype/liberation/LiberationMono-Bold.ttf", "truetype/liberation/LiberationSerif-Bold.ttf"],
}
TEXTURES = {
    "train": ["flat", "grain", "brushed", "blotch", "wood", "speckle", "stripes"],
    "val": ["flat", "weave", "rings"],
    "heldout": ["flat", "marble", "checker", "hatch"],
}
VOICES = {  # espeak-ng; variants that whisper, croak or sing are left out
    "train": {"en": ["en-us", "en-gb", "en-gb-scotland", "en-029", "en-us-nyc"], "zh": ["cmn"],
              "variant": ["", "m1", "m2", "m3", "m4", "m5", "m6", "f1", "f2", "f3", "adam", "Alex", "Alicia", "Andy", "Annie", "antonio",
                          "belinda", "benjamin", "boris", "caleb", "david", "Denis", "ed", "edward", "Gene", "gustave", "Hugo", "iven",
                          "Jacky", "john", "linda", "marcelo", "Marco", "max", "michel", "Mike", "norbert", "pablo", "paul", "pedro"]},
    "val": {"en": ["en-gb-x-gbclan", "en-us"], "zh": ["cmn"], "variant": ["m7", "f4", "rob", "steph", "quincy"]},
    "heldout": {"en": ["en-gb-x-rp", "en-gb-x-gbcwmd", "en-us"], "zh": ["cmn"],
                "variant": ["m8", "f5", "Andrea", "Lee", "Michael", "robert", "sandro", "shelby", "steph2", "travis", "victor", "zac"]},
}
_fonts = {}


def font(path, size):
    key = path, size
    if key not in _fonts:
        if len(_fonts) > 2000:
            _fonts.clear()
        _fonts[key] = ImageFont.truetype(os.path.join(FONT_ROOT, path), size)
    return _fonts[key]


def smooth_noise(rng, h, w, cell):
    """Normal noise of about unit deviation with features of `cell` pixels -> [h, w] f32."""
    small = rng.standard_normal((max(int(h / cell) + 2, 2), max(int(w / cell) + 2, 2))).astype(np.float32)
    return np.asarray(Image.fromarray(small).resize((w, h), Image.BICUBIC))


def texture(name, rng, h, w):
    """-> [h, w] f32, about -1..1, mean near 0. The scale of the pattern comes from rng."""
    if name == "flat":
        return smooth_noise(rng, h, w, max(h, w) / 2) * 0.3
    if name == "grain":
        return rng.standard_normal((h, w)).astype(np.float32) * 0.5
    if name == "blotch":
        return smooth_noise(rng, h, w, rng.uniform(8, 60)) * 0.6
    if name == "speckle":
        x = rng.random((h // 2 + 1, w // 2 + 1)).astype(np.float32)
        x = np.where(x > 0.97, 1.0, np.where(x < 0.03, -1.0, 0.0)).astype(np.float32)
        return np.asarray(Image.fromarray(x).resize((w, h), Image.BILINEAR))
    if name == "brushed":
        line = rng.integers(10, 60)
        if rng.random() < 0.5:
            x = rng.standard_normal((h, w // line + 2)).astype(np.float32)
        else:
            x = rng.standard_normal((h // line + 2, w)).astype(np.float32)
        return np.asarray(Image.fromarray(x).resize((w, h), Image.BILINEAR)) * 0.6
    yy, xx = np.mgrid[0:h, 0:w].astype(np.float32)
    a = rng.uniform(0, np.pi)
    t, s = xx * np.cos(a) + yy * np.sin(a), yy * np.cos(a) - xx * np.sin(a)
    period = rng.uniform(10, 40)
    if name == "wood":
        return np.sin(t * 2 * np.pi / period + 2.0 * smooth_noise(rng, h, w, 60)).astype(np.float32) * 0.7
    if name == "stripes":
        return np.sign(np.sin(t * 2 * np.pi / period)).astype(np.float32) * 0.6
    if name == "weave":
        return (np.sin(t * 2 * np.pi / period) * np.sin(s * 2 * np.pi / period)).astype(np.float32)
    if name == "rings":
        r = np.hypot(xx - w * rng.uniform(0, 1), yy - h * rng.uniform(0, 1))
        return np.sin(r * 2 * np.pi / (period / 2)).astype(np.float32) * 0.6
    if name == "marble":
        return np.sin(t * 2 * np.pi / (period * 3) + 4.0 * smooth_noise(rng, h, w, 40)).astype(np.float32) * 0.7
    if name == "checker":
        return np.sign(np.sin(t * 2 * np.pi / period) * np.sin(s * 2 * np.pi / period)).astype(np.float32) * 0.6
    if name == "hatch":
        return np.maximum(np.sin(t * 2 * np.pi / period), np.sin(s * 2 * np.pi / period)).astype(np.float32) - 0.4
    raise ValueError(f"no texture is called {name}")
