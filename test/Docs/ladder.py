"""Writes the printed IR of docs/Ladder.md anew, or says that it is stale.

    ladder.py ATTN_OPT [--check]

The fenced block after a line `<!-- ladder: RUNG -->` holds the operations that
attn-apply-rung makes of the program below for that rung, and the one after
`<!-- ladder: RUNG schedule TARGET -->` the schedules that it gets for a target.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import difflib
import os
import re
import subprocess
import sys

PAGE = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "Ladder.md")
MARKER = re.compile(
    r"(<!-- ladder: (?P<rung>\w+)(?: schedule (?P<target>[\w-]+))? -->\n+```[a-z-]*\n)"
    r"(?P<body>.*?)(?P<end>^```$)",
    re.DOTALL | re.MULTILINE,
)
PROGRAM = """
module attributes {attn.target = "%s"} {
  func.func @attention(%%q: tensor<?x?x?x64x%s>, %%k: tensor<?x?x?x64x%s>,
                       %%v: tensor<?x?x?x64x%s>) -> tensor<?x?x?x64x%s> {
    %%o = attn.attention queries(%%q : tensor<?x?x?x64x%s>)
        keys(%%k : tensor<?x?x?x64x%s>) values(%%v : tensor<?x?x?x64x%s>)
        {attn.rung = #attn.rung<%s>} -> tensor<?x?x?x64x%s>
    return %%o : tensor<?x?x?x64x%s>
  }
}
"""
# What functions call their arguments, and types that fill lines.
NAMES = ("q", "k", "v")
TYPES = (
    ("tensor<?x?x?x64xf32>", "!rows"),
    ("tensor<?x?x?x?xf32>", "!pairs"),
    ("tensor<?x?x?xf32>", "!numbers"),
)


def run(attn_opt, rung, target, *passes):
    element = "f32" if target.startswith("cpu") else "bf16"
    text = PROGRAM % ((target,) + (element,) * 7 + (rung, element, element))
    done = subprocess.run(
        [attn_opt, "-", *passes],
        input=text,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        raise SystemExit("ladder.py: %s: %s" % (rung, done.stderr))
    return done.stdout


def print_operations(attn_opt, rung):
    text = run(
        attn_opt,
        rung,
        "cpu-avx2",
        "--attn-pipeline=until-after=aggregate",
        "--attn-apply-rung",
    )
    monoids = []
    for header in re.findall(r"attn\.monoid private @\w+_(?:statistics|sums).*", text):
        monoids.append(header.rstrip(" {"))
    body = re.search(r"func\.func.*?\{\n(.*?)\n +return", text, re.DOTALL).group(1)
    for i, name in enumerate(NAMES):
        body = re.sub(r"%%arg%d\b" % i, "%" + name, body)
    for long, short in TYPES:
        body = body.replace(long, short)
    lines = body.splitlines()
    indent = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
    lines = [line[indent:] for line in lines]
    return "\n".join(monoids + lines) + "\n"


def print_schedules(attn_opt, rung, target):
    text = run(
        attn_opt, rung, target, "--attn-pipeline=until-after=schedule target=" + target
    )
    return "\n".join(re.findall(r"#attn\.schedule<[^>]*>", text)) + "\n"


def main():
    attn_opt, check = sys.argv[1], "--check" in sys.argv[2:]
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()

    def fill(match):
        rung, target = match.group("rung"), match.group("target")
        if target:
            body = print_schedules(attn_opt, rung, target)
        else:
            body = print_operations(attn_opt, rung)
        return match.group(1) + body + match.group("end")

    new = MARKER.sub(fill, page)
    if new == page:
        return
    if check:
        difference = difflib.unified_diff(
            page.splitlines(), new.splitlines(), "docs/Ladder.md", "printed",
            lineterm=""
        )
        print("\n".join(difference))
        raise SystemExit("docs/Ladder.md is stale; tools/dev docs writes it anew")
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(new)


main()
