"""Draws parts: plates, gears, boards and trays of small items, with at most one defect, a label or a display, and the truth beside.

A spec holds every choice, so the same part can be drawn twice with one thing changed. Not for questions (questions.py).
"""
import copy
import io
import math

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

import looks

COLOURS = {"red": (188, 38, 40), "orange": (232, 128, 28), "yellow": (228, 205, 50), "green": (46, 138, 62), "blue": (38, 84, 180),
           "purple": (124, 58, 150), "white": (236, 236, 232), "grey": (122, 124, 128), "black": (36, 36, 40)}
CELLS = ["top left", "top", "top right", "left", "center", "right", "bottom left", "bottom", "bottom right"]
DEFECTS = ["none", "scratch", "dent", "crack", "stain", "missing hole", "wrong part"]
KINDS = ["plate", "gear", "board", "nuts", "washers", "screws", "no part"]
LETTERS = "0123456789ABCDEFGHJKLMNPRSTUVWXYZ"  # no I, O and Q: they are not told apart in every font
REGIONS = ["background", "plate", "gear", "board", "nut", "washer", "screw", "label", "display"]
SS = 2  # supersampling


# ---------------------------------------------------------------- choices
def hole_pattern(rng, n):
    """n centres in -1..1 on a regular pattern from which a missing one can be told."""
    def grid(r, c):
        return [(x, y) for y in np.linspace(-1, 1, r) for x in np.linspace(-1, 1, c)] if min(r, c) > 1 else \
            [(x, 0.0) for x in np.linspace(-1, 1, c)] if r == 1 else [(0.0, y) for y in np.linspace(-1, 1, r)]

    corners = grid(2, 2)
    choices = {1: [[(0.0, 0.0)]], 2: [grid(1, 2), grid(2, 1)], 3: [grid(1, 3), grid(3, 1)], 4: [corners], 5: [corners + [(0.0, 0.0)]],
               6: [grid(2, 3), grid(3, 2)], 7: [grid(2, 3) + [(0.0, 0.0)]], 8: [[p for p in grid(3, 3) if p != (0.0, 0.0)], grid(2, 4)],
               9: [grid(3, 3)]}[n]
    return [(float(x), float(y)) for x, y in choices[rng.integers(len(choices))]]


def circle_pattern(n, turn):
    return [(math.cos(turn + 2 * math.pi * i / n), math.sin(turn + 2 * math.pi * i / n)) for i in range(n)]


def code(rng):
    """A short label: letters and digits, e.g. K47 or 3B9F."""
    n = rng.choice([2, 3, 3, 4])
    return "".join(LETTERS[i] for i in rng.integers(0, len(LETTERS), n))


def pick(rng, items):
    return items[int(rng.integers(len(items)))]


def make_spec(rng, split, size, kind=None, defect=None, extra=None, n=None):
    """All choices of one picture. kind: one of KINDS; defect: one of DEFECTS; extra: label, display or none."""
    kind = kind or pick(rng, ["plate", "gear", "board"])
    spec = {"split": split, "size": tuple(int(s) for s in size), "kind": kind, "seed": int(rng.integers(1 << 31)), "colour": pick(rng, list(COLOURS))}
    spec["extra"] = extra if extra is not None else pick(rng, ["label", "label", "display", "none"])
    spec["label"] = code(rng) if spec["extra"] == "label" else ""
    if spec["extra"] == "display":
        k = int(rng.integers(2, 5))
        digits = "".join(str(d) for d in rng.integers(0, 10, k))
        if rng.random() < 0.4:
            at = int(rng.integers(1, k))
            digits = digits[:at] + "." + digits[at:]
        spec["label"] = digits
    can = {"plate": ["none", "scratch", "dent", "crack", "stain", "missing hole"], "gear": ["none", "scratch", "dent", "crack", "stain", "missing hole"],
           "board": ["none", "scratch", "crack", "stain", "missing hole", "wrong part"]}.get(kind, ["none", "wrong part"])
    spec["defect"] = defect if defect in can else ("none" if kind == "no part" else pick(rng, can))
    spec["cell"] = int(rng.integers(9))
    if kind in ("plate", "gear"):
        least = 3 if spec["defect"] == "missing hole" else 1
        n = n if n is not None and n >= least else int(rng.integers(least, 10 if kind == "plate" else 9))
        if kind == "plate":
            spec["pattern"] = hole_pattern(rng, n)
        else:
            spec["pattern"] = circle_pattern(max(n, 2), rng.uniform(0, 6.28)) if n > 1 else [(0.75, 0.0)]
    elif kind == "board":
        corners = [(-1.0, -1.0), (1.0, -1.0), (-1.0, 1.0), (1.0, 1.0)]
        spec["pattern"] = corners + pick(rng, [[], [(0.0, -1.0), (0.0, 1.0)], [(-1.0, 0.0), (1.0, 0.0)]])
        spec["grid"] = (int(rng.integers(2, 4)), int(rng.integers(2, 5)))
        spec["chip"], spec["wrong_chip"] = (str(s) for s in rng.permutation(["ic", "cap", "res"])[:2])
    else:
        spec["pattern"] = []
        least = 3 if spec["defect"] == "wrong part" else 1
        spec["count"] = n if n is not None and n >= least else int(rng.integers(least, 10))
    return spec


