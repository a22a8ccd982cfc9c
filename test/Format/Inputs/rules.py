"""Holds the anchors of lib/Analysis/ScheduleRules.def against the documentation, and
other files free of the numbers that are its.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import re
import sys

root = sys.argv[1]


def read(path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


rules = read("lib/Analysis/ScheduleRules.def")
rules = rules[rules.index("// Limits") :]
kinds = "SCHEDULE_LIMIT|SCHEDULE_TERM|SCHEDULE_TURNS|SIZE_CLASS"
rows = len(re.findall(r"^(?:%s)\(" % kinds, rules, re.M))
anchors = re.findall(r'"(docs/[^"#]*)#([^"]*)"\)', rules)
assert rows > 20 and len(anchors) == rows, (rows, len(anchors))
for page, heading in anchors:
    headings = re.findall(r"^#+ (.*)$", read(page), re.M)
    assert heading in headings, "%s has no heading %r" % (page, heading)

# Clients choose nothing.
numbers = set(re.findall(r"SCHEDULE_LIMIT\(\w+, (\d{4,})", rules))
assert {"8192", "4096"} <= numbers, numbers
clients = ["python/attn/%s.py" % name for name in ("_attention", "_call", "_plans")]
for path in ["include/attn-c/attn.h"] + clients:
    text = read(path)
    found = [n for n in numbers - {"1024"}
             if re.search(r"\b%s keys|= %s\b" % (n, n), text)]
    assert not found, (path, found)
