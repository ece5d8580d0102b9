"""Questions about a drawn part and their answers, in English and Chinese, and the speech of the same questions.

One answer per question, always the same words for the same truth, so that exact match is a fair score.
"""
import json

import numpy as np

import parts

ZH_CELLS = ["左上", "上", "右上", "左", "中间", "右", "左下", "下", "右下"]
ZH_DEFECTS = {"none": "没有", "scratch": "划痕", "dent": "凹痕", "crack": "裂纹", "stain": "污渍", "missing hole": "缺孔", "wrong part": "错件"}
ZH_COLOURS = {"red": "红色", "orange": "橙色", "yellow": "黄色", "green": "绿色", "blue": "蓝色", "purple": "紫色", "white": "白色", "grey": "灰色", "black": "黑色"}
ZH_KINDS = {"plate": "板", "gear": "齿轮", "board": "电路板", "nuts": "螺母", "washers": "垫圈", "screws": "螺钉", "no part": "没有零件"}
ZH_CHANGES = {"nothing": "没有变化", "colour": "颜色", "label": "标签", **{k: v for k, v in ZH_DEFECTS.items() if k != "none"}}

ASK = {  # type -> language -> ways to ask
    "defective": {"en": ["Is the part defective?", "Is this part defective?", "Does the part have a defect?", "Is there a defect?",
                         "Is anything wrong with the part?", "Is the part damaged?"],
                  "zh": ["零件有缺陷吗？", "这个零件有缺陷吗？", "有没有缺陷？", "零件有问题吗？"]},
    "defect": {"en": ["Which defect does the part have?", "What is the defect?", "What kind of defect is it?", "Name the defect.",
                      "What is wrong with the part?", "Which defect is there?"],
               "zh": ["是什么缺陷？", "零件有什么缺陷？", "缺陷是哪一种？", "说出缺陷的名称。"]},
    "where": {"en": ["Where is the defect?", "Where is the part defective?", "In which area is the defect?", "Where in the picture is the defect?",
                     "Tell me where the defect is."],
              "zh": ["缺陷在哪里？", "缺陷在什么位置？", "缺陷在图中的哪里？", "哪个位置有缺陷？"]},
    "holes": {"en": ["How many holes does the part have?", "How many holes are there?", "Count the holes.", "What is the number of holes?",
                     "How many holes do you see?"],
              "zh": ["有几个孔？", "零件上有几个孔？", "有多少个孔？", "数一数有几个孔。"]},
    "label": {"en": ["What does the label say?", "Read the label.", "What is written on the label?", "What is the text on the label?"],
              "zh": ["标签上写着什么？", "标签上是什么？", "读一下标签。", "标签的内容是什么？"]},
    "display": {"en": ["What does the display show?", "Read the display.", "What is the reading of the display?", "Which number is on the display?"],
                "zh": ["显示屏上显示什么？", "读一下显示屏。", "显示屏的读数是多少？", "显示的数字是什么？"]},
    "colour": {"en": ["What colour is the part?", "Which colour does the part have?", "What is the colour?", "Name the colour of the part."],
               "zh": ["零件是什么颜色？", "这是什么颜色？", "颜色是什么？", "零件的颜色是哪一种？"]},
    "count": {"en": ["How many parts are there?", "How many parts are in the picture?", "Count the parts.", "What is the number of parts?"],
              "zh": ["有几个零件？", "图中有几个零件？", "有多少个零件？", "数一数有几个零件。"]},
    "kind": {"en": ["What is in the picture?", "What kind of part is it?", "What do you see?", "Which part is it?", "Name the part."],
             "zh": ["图中是什么？", "这是什么零件？", "你看到了什么？", "说出零件的名称。"]},
    "part": {"en": ["Is there a part in the picture?", "Do you see a part?", "Does the picture show a part?", "Is a part visible?"],
             "zh": ["图中有零件吗？", "你看到零件了吗？", "有没有零件？", "看得到零件吗？"]},
    "changed": {"en": ["What changed between the two pictures?", "What changed?", "What is different in the second picture?", "What is the difference?"],
                "zh": ["两张图有什么变化？", "有什么变化？", "第二张图有什么不同？", "有什么区别？"]},
    "json": {"en": ["Answer as JSON: defect and place.", "Report the defect as JSON.", "Describe the defect in JSON.",
                    "Answer as JSON: part, colour and holes.", "Report the part as JSON.", "Describe the part in JSON."],
             "zh": ["用 JSON 回答缺陷和位置。", "用 JSON 报告缺陷。", "用 JSON 回答零件、颜色和孔数。", "用 JSON 报告零件。"]},
}
JSON_PART = {"Answer as JSON: part, colour and holes.", "Report the part as JSON.", "Describe the part in JSON.", "用 JSON 回答零件、颜色和孔数。", "用 JSON 报告零件。"}
TYPES = list(ASK)
SPOKEN_TYPES = [t for t in TYPES if t != "json"]