# ---------------------------------------------------------------- canvas
class Canvas:
    """Colours as float32 at SS times the size; points go through a mild perspective."""

    def __init__(self, width, height, rng, tilt):
        self.w, self.h, self.rng = width, height, rng
        corners = np.array([(0, 0), (width, 0), (width, height), (0, height)], np.float64)
        moved = corners + rng.uniform(-tilt, tilt, (4, 2)) * min(width, height)
        a, b = [], []
        for (x, y), (u, v) in zip(corners, moved):
            a += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
            b += [u, v]
        self.m = np.append(np.linalg.solve(np.array(a), np.array(b)), 1.0).reshape(3, 3)
        self.img = None
        self.region = Image.new("L", (width, height))
        self.defects = Image.new("L", (width, height))
        self.holes, self.chars, self.parts = [], [], []

    def warp(self, points):
        """Points of the plane -> points of the picture, in its pixels."""
        p = np.asarray(points, np.float64).reshape(-1, 2)
        q = np.concatenate([p, np.ones((len(p), 1))], 1) @ self.m.T
        return q[:, :2] / q[:, 2:]

    def mask(self, polygon, blur=0.0):
        out = Image.new("L", (self.w * SS, self.h * SS))
        ImageDraw.Draw(out).polygon([tuple(p) for p in self.warp(polygon) * SS], fill=255)
        return out.filter(ImageFilter.GaussianBlur(blur)) if blur else out

    def paint(self, mask, colour, alpha=1.0):
        """Lays a colour (or a whole picture) over the canvas where the mask says. Works inside the mask's box only."""
        box = mask.getbbox()
        if box is None:
            return
        x0, y0, x1, y1 = box
        m = np.asarray(mask.crop(box), np.float32)[..., None] * (alpha / 255.0)
        c = np.asarray(colour, np.float32)
        c = c[y0:y1, x0:x1] if c.ndim == 3 else c
        self.img[y0:y1, x0:x1] += (c - self.img[y0:y1, x0:x1]) * m

    def shade(self, mask, amount):
        box = mask.getbbox()
        if box is None:
            return
        x0, y0, x1, y1 = box
        self.img[y0:y1, x0:x1] += np.asarray(mask.crop(box), np.float32)[..., None] * (amount / 255.0)

    def line(self, points, width):
        out = Image.new("L", (self.w * SS, self.h * SS))
        ImageDraw.Draw(out).line([tuple(p) for p in self.warp(points) * SS], fill=255, width=max(int(round(width * SS)), 1), joint="curve")
        return out

    def note(self, image, polygon, value):
        ImageDraw.Draw(image).polygon([tuple(p) for p in self.warp(polygon)], fill=value, outline=value)

    def note_line(self, points, value, width):
        ImageDraw.Draw(self.defects).line([tuple(p) for p in self.warp(points)], fill=value, width=max(int(round(width)), 1))


def ellipse(cx, cy, rx, ry=None, n=28):
    a = np.arange(n) * (2 * math.pi / n)
    return np.stack([cx + rx * np.cos(a), cy + (ry or rx) * np.sin(a)], 1)


def rectangle(cx, cy, hw, hh, turn=0.0, corner=0.0):
    if corner:
        p = np.array([(-hw + corner, -hh), (hw - corner, -hh), (hw, -hh + corner), (hw, hh - corner), (hw - corner, hh), (-hw + corner, hh),
                      (-hw, hh - corner), (-hw, -hh + corner)])
    else:
        p = np.array([(-hw, -hh), (hw, -hh), (hw, hh), (-hw, hh)])
    c, s = math.cos(turn), math.sin(turn)
    return p @ np.array([[c, s], [-s, c]]) + (cx, cy)


def gear_outline(cx, cy, r, teeth, turn):
    points = []
    for i in range(teeth):
        for f, radius in ((-0.28, 0.86), (-0.16, 1.0), (0.16, 1.0), (0.28, 0.86)):
            a = turn + 2 * math.pi * (i + f) / teeth
            points.append((cx + r * radius * math.cos(a), cy + r * radius * math.sin(a)))
    return np.array(points)


def cell_of(canvas, point):
    """Cell of a point of the plane in the picture's 3 x 3 grid, and how far it is from the nearest grid line (of the width)."""
    x, y = canvas.warp([point])[0]
    fx, fy = 3 * x / canvas.w, 3 * y / canvas.h
    cell = min(max(int(fy), 0), 2) * 3 + min(max(int(fx), 0), 2)
    clear = min(abs(fx - 1), abs(fx - 2), abs(fy - 1), abs(fy - 2)) / 3
    inside = 0.02 < x / canvas.w < 0.98 and 0.02 < y / canvas.h < 0.98
    return cell, clear if inside else -1.0


def luminance(c):
    return 0.3 * c[0] + 0.59 * c[1] + 0.11 * c[2]


# ---------------------------------------------------------------- surface, holes, components
def solid(canvas, polygon, colour, texture_name, rng, light, amount=14.0, raised=True):
    """Shadow, body with texture, and a bevel towards the light. Gives the mask."""
    u = min(canvas.w, canvas.h)
    mask = canvas.mask(polygon)
    if raised:
        d = u * 0.018
        shadow = canvas.mask(np.asarray(polygon) - np.array(light) * d, blur=u * 0.012 * SS)
        canvas.paint(shadow, (12, 12, 14), 0.45)
    h, w = canvas.h * SS, canvas.w * SS
    body = np.asarray(colour, np.float32) + looks.texture(texture_name, rng, h, w)[..., None] * amount
    canvas.paint(mask, body)
    if raised:
        soft = np.asarray(mask.filter(ImageFilter.GaussianBlur(u * 0.006 * SS)), np.float32)
        k = max(int(u * 0.006 * SS), 1)
        slope = np.roll(soft, (int(round(light[1] * k)), int(round(light[0] * k))), (0, 1)) - \
            np.roll(soft, (-int(round(light[1] * k)), -int(round(light[0] * k))), (0, 1))
        canvas.img -= (slope * np.asarray(mask, np.float32) / 255.0 * 0.22)[..., None]
    return mask


