"""Pictures of the masks of docs/Masks.md: counts are those of the elements, and the
page has them.

    mask-picture.py SOURCE_DIR ATTN_RUN WORK_DIR
"""

import os
import re
import subprocess
import sys

import numpy as np

source, attn_run, work = sys.argv[1:]
sys.path.insert(0, os.path.join(source, "test", "python", "Inputs"))
import recipes

TILE = 128
SCHEDULE = (
    "#attn.schedule<block_q = 128, rows = 32, block_k = 128, splits = 1, loop = peeled>"
)
COUNTS = re.compile(
    r"mask of batch 0, head 0 and 1 like it: (\d+) x (\d+) tiles of 128 x 128, "
    r"([\d.]+) % live: ([\d.]+) % full, ([\d.]+) % partial; ([\d.]+) % dead, "
    r"([\d.]+) % as only elements tell"
)
os.makedirs(work, exist_ok=True)
rng = np.random.default_rng(0)
with open(recipes.PAGE, encoding="utf-8") as file:
    page = file.read()
stale = []
for name, (kind, text) in recipes.read().items():
    if kind != "mask":
        continue
    n = 512 if name == "neighbourhood-3d" else 1024
    given = recipes.taken(name, text, recipes.captures(rng, n))
    with open(os.path.join(work, name + ".mlir"), "w", encoding="utf-8") as file:
        file.write(text)
    command = [attn_run, "--attention", "b=1,hq=2,sq=%d,d=16" % n, "--schedule",
               SCHEDULE]
    command += ["--mask-mod", os.path.join(work, name + ".mlir")]
    command += ["--mask-picture", os.path.join(work, name + ".svg")]
    for capture, value in given.items():
        if np.ndim(value):
            path = os.path.join(work, "%s.%s.npy" % (name, capture))
            np.save(path, value)
            value = path
        command += ["--input", "%s=%s" % (capture, value)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)
    assert done.returncode == 0, done.stdout
    found = COUNTS.search(done.stdout)
    assert found, done.stdout
    alive = recipes.live(name, n, given)[0]
    tiles = alive.reshape(n // TILE, TILE, n // TILE, TILE)
    some, every = tiles.any((1, 3)), tiles.all((1, 3))
    live, full, partial, dead, read = (float(x) for x in found.groups()[2:])
    for got, want in ((live, some), (full, every), (partial, some & ~every),
                      (dead, ~some)):
        assert abs(got - 100 * want.mean()) < 0.06, (name, found.group(0))
    characters = [line[2:] for line in done.stdout.splitlines()
                  if re.fullmatch(r"  [.+#]+", line)]
    assert characters == [
        "".join("#" if e else "+" if s else "." for s, e in zip(*rows))
        for rows in zip(some, every)
    ], done.stdout
    with open(os.path.join(work, name + ".svg"), encoding="utf-8") as file:
        svg = file.read()
    assert svg.startswith("<svg") and svg.endswith("</svg>\n")
    line = "| `%s` | %.1f %% | %.1f %% | %.1f %% |" % (name, live, full, read)
    if line not in page:
        stale.append(line)
assert not stale, "docs/Masks.md is to say\n" + "\n".join(stale)