def answer(kind, language, facts, asked):
    """Text of the right answer, or None when the question makes no sense for this picture. facts: parts.render's, or {"change"}."""
    zh = language == "zh"
    if kind == "changed":
        return (ZH_CHANGES if zh else {k: k for k in ZH_CHANGES})[facts["change"]] if "change" in facts else None
    if "change" in facts:
        return None
    no_part, bad = facts["kind"] == "no part", facts["defect"] != "none"
    if kind == "part":
        return ("没有" if zh else "no") if no_part else ("有" if zh else "yes")
    if kind == "kind":
        return ZH_KINDS[facts["kind"]] if zh else facts["kind"]
    if kind in ("defective", "defect") and no_part:
        return ZH_KINDS["no part"] if zh else "no part"
    if kind == "defective":
        return ("有" if zh else "yes") if bad else ("没有" if zh else "no")
    if kind == "defect":
        return ZH_DEFECTS[facts["defect"]] if zh else facts["defect"]
    if kind == "where":
        return (ZH_CELLS if zh else parts.CELLS)[facts["where"]] if bad else None
    if kind == "holes":
        return str(facts["holes"]) if facts["kind"] in ("plate", "gear", "board") else None
    if kind == "label" and not no_part:
        return facts["label"] if facts["extra"] == "label" else ("没有标签" if zh else "no label")
    if kind == "display" and not no_part:
        return facts["label"] if facts["extra"] == "display" else ("没有显示屏" if zh else "no display")
    if kind == "colour":
        return None if no_part else ZH_COLOURS[facts["colour"]] if zh else facts["colour"]
    if kind == "count":
        return None if no_part else str(facts["count"] or 1)
    if kind == "json" and facts["kind"] in ("plate", "gear", "board"):
        if asked in JSON_PART:
            return json.dumps({"part": facts["kind"], "colour": facts["colour"], "holes": facts["holes"]})
        return json.dumps({"defect": facts["defect"], "where": parts.CELLS[facts["where"]] if bad else None})
    return None


def loosen(rng, text):
    """People leave out the end mark or the capital; answers stay."""
    if rng.random() < 0.15:
        text = text[0].lower() + text[1:]
    if rng.random() < 0.15:
        text = text.rstrip("?.？。")
    return text


def possible(facts):
    """Types that make sense for these facts, without those whose answer is only ever 'no such thing'."""
    out = []
    for t in TYPES:
        if answer(t, "en", facts, ASK[t]["en"][0]) is None:
            continue
        if t in ("label", "display") and facts["extra"] != t:
            continue
        if t == "count" and not facts["count"]:
            continue
        out.append(t)
    return out


def ask(rng, kind, facts, language=None, loose=True):
    """-> (question as written, plain question, language, answer)."""
    language = language or ("en" if rng.random() < 0.55 else "zh")
    plain = ASK[kind][language][int(rng.integers(len(ASK[kind][language])))]
    return (loosen(rng, plain) if loose else plain), plain, language, answer(kind, language, facts, plain)


def corpus():
    """Text from which the vocabulary's merges are learned: questions and answers, but no labels and no numbers."""
    lines = []
    for t in TYPES:
        for language in ("en", "zh"):
            for q in ASK[t][language]:
                q = q.replace("JSON", " ")
                lines += [q, q[0].lower() + q[1:]] * 4
    words = list(parts.CELLS) + list(parts.DEFECTS) + list(parts.COLOURS) + list(parts.KINDS) + list(ZH_CHANGES)
    words += ["yes", "no", "no label", "no display", "有", "没有标签", "没有显示屏"] + ZH_CELLS
    words += list(ZH_DEFECTS.values()) + list(ZH_COLOURS.values()) + list(ZH_KINDS.values()) + list(ZH_CHANGES.values())
    lines += words * 6
    for cell in parts.CELLS:
        for defect in parts.DEFECTS:
            lines.append(json.dumps({"defect": defect, "where": cell}))
            lines.append(json.dumps({"defect": "none", "where": None}))
    for kind in ("plate", "gear", "board"):
        for colour in parts.COLOURS:
            lines += [json.dumps({"part": kind, "colour": colour, "holes": 0})] * 3
    lines += ["user\nassistant\nsystem\n\n"] * 40
    return "\n".join(lines)