def hole(canvas, x, y, r, inside, light):
    canvas.paint(canvas.mask(ellipse(x, y, r * 1.12)), np.clip(np.array(inside) + 90, 0, 235), 0.55)
    canvas.paint(canvas.mask(ellipse(x, y, r)), inside)
    canvas.paint(canvas.mask(ellipse(x - light[0] * r * 0.25, y - light[1] * r * 0.25, r * 0.72)), np.array(inside) * 0.6)
    canvas.holes.append(tuple(canvas.warp([(x, y)])[0]))


def chip(canvas, kind, x, y, a, light):
    if kind == "ic":
        for i in (-0.6, -0.2, 0.2, 0.6):
            canvas.paint(canvas.mask(rectangle(x + i * a, y, 0.1 * a, 0.78 * a)), (190, 190, 186))
        canvas.paint(canvas.mask(rectangle(x, y, a * 0.85, a * 0.55)), (28, 28, 30))
        canvas.paint(canvas.mask(ellipse(x - 0.6 * a, y - 0.3 * a, 0.1 * a)), (120, 120, 120))
    elif kind == "cap":
        canvas.paint(canvas.mask(ellipse(x, y, 0.78 * a)), (60, 62, 70))
        canvas.paint(canvas.mask(ellipse(x, y, 0.66 * a)), (205, 206, 210))
        canvas.paint(canvas.mask(rectangle(x, y, 0.08 * a, 0.5 * a)), (120, 120, 124))
    else:
        canvas.paint(canvas.mask(rectangle(x, y, a * 0.95, a * 0.34)), (214, 214, 210))
        canvas.paint(canvas.mask(rectangle(x, y, a * 0.62, a * 0.34)), (222, 188, 132))
        for i, c in ((-0.35, (140, 60, 30)), (0.0, (30, 30, 30)), (0.35, (190, 30, 30))):
            canvas.paint(canvas.mask(rectangle(x + i * a, y, 0.07 * a, 0.34 * a)), c)


def item(canvas, kind, x, y, r, turn, colour, rng, texture_name, light, inside):
    """One small thing of a tray."""
    if kind == "nuts":
        outline = ellipse(0, 0, r, n=6)
        c, s = math.cos(turn), math.sin(turn)
        outline = outline @ np.array([[c, s], [-s, c]]) + (x, y)
    elif kind == "washers":
        outline = ellipse(x, y, r * 0.95)
    else:
        outline = rectangle(x + math.cos(turn) * r * 0.35, y + math.sin(turn) * r * 0.35, r * 0.62, r * 0.2, turn)
    solid(canvas, outline, colour, texture_name, rng, light, 8.0)
    canvas.note(canvas.region, outline, {"nuts": 4, "washers": 5, "screws": 6}[kind])
    if kind == "screws":
        hx, hy = x - math.cos(turn) * r * 0.45, y - math.sin(turn) * r * 0.45
        head = ellipse(hx, hy, r * 0.48)
        solid(canvas, head, colour, texture_name, rng, light, 8.0)
        canvas.note(canvas.region, head, 6)
        bar = rectangle(hx, hy, r * 0.32, r * 0.08, turn + 0.8)
        canvas.paint(canvas.mask(bar), np.array(colour) * 0.35)
    else:
        k = 0.45 if kind == "nuts" else 0.5
        canvas.paint(canvas.mask(ellipse(x, y, r * k)), inside)
    canvas.parts.append(tuple(canvas.warp([(x, y)])[0]))


