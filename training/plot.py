"""Draws curves.png from inspector_loss.csv and inspector_accuracy.csv: loss and validation accuracy over hours. Pillow only."""
import argparse
import collections
import csv
import os

from PIL import Image, ImageDraw, ImageFont

import cache

COLOURS = ["#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf", "#000000", "#5050ff"]


def panel(draw, box, curves, top, title, font):
    """curves: name -> [(hours, value)]."""
    x0, y0, x1, y1 = box
    hours = max((p[0] for c in curves.values() for p in c), default=1.0) or 1.0
    draw.rectangle(box, outline="#999999")
    draw.text((x0, y0 - 18), title, fill="black", font=font)
    for i in range(5):
        y = y1 - (y1 - y0) * i / 4
        draw.line((x0, y, x1, y), fill="#dddddd")
        draw.text((x0 - 6, y), f"{top * i / 4:.2g}", fill="black", font=font, anchor="rm")
        draw.text((x0 + (x1 - x0) * i / 4, y1 + 4), f"{hours * i / 4:.1f} h", fill="black", font=font, anchor="ma")
    for k, (name, points) in enumerate(curves.items()):
        line = [(x0 + (x1 - x0) * h / hours, y1 - (y1 - y0) * min(max(v / top, 0), 1)) for h, v in points]
        colour = COLOURS[k % len(COLOURS)]
        if len(line) > 1:
            draw.line(line, fill=colour, width=2)
        draw.text((x1 + 8, y0 + 14 * k), name, fill=colour, font=font)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", default="inspector")
    parser.add_argument("--out", default=os.path.join(cache.HERE, "curves.png"))
    args = parser.parse_args()
    losses = {n: [] for n in ("answers", "patches / 5", "speech")}
    with open(os.path.join(cache.FOLDER, args.name + "_loss.csv"), encoding="utf-8") as f:
        for row in list(csv.reader(f))[1:]:
            for name, value, scale in zip(losses, row[3:6], (1, 0.2, 1)):
                losses[name].append((float(row[1]) / 3600, float(value) * scale))
    right = collections.OrderedDict()
    with open(os.path.join(cache.FOLDER, args.name + "_accuracy.csv"), encoding="utf-8") as f:
        for step, seconds, which, kind, good, n in csv.reader(f):
            right.setdefault(("spoken " if which == "speech" else "") + kind, []).append((float(seconds) / 3600, int(good) / int(n)))
    out = Image.new("RGB", (1000, 900), "white")
    draw, font = ImageDraw.Draw(out), ImageFont.load_default(12)
    panel(draw, (60, 30, 840, 260), losses, 4.0, "loss", font)
    panel(draw, (60, 320, 840, 560), {k: v for k, v in right.items() if not k.startswith("spoken")}, 1.0, "validation, pictures: exact match", font)
    panel(draw, (60, 620, 840, 860), {k: v for k, v in right.items() if k.startswith("spoken")}, 1.0, "validation, spoken questions: exact match", font)
    out.save(args.out, optimize=True)


if __name__ == "__main__":
    main()
