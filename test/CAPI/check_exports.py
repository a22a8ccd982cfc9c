"""Compares what libattn.so lets out with what include/attn-c declares.

usage: check_exports.py SYMBOLS HEADER...

SYMBOLS holds one defined dynamic symbol per line. Every declared function must
be among them, and nothing else.
"""

import re
import sys

with open(sys.argv[1]) as file:
    exported = set(file.read().split())
declared = set()
for header in sys.argv[2:]:
    with open(header) as file:
        text = re.sub(r"//[^\n]*|/\*.*?\*/", "", file.read(), flags=re.DOTALL)
    declared |= set(re.findall(r"ATTN_EXPORT\s[^;(]*?\b(attn\w+)\s*\(", text))
for name in sorted(exported - declared):
    print("exported, but not declared in include/attn-c: " + name)
for name in sorted(declared - exported):
    print("declared in include/attn-c, but not exported: " + name)
sys.exit(exported != declared)