# ---------------------------------------------------------------- defects
def draw_defect(canvas, kind, x, y, u, colour, mask, rng):
    """Draws at (x, y); u is the part's size. Gives the points whose middle is the defect's place."""
    value, dark = DEFECTS.index(kind), luminance(colour) < 90
    inside = mask.point(lambda v: v)

    def on_part(layer):
        return Image.composite(layer, Image.new("L", layer.size), inside)

    if kind == "scratch":
        a, length = rng.uniform(0, math.pi), u * rng.uniform(0.10, 0.16)
        bright = (245, 245, 240) if luminance(colour) < 170 else (96, 96, 100)
        for i in range(int(rng.integers(1, 4))):
            o = i * u * 0.022
            bend = rng.uniform(-0.012, 0.012) * u
            p = [(x + t * length * math.cos(a) - (o + bend * (1 - t * t)) * math.sin(a), y + t * length * math.sin(a) + (o + bend * (1 - t * t)) * math.cos(a))
                 for t in np.linspace(-1, 1, 7)]
            width = max(u * rng.uniform(0.008, 0.013), 0.9)
            canvas.paint(on_part(canvas.line(np.array(p) + width * 0.9, width)), np.array(colour) * 0.45, 0.6)
            canvas.paint(on_part(canvas.line(p, width)), bright, rng.uniform(0.8, 1.0))
            canvas.note_line(p, value, max(u * 0.02, 2))
    elif kind == "crack":
        a = rng.uniform(0, 2 * math.pi)
        step, n = u * 0.032, int(rng.integers(7, 11))
        p, q, heading = [(0.0, 0.0)], [], a
        for i in range(n):
            heading = a + rng.uniform(0.35, 1.0) * (1 if i % 2 else -1)
            p.append((p[-1][0] + step * math.cos(heading), p[-1][1] + step * math.sin(heading)))
        middle = np.mean(p, 0)
        p = np.array(p) - middle + (x, y)
        b = a + pick(rng, [-1, 1]) * rng.uniform(0.7, 1.1)
        q = [p[n // 2]]
        for i in range(3):
            h2 = b + rng.uniform(0.3, 0.8) * (1 if i % 2 else -1)
            q.append((q[-1][0] + step * 0.8 * math.cos(h2), q[-1][1] + step * 0.8 * math.sin(h2)))
        width = max(u * rng.uniform(0.012, 0.018), 1.2)
        for line in (p, np.array(q)):
            if dark:
                canvas.paint(on_part(canvas.line(line + width, width)), (150, 150, 150), 0.8)
            canvas.paint(on_part(canvas.line(line, width)), (4, 4, 6), 0.95)
            canvas.note_line(line, value, max(u * 0.02, 2))
    elif kind == "dent":
        r = u * rng.uniform(0.06, 0.085)
        light = canvas.light
        lift = 1.25 if dark else 0.8
        canvas.shade(on_part(canvas.mask(ellipse(x, y, r), blur=r * 0.12 * SS)), -34 if not dark else 26)
        canvas.shade(on_part(canvas.mask(ellipse(x + light[0] * r * 0.42, y + light[1] * r * 0.42, r * 0.6), blur=r * 0.22 * SS)), -80 if not dark else -30)
        canvas.shade(on_part(canvas.mask(ellipse(x - light[0] * r * 0.48, y - light[1] * r * 0.48, r * 0.5), blur=r * 0.2 * SS)), 120 * lift)
        canvas.note(canvas.defects, ellipse(x, y, r), value)
    elif kind == "stain":
        r = u * rng.uniform(0.06, 0.09)
        n = 22
        radius = 1 + 0.28 * np.sin(np.arange(n) * 2 * math.pi / n * pick(rng, [2, 3, 4]) + rng.uniform(0, 6)) + rng.uniform(-0.14, 0.14, n)
        a = np.arange(n) * 2 * math.pi / n
        p = np.stack([x + r * radius * np.cos(a), y + r * radius * np.sin(a) * rng.uniform(0.7, 1.0)], 1)
        tint = (168, 142, 100) if dark else pick(rng, [(92, 62, 30), (70, 52, 34), (60, 46, 20)])
        if not dark and luminance(colour) < 105:
            tint = (186, 164, 120)
        canvas.paint(on_part(canvas.mask(p, blur=r * 0.08 * SS)), tint, rng.uniform(0.72, 0.9))
        for _ in range(int(rng.integers(1, 4))):
            b, k = rng.uniform(0, 6.28), rng.uniform(1.35, 1.7)
            canvas.paint(on_part(canvas.mask(ellipse(x + k * r * math.cos(b), y + k * r * math.sin(b), r * 0.16, n=10))), tint, 0.8)
        canvas.note(canvas.defects, p, value)


# ---------------------------------------------------------------- label and display
SEGMENTS = {"0": "abcdef", "1": "bc", "2": "abged", "3": "abgcd", "4": "fgbc", "5": "afgcd", "6": "afgedc", "7": "abc", "8": "abcdefg", "9": "abcdfg"}


def plate_of_text(spec, rng, height):
    """Label or display as a picture of about `height` pixels, and the middles of its characters."""
    text, h = spec["label"], int(height)
    if spec["extra"] == "label":
        font = looks.font(pick(rng, looks.FONTS[spec["split"]]), max(int(h * 0.66), 8))
        space = h * rng.uniform(0.06, 0.16)
        xs, x = [], h * 0.3
        for c in text:
            width = font.getlength(c)
            xs.append(x + width / 2)
            x += width + space
        w = int(x - space + h * 0.3)
        dark_on_light = rng.random() < 0.75
        paper = pick(rng, [(250, 250, 246), (246, 232, 150), (232, 240, 250)]) if dark_on_light else pick(rng, [(24, 24, 28), (20, 40, 90), (110, 16, 20)])
        ink = (16, 16, 20) if dark_on_light else (246, 246, 240)
        out = Image.new("RGB", (w, h), paper)
        draw = ImageDraw.Draw(out)
        for c, cx in zip(text, xs):
            draw.text((cx, h * 0.5), c, fill=ink, font=font, anchor="mm")
        return out, [(cx, h / 2, c) for cx, c in zip(xs, text)]
    dw, gap = h * 0.40, h * 0.2
    digits = [c for c in text if c != "."]
    w = int(gap * 1.6 + len(digits) * (dw + gap))
    out = Image.new("RGB", (w, h), pick(rng, [(14, 16, 14), (20, 12, 12), (150, 165, 140)]))
    lcd = out.getpixel((0, 0))[0] > 100
    on = (24, 28, 24) if lcd else pick(rng, [(255, 60, 40), (70, 255, 90), (255, 190, 40), (90, 190, 255)])
    off = tuple(int(b + (o - b) * 0.07) for o, b in zip(on, out.getpixel((0, 0))))
    draw, x, chars = ImageDraw.Draw(out), gap * 1.3, []
    top, mid, low, t, slant = h * 0.17, h * 0.5, h * 0.83, max(h * 0.085, 1.5), h * rng.uniform(0.0, 0.08)
    for c in text:
        if c == ".":
            draw.ellipse((x - gap * 0.78, low - t, x - gap * 0.78 + 1.9 * t, low + 0.9 * t), fill=on)
            chars.append((x - gap * 0.5, low, c))
            continue
        def at(px, py):
            return px + slant * (mid - py) / mid, py
        ends = {"a": ((x, top), (x + dw, top)), "b": ((x + dw, top), (x + dw, mid)), "c": ((x + dw, mid), (x + dw, low)), "d": ((x, low), (x + dw, low)),
                "e": ((x, mid), (x, low)), "f": ((x, top), (x, mid)), "g": ((x, mid), (x + dw, mid))}
        for name in sorted(ends, key=lambda s: s in SEGMENTS[c]):
            (x0, y0), (x1, y1) = ends[name]
            cut = 0.12 * dw
            if y0 == y1:
                x0, x1 = x0 + cut, x1 - cut
            else:
                y0, y1 = y0 + cut, y1 - cut
            draw.line([at(x0, y0), at(x1, y1)], fill=on if name in SEGMENTS[c] else off, width=int(round(t)))
        chars.append((x + dw / 2, mid, c))
        x += dw + gap
    return out, chars


def place_text(canvas, spec, rng, cx, cy, height, max_width, turn):
    """Puts the label or the display on the plane, its middle at (cx, cy)."""
    picture, chars = plate_of_text(spec, rng, height * SS * 1.5)
    k = 1 / (SS * 1.5)
    w, h = picture.width * k, picture.height * k
    if w > max_width:
        k *= max_width / w
        w, h = picture.width * k, picture.height * k
    c, s = math.cos(turn), math.sin(turn)
    to_plane = np.array([[k * c, -k * s, cx - (w * c - h * s) / 2], [k * s, k * c, cy - (w * s + h * c) / 2], [0, 0, 1.0]])
    whole = np.diag([SS, SS, 1.0]) @ canvas.m @ to_plane  # plate pixels -> canvas pixels
    inverse = np.linalg.inv(whole)
    inverse /= inverse[2, 2]
    coefficients = tuple(inverse.reshape(-1)[:8])
    size = (canvas.w * SS, canvas.h * SS)
    warped = picture.transform(size, Image.PERSPECTIVE, coefficients, Image.BICUBIC)
    mask = Image.new("L", picture.size, 255).transform(size, Image.PERSPECTIVE, coefficients, Image.BILINEAR)
    outline = np.array([(0, 0), (picture.width, 0), (picture.width, picture.height), (0, picture.height)])
    outline = (np.concatenate([outline, np.ones((4, 1))], 1) @ to_plane.T)[:, :2]
    canvas.paint(canvas.mask(outline + 0.012 * min(canvas.w, canvas.h), blur=2), (0, 0, 0), 0.3)
    canvas.paint(mask, np.asarray(warped, np.float32))
    canvas.note(canvas.region, outline, 7 if spec["extra"] == "label" else 8)
    for x, y, char in chars:
        px, py = (to_plane @ (x, y, 1.0))[:2]
        canvas.chars.append((*canvas.warp([(px, py)])[0], char))


# ---------------------------------------------------------------- a whole picture
def background(canvas, spec, rng, part_colour):
    while True:
        base = np.array(pick(rng, [(200, 196, 188), (150, 146, 140), (96, 92, 88), (70, 74, 80), (176, 150, 116), (120, 134, 140), (226, 226, 222), (50, 50, 52),
                                   (140, 110, 90), (108, 124, 104)]), np.float32) + rng.uniform(-12, 12, 3)
        if np.abs(base - np.array(part_colour)).sum() > 130:
            break
    h, w = canvas.h * SS, canvas.w * SS
    name = pick(rng, looks.TEXTURES[spec["split"]])
    canvas.img = base.astype(np.float32) + looks.texture(name, rng, h, w)[..., None] * np.float32(rng.uniform(4, 22))
    for _ in range(int(rng.integers(0, 4))):  # clutter: cables, sheets, smears; nothing that looks like a part
        x, y = rng.uniform(0, canvas.w), rng.uniform(0, canvas.h)
        tone = np.clip(base + rng.uniform(-60, 60, 3), 10, 245)
        if rng.random() < 0.6:
            n = 6
            p = np.cumsum(rng.uniform(-0.25, 0.25, (n, 2)), 0) * max(canvas.w, canvas.h) + (x, y)
            t = np.linspace(0, n - 1, 24)
            p = np.stack([np.interp(t, np.arange(n), p[:, i]) for i in (0, 1)], 1)
            canvas.paint(canvas.line(p, rng.uniform(1, 4)), tone, 0.8)
        else:
            canvas.paint(canvas.mask(rectangle(x, y, canvas.w * rng.uniform(0.1, 0.4), canvas.h * rng.uniform(0.1, 0.4), rng.uniform(0, 3)), blur=2), tone, 0.35)
    return base


def single_part(canvas, spec, rng, colour, inside):
    w, h = canvas.w, canvas.h
    u0 = min(w, h)
    x0, y0, x1, y1 = 0.0, 0.0, float(w), float(h)
    text_at = None
    if spec["extra"] != "none":
        strip = max(rng.uniform(0.17, 0.21) * u0, 24.0) if u0 < 230 else max(rng.uniform(0.085, 0.15) * u0, 34)
        side = pick(rng, ["top", "bottom"])
        if w > 1.35 * h:
            side = pick(rng, ["left", "right"])
        if side in ("top", "bottom"):
            text_at = (w * rng.uniform(0.38, 0.62), strip * 0.68 if side == "top" else h - strip * 0.68, strip * rng.uniform(0.8, 0.92), w * 0.7)
            y0, y1 = (strip * 1.2, y1) if side == "top" else (y0, h - strip * 1.2)
        else:
            wide = w * 0.30
            text_at = (wide * 0.55 if side == "left" else w - wide * 0.55, h * rng.uniform(0.3, 0.7), strip * rng.uniform(0.9, 1.1), wide * 0.88)
            x0, x1 = (wide * 1.02, x1) if side == "left" else (x0, w - wide * 1.02)
    margin = rng.uniform(0.045, 0.085) * u0
    cx, cy = (x0 + x1) / 2 + rng.uniform(-0.01, 0.01) * w, (y0 + y1) / 2 + rng.uniform(-0.01, 0.01) * h
    hw, hh = (x1 - x0) / 2 - margin, (y1 - y0) / 2 - margin
    light = canvas.light
    texture_name = pick(rng, looks.TEXTURES[spec["split"]])
    kind = spec["kind"]
    turn = rng.uniform(-0.07, 0.07)
    if kind == "gear":
        r = min(hw, hh)
        cx += rng.uniform(-1, 1) * (hw - r)
        cy += rng.uniform(-1, 1) * (hh - r)
        outline = gear_outline(cx, cy, r * 1.03, int(rng.integers(10, 21)), rng.uniform(0, 6.28))
        hw = hh = r
        spread = (0.56, 0.56)
    else:
        if hw > 1.9 * hh:
            hw = hh * rng.uniform(1.5, 1.9)
        if hh > 1.9 * hw:
            hh = hw * rng.uniform(1.5, 1.9)
        hw, hh = hw * rng.uniform(0.92, 1.0), hh * rng.uniform(0.92, 1.0)
        outline = rectangle(cx, cy, hw, hh, turn, rng.uniform(0.02, 0.1) * u0 if kind == "plate" and rng.random() < 0.7 else 0.0)
        spread = (0.72, 0.72) if kind == "plate" else (0.86, 0.84)
    u = 2 * min(hw, hh)
    mask = solid(canvas, outline, colour, texture_name, rng, light, rng.uniform(5, 15))
    canvas.note(canvas.region, outline, REGIONS.index(kind))
    canvas.parts.append(tuple(canvas.warp([(cx, cy)])[0]))
    c, s = math.cos(turn), math.sin(turn)
    if kind == "gear":
        c, s = 1.0, 0.0
        solid(canvas, ellipse(cx, cy, r * 0.24), np.clip(np.array(colour) + 16, 0, 250), texture_name, rng, light, 6.0)

    def local(px, py):
        a, b = px * hw * spread[0], py * hh * spread[1]
        return cx + a * c - b * s, cy + a * s + b * c

    spots = [local(px, py) for px, py in spec["pattern"]]
    r_hole = min(u * rng.uniform(0.042, 0.058), 0.06 * u0) if kind != "board" else u * 0.036
    if kind != "board":
        r_hole = max(r_hole, min(3.2 * u0 / 168, 0.07 * u))
    place = None
    missing = -1
    if spec["defect"] == "missing hole":
        order = sorted(range(len(spots)), key=lambda i: (cell_of(canvas, spots[i])[0] != spec["cell"], cell_of(canvas, spots[i])[1] < 0.03, i))
        missing = order[0]
        place = spots[missing]
    occupied = []
    if kind == "board":
        place = board_face(canvas, spec, rng, local, u, light, colour, occupied) or place
    for i, (x, y) in enumerate(spots):
        if i == missing:  # scribed and centre-punched, but not drilled
            ring = np.concatenate([ellipse(x, y, r_hole), ellipse(x, y, r_hole)[:1]])
            tone = (235, 235, 230) if luminance(colour) < 140 else (60, 60, 64)
            canvas.paint(canvas.line(ring, max(0.012 * u, 1.0)), tone, 0.9)
            for d in ((1, 0), (0, 1)):
                p = [(x - 0.55 * r_hole * d[0], y - 0.55 * r_hole * d[1]), (x + 0.55 * r_hole * d[0], y + 0.55 * r_hole * d[1])]
                canvas.paint(canvas.line(p, max(0.01 * u, 0.9)), tone, 0.9)
            canvas.note(canvas.defects, ellipse(x, y, r_hole * 1.1), DEFECTS.index("missing hole"))
        else:
            hole(canvas, x, y, r_hole, inside, light)
    if spec["defect"] in ("scratch", "dent", "crack", "stain"):
        place = defect_place(canvas, spec, rng, outline, spots, occupied, u, cx, cy)
        draw_defect(canvas, spec["defect"], *place, u, colour, mask, rng)
    if text_at:
        place_text(canvas, spec, rng, *text_at, rng.uniform(-0.05, 0.05))
    return place


def board_face(canvas, spec, rng, local, u, light, colour, occupied):
    """Tracks and chips; gives the place of a wrong one."""
    rows, cols = spec["grid"]
    track = np.clip(np.array(colour) * 0.72 if luminance(colour) > 60 else np.array(colour) + 26, 0, 255)
    for _ in range(6):
        ax, ay = rng.uniform(-0.85, 0.85), rng.uniform(-0.85, 0.85)
        bx, by = np.clip(ax + rng.uniform(-0.7, 0.7), -0.95, 0.95), np.clip(ay + rng.uniform(-0.7, 0.7), -0.95, 0.95)
        canvas.paint(canvas.line([local(ax, ay), local(bx, ay), local(bx, by)], max(u * 0.012, 1.0)), track, 0.55)
    spots = [local(x, y) for y in np.linspace(-0.55, 0.55, rows) for x in np.linspace(-0.62, 0.62, cols)]
    a = u * min(0.105, 0.38 / max(rows, cols) * 1.0)
    wrong = -1
    if spec["defect"] == "wrong part":
        wrong = sorted(range(len(spots)), key=lambda i: (cell_of(canvas, spots[i])[0] != spec["cell"], cell_of(canvas, spots[i])[1] < 0.03, i))[0]
    for i, (x, y) in enumerate(spots):
        chip(canvas, spec["wrong_chip"] if i == wrong else spec["chip"], x, y, a, light)
        occupied.append((x, y))
    if wrong >= 0:
        canvas.note(canvas.defects, ellipse(*spots[wrong], a), DEFECTS.index("wrong part"))
        return spots[wrong]
    return None


def defect_place(canvas, spec, rng, outline, spots, occupied, u, cx, cy):
    """A point on the part, in the wanted cell when there is one, clear of grid lines, holes and the part's edge."""
    inner = np.array((cx, cy)) + (np.asarray(outline) - (cx, cy)) * 0.86
    polygon = Image.new("L", (canvas.w, canvas.h))
    ImageDraw.Draw(polygon).polygon([tuple(p) for p in inner], fill=1)
    polygon = np.asarray(polygon)
    best, best_score = (cx, cy), -1e9
    lo, hi = inner.min(0), inner.max(0)
    for i in range(80):
        x, y = rng.uniform(lo[0], hi[0]), rng.uniform(lo[1], hi[1])
        if not (0 <= int(y) < canvas.h and 0 <= int(x) < canvas.w and polygon[int(y), int(x)]):
            continue
        cell, clear = cell_of(canvas, (x, y))
        near = min([math.hypot(x - a, y - b) for a, b in spots] or [u])
        near = min([near] + [math.hypot(x - a, y - b) * 1.2 for a, b in occupied])
        score = (2 if cell == spec["cell"] else 0) + min(clear, 0.04) * 60 + min(near / u, 0.13) * 30
        if spec["kind"] == "gear" and math.hypot(x - cx, y - cy) < 0.2 * u:
            score -= 1
        if score > best_score:
            best, best_score = (x, y), score
    return best


def tray(canvas, spec, rng, colour, inside):
    n, w, h = spec["count"], canvas.w, canvas.h
    r = min(0.40 * math.sqrt(w * h / max(n, 2.5)) * rng.uniform(0.62, 0.82), 0.2 * min(w, h))
    spots = []
    while True:
        for _ in range(400):
            x, y = rng.uniform(1.15 * r, w - 1.15 * r), rng.uniform(1.15 * r, h - 1.15 * r)
            if all(math.hypot(x - a, y - b) > 2.12 * r for a, b in spots):
                spots.append((x, y))
                if len(spots) == n:
                    break
        if len(spots) == n:
            break
        r, spots = r * 0.92, []
    texture_name = pick(rng, looks.TEXTURES[spec["split"]])
    wrong = -1
    if spec["defect"] == "wrong part":
        wrong = sorted(range(n), key=lambda i: (cell_of(canvas, spots[i])[0] != spec["cell"], cell_of(canvas, spots[i])[1] < 0.03, i))[0]
    other = pick(rng, [k for k in ("nuts", "washers", "screws") if k != spec["kind"] and "screws" in (k, spec["kind"])])
    for i, (x, y) in enumerate(spots):
        item(canvas, other if i == wrong else spec["kind"], x, y, r * rng.uniform(0.92, 1.0), rng.uniform(0, 6.28), colour, rng, texture_name, canvas.light, inside)
    if wrong >= 0:
        canvas.note(canvas.defects, ellipse(*spots[wrong], r * 0.8), DEFECTS.index("wrong part"))
        return spots[wrong]
    return None


def finish(canvas, rng, jpeg=True):
    """Light, camera blur, noise and JPEG; -> RGB picture."""
    h, w = canvas.img.shape[:2]
    a = rng.uniform(0, 6.28)
    ramp = np.linspace(-1, 1, w, dtype=np.float32)[None, :] * np.float32(math.cos(a)) + np.linspace(-1, 1, h, dtype=np.float32)[:, None] * np.float32(math.sin(a))
    gain = np.float32(rng.uniform(0.9, 1.08)) * (1 + np.float32(rng.uniform(0.0, 0.1)) * ramp)
    tone = 1 + rng.uniform(-0.035, 0.035, 3)
    picture = Image.fromarray(np.clip(canvas.img * gain[..., None] * tone.astype(np.float32), 0, 255).astype(np.uint8)).reduce(SS)
    scale = min(canvas.w, canvas.h) / 168
    if rng.random() < 0.6:
        picture = picture.filter(ImageFilter.GaussianBlur(rng.uniform(0.1, 0.55) * max(scale * 0.7, 1)))
    pixels = np.asarray(picture, np.float32) + rng.standard_normal((canvas.h, canvas.w, 1)).astype(np.float32) * rng.uniform(0, 5)
    picture = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
    if jpeg:
        buffer = io.BytesIO()
        picture.save(buffer, "JPEG", quality=int(rng.integers(62, 95)))
        picture = Image.open(buffer).convert("RGB")
    return picture


def render(spec, shot=0, jpeg=True):
    """-> (picture, truth). `shot` changes noise, light and camera, not the part."""
    seed = spec["seed"]
    rng = np.random.default_rng([seed, 1])
    eye = np.random.default_rng([seed, 2])
    w, h = spec["size"]
    canvas = Canvas(w, h, eye, 0.028)
    a = eye.uniform(0, 6.28)
    canvas.light = (math.cos(a), math.sin(a))
    where = None
    base = np.array(COLOURS[spec["colour"]], np.float32)
    colour = np.clip(base * rng.uniform(0.95, 1.04) + rng.uniform(-6, 6, 3), 8, 248)
    if spec["kind"] == "no part":
        scenery(canvas, spec, rng)
    else:
        ground = background(canvas, spec, np.random.default_rng([seed, 3]), colour)
        inside = np.clip(ground * 0.28, 6, 60)
        if luminance(colour) < 75:
            inside = np.clip(ground * 0.2 + 150, 150, 235)  # light comes through the holes of a dark part
        draw = tray if "count" in spec else single_part
        place = draw(canvas, spec, np.random.default_rng([seed, 4]), colour, inside)
        if place is not None:
            where, clear = cell_of(canvas, place)
    picture = finish(canvas, np.random.default_rng([seed, 5, shot]), jpeg)
    truth = {"kind": spec["kind"], "defect": spec["defect"], "where": where, "colour": spec["colour"] if spec["kind"] != "no part" else None,
             "holes": len(canvas.holes), "count": spec.get("count"), "extra": spec["extra"], "label": spec["label"]}
    return picture, {"facts": truth, "region": np.asarray(canvas.region), "defects": np.asarray(canvas.defects), "holes": canvas.holes,
                     "chars": canvas.chars, "parts": canvas.parts}


# ---------------------------------------------------------------- pictures without a part, and pairs
PHOTOS = {"train": ["coffee.png", "astronaut.png", "brick.png", "grass.png", "retina.jpg", "coins.png"],
          "val": ["gravel.png", "rocket.jpg"], "heldout": ["chelsea.png", "hubble_deep_field.jpg"]}
_photos = {}


def photo(name):
    if name not in _photos:
        import skimage
        import os
        _photos[name] = Image.open(os.path.join(os.path.dirname(skimage.__file__), "data", name)).convert("RGB")
    return _photos[name]


def scenery(canvas, spec, rng):
    """A crop of a free photograph, a landscape, or bare surfaces."""
    w, h = canvas.w * SS, canvas.h * SS
    choice = rng.random()
    if choice < 0.4:
        names = [n for n in PHOTOS[spec["split"]] if n != "coins.png"]
        p = photo(pick(rng, names))
        k = rng.uniform(0.35, 1.0)
        cw = min(p.width * k, p.height * k * w / h)
        ch = cw * h / w
        x, y = rng.uniform(0, p.width - cw), rng.uniform(0, p.height - ch)
        crop = p.resize((w, h), Image.BICUBIC, (x, y, x + cw, y + ch))
        canvas.img = np.asarray(crop, np.float32).copy()
    elif choice < 0.7:
        sky, land = rng.uniform(90, 240, 3), rng.uniform(30, 150, 3)
        t = np.linspace(0, 1, h, dtype=np.float32)[:, None, None]
        canvas.img = (sky * (1 - 0.4 * t) + 40 * t).astype(np.float32) * np.ones((h, w, 1), np.float32)
        for k in range(int(rng.integers(1, 4))):
            ridge = h * (0.4 + 0.15 * k) + h * 0.08 * looks.smooth_noise(rng, 2, w, rng.uniform(20, 120))[0]
            below = np.arange(h)[:, None] > ridge[None, :]
            canvas.img[below] = land * (1 - 0.2 * k)
        canvas.img += looks.smooth_noise(rng, h, w, 3)[..., None] * 8
    else:
        background(canvas, spec, rng, (-500, -500, -500))
        canvas.img += (looks.texture(pick(rng, looks.TEXTURES[spec["split"]]), rng, h, w) * rng.uniform(5, 30))[..., None] * rng.uniform(0.6, 1.0, 3).astype(np.float32)


CHANGES = ["nothing", "scratch", "dent", "crack", "stain", "missing hole", "colour", "label"]


def make_pair(rng, split, size, change):
    """Two specs of the same part; the second differs by `change`."""
    first = make_spec(rng, split, size, pick(rng, ["plate", "gear"]), "none", "label" if change == "label" or rng.random() < 0.4 else None,
                      int(rng.integers(3, 9)))
    second = copy.deepcopy(first)
    if change in DEFECTS:
        second["defect"] = change
    elif change == "colour":
        second["colour"] = pick(rng, [c for c in COLOURS if c != first["colour"]])
    elif change == "label":
        while second["label"] == first["label"] or len(second["label"]) != len(first["label"]):
            second["label"] = code(rng)
    return first, second
