"""Compares the product's chat templates (program text_tool) with the Jinja templates that ship with the checkpoints, on seeded conversations.

FAMILY=PATH: v26, v45, o45 or v46, and the tokenizer_config.json or chat_template.jinja that came with a checkpoint of it. --write makes tests/data/text/templates.jsonl,
which holds conversations of this program and what the template made of them, no template text beyond that.
"""
import argparse
import hashlib
import json
import os
import random

from jinja2.exceptions import TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from text_strings import part
from text_tool import TextTool

MARKERS = ["<think>", "</think>", "<tool_response>", "</tool_response>", "<|im_end|>", "<|im_start|>user\n", "\n", "\n\n", "<think>\n\n</think>\n\n",
           "(<image>./</image>)", "<image>./</image>", "<image_id>0</image_id><image><unk><unk></image>"]


def jinja(template):
    """As transformers renders chat templates."""
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.filters["tojson"] = lambda x: json.dumps(x, ensure_ascii=False)

    def complain(message):
        raise TemplateError(message)

    environment.globals["raise_exception"] = complain
    return environment.from_string(template)


def text(rng, markers=0.15):
    out = "".join(rng.choice(MARKERS) if rng.random() < markers else part(rng, ()) for _ in range(rng.randint(0, 4)))
    if rng.random() < 0.1:
        out = "<tool_response>" + out + "</tool_response>"
    return out[:300]


def value(rng, depth=0):
    kind = rng.randrange(9 if depth < 3 else 7)
    if kind == 0:
        return rng.randint(-10**rng.randint(0, 17), 10**rng.randint(0, 17))
    if kind == 1:
        return rng.choice([0.0, -0.0, 1.0, 1e16, 123456789012345.6, 1e15, 1e-4, 1e-5, 0.1, 1 / 3, 5e-324, 1.7976931348623157e308, 1e22, 2.5e-7])
    if kind == 2:
        return rng.choice([True, False, None])
    if kind < 7:
        return text(rng)[:40]
    if kind == 7:
        return [value(rng, depth + 1) for _ in range(rng.randint(0, 3))]
    return {text(rng)[:12]: value(rng, depth + 1) for _ in range(rng.randint(0, 3))}


def tool(rng):
    return {"type": "function", "function": {"name": rng.choice(["look", "weigh", "查询"]), "description": text(rng)[:60],
                                             "parameters": {"type": "object", "properties": {"x": value(rng)}, "required": ["x"]}}}


def dump(rng, item):
    """Some way of writing the same JSON."""
    return json.dumps(item, ensure_ascii=rng.random() < 0.5, indent=rng.choice([None, None, 1, 4]), separators=rng.choice([None, (",", ":")]))


def arguments(rng, family):
    if family != "v46":
        return {"x": value(rng)}
    return {name: value(rng) for name in rng.sample(["x", "colour", "wie viele", ""], rng.randint(0, 3))}


def message(rng, role, tools, family):
    out = {"role": role, "parts": [text(rng) for _ in range(rng.choice([0, 1, 1, 1, 2, 3]))]}
    if role == "assistant":
        if rng.random() < 0.35:
            out["reasoning"] = rng.choice(["", "\n", "\nbecause\n", text(rng)])
        elif rng.random() < 0.3:
            out["parts"] = ["<think>\n" + text(rng) + "\n</think>\n\n" + text(rng)]
        if tools and rng.random() < 0.5:
            out["tool_calls"] = [{"name": rng.choice(["look", "weigh"]), "arguments": dump(rng, arguments(rng, family))}
                                 for _ in range(rng.randint(1, 3))]
    return out


def conversation(rng, family):
    tools = family != "v26" and rng.random() < 0.6
    roles = ["system"] if rng.random() < 0.5 else []
    for _ in range(rng.randint(0, 4)):
        roles += ["user", "assistant"]
        if tools and rng.random() < 0.6:
            roles += ["tool"] * rng.randint(1, 3) + ["assistant"] * rng.randint(0, 1)
    roles += rng.choice([["user"], ["user"], [], ["assistant"], ["tool"] * 2 if tools else ["user"]])
    if rng.random() < 0.1:
        rng.shuffle(roles)
    roles = roles or ["user"]
    out = {"family": family, "messages": [message(rng, role, tools, family) for role in roles],
           "tools": [dump(rng, tool(rng)) for _ in range(rng.randint(0, 3))] if tools else [],
           "thinking": rng.choice(["auto", "off", "on"] if family != "v26" else ["auto", "off"]), "generation": rng.random() < 0.8}
    if family == "o45":
        out["tts"] = rng.random() < 0.4
    return out


def render(template, conversation):
    messages = []
    for m in conversation["messages"]:
        out = {"role": m["role"], "content": "\n".join(m["parts"])}
        if "reasoning" in m:
            out["reasoning_content"] = m["reasoning"]
        if "tool_calls" in m:
            out["tool_calls"] = [{"type": "function", "function": dict(call)} for call in m["tool_calls"]]
            if conversation["family"] == "v46":  # walks through the arguments, which must be an object
                for call in out["tool_calls"]:
                    call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        messages.append(out)
    variables = {"messages": messages, "tools": [json.loads(t) for t in conversation["tools"]] or None,
                 "add_generation_prompt": conversation["generation"]}
    if conversation["thinking"] != "auto":
        variables["enable_thinking"] = conversation["thinking"] == "on"
    if conversation.get("tts"):
        variables["use_tts_template"] = True
    try:
        return template.render(**variables)
    except TemplateError:
        return None  # the template refuses it


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tool", required=True, help="build/<preset>/bin/text_tool")
    parser.add_argument("--count", type=int, default=1000, help="conversations per family")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", metavar="FILE", help="also write a sample of --sample conversations per family")
    parser.add_argument("--sample", type=int, default=40)
    parser.add_argument("config", nargs="+", metavar="FAMILY=PATH")
    args = parser.parse_args()
    tool_program = TextTool(args.tool)
    sample = []
    for item in args.config:
        family, path = item.split("=", 1)
        with open(path, encoding="utf-8") as f:
            source = f.read() if path.endswith(".jinja") else json.load(f)["chat_template"]
        template = jinja(source)
        rng = random.Random(args.seed)
        conversations = [conversation(rng, family) for _ in range(args.count)]
        refused = 0
        for c, answer in zip(conversations, tool_program.ask([{"render": c} for c in conversations])):
            expected = render(template, c)
            refused += expected is None
            if answer.get("text") != expected or (expected is None) != ("error" in answer):
                raise SystemExit(f"{family}: {json.dumps(c, ensure_ascii=False)}\n ours   {answer!r}\n theirs {expected!r}")
        warning = tool_program.ask([{"check_template": os.path.dirname(os.path.abspath(path)), "family": family}])[0]["warning"]
        if warning:
            print(f"{family}: the product warns: {warning}", flush=True)
        print(f"{family}: {len(conversations)} conversations equal, {refused} of them refused by both; template SHA-256 {hashlib.sha256(source.encode()).hexdigest()}", flush=True)
        conversations = [c for c in conversations if render(template, c) is not None]
        sample += sorted(conversations, key=lambda c: len(json.dumps(c)))[args.count // 10::max(args.count // args.sample, 1)][:args.sample]
        for c in sample:
            if "text" not in c and c["family"] == family:
                c["text"] = render(template, c)
    if args.write:
        with open(args.write, "w", encoding="utf-8") as f:
            for c in sample:
                f.write(json.dumps(c, ensure_ascii=True) + "\n")
    tool_program.close()


if __name__ == "__main__":
    main()
