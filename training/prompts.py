"""Token ids of prompts exactly as the template of o 4.5 gives them (reference/template.py), in pieces: one part that the pictures
share, and one segment for each question. Not for decoding."""
import torch

import template
from export import tokenizer

END = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"


class Prompts:
    def __init__(self):
        self.tokenizer = tokenizer()
        self.rows = self.tokenizer.rows
        self.fill = self.tokenizer.added_id[template.FILL]
        self.stop = self.tokenizer.added_id["<|im_end|>"]
        self.known = {}
        self.before_sound = self.ids("<|audio_start|>")
        self.after_sound = self.ids("<|audio_end|>" + END + "<|tts_bos|>")

    def ids(self, text):
        if text not in self.known:
            self.known[text] = self.tokenizer.encode(text)
        return self.known[text]

    def pictures(self, grids, queries=64):
        """Ids up to the newline before the question; grids: (cols, rows) of each picture."""
        parts = [template.placeholder(i, g, queries) for i, g in enumerate(grids)]
        return self.ids("<|im_start|>user\n" + "".join(p + "\n" for p in parts))

    def typed(self, question):
        return self.ids(question) + self.ids(END)

    def answer(self, text):
        return self.ids(text) + [self.stop]


def layout(prefix, widths):
    """Positions [1, T] and mask [1, 1, T, T] of one shared prefix and segments of these widths that do not see each other."""
    total = prefix + sum(widths)
    mask = torch.zeros(total, total, dtype=torch.bool)
    mask[:, :prefix] = True
    mask[:prefix, :prefix] = torch.ones(prefix, prefix, dtype=torch.bool).tril()
    positions, at = [torch.arange(prefix)], prefix
    for w in widths:
        mask[at:at + w, at:at + w] = torch.ones(w, w, dtype=torch.bool).tril()
        positions.append(prefix + torch.arange(w))
        at += w
    return torch.cat(positions)[None], mask[None, None]
