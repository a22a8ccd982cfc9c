"""Checks that relative links of the pages lead somewhere.

    links.py SOURCE

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import glob
import os
import re
import sys

os.chdir(sys.argv[1])
broken = []


def anchors(path):
    """The fragments that GitHub gives the headings of a page."""
    with open(path) as file:
        titles = re.findall(r"^#+ (.*)$", file.read(), re.M)
    return {re.sub(r"[^\w\- ]", "", t).lower().replace(" ", "-") for t in titles}


for page in ["README.md"] + glob.glob("docs/*.md") + glob.glob("docs/performance/*.md"):
    with open(page) as file:
        text = re.sub(r"^```.*?^```$", "", file.read(), flags=re.S | re.M)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"\w+:", link):
            continue
        target, _, anchor = link.partition("#")
        path = os.path.join(os.path.dirname(page), target) if target else page
        if not os.path.exists(path) or (anchor and anchor not in anchors(path)):
            broken.append("%s: %s" % (page, link))
if broken:
    sys.exit("expected links to files and headings, but got\n" + "\n".join(broken))
