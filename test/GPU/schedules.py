"""How far the chosen schedules are from the best that a search finds.

usage: schedules.py --attn-run PATH [--problems N[:FIRST]] [--seconds S]

Each problem is one run of `attn-run --autotune`: some tens of schedules, timed
on the GPU, and the chosen one beside the best of them, in the same process. A
row is within the bar if the chosen one takes at most 3 % longer.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time

SHAPES = [
    # b, hq, hk, s, d
    (1, 16, 16, 8192, 64), (1, 16, 16, 8192, 128), (1, 8, 8, 8192, 256),
    (4, 16, 16, 2048, 64), (4, 16, 16, 2048, 128), (4, 8, 8, 2048, 256),
    (16, 16, 16, 512, 64), (16, 16, 16, 512, 128), (2, 32, 8, 4096, 128),
    (2, 16, 16, 3001, 96), (1, 4, 4, 4096, 128), (1, 4, 4, 4096, 64),
]
VARIANTS = ["", "causal=bottom_right", "window=1024:0,causal=bottom_right",
            "softcap=30"]
DECODE = [(1, 32, 8, 8192, 128), (1, 32, 8, 65536, 128), (8, 32, 8, 4096, 128),
          (32, 32, 8, 2048, 128), (4, 16, 16, 8192, 64), (1, 8, 8, 4096, 256)]
OTHER = ["dtype=f16,b=2,hq=16,hk=16,sq=4096,sk=4096,d=128",
         "dtype=f32,precision=tf32,b=2,hq=16,hk=16,sq=2048,sk=2048,d=64",
         "dtype=f32,precision=tf32,b=2,hq=16,hk=16,sq=2048,sk=2048,d=128",
         "dtype=bf16,b=2,hq=16,hk=16,sq=4096,sk=4096,d=128,alibi=h",
         "dtype=bf16,b=2,hq=16,hk=16,sq=4096,sk=4096,d=192,dv=128,causal=bottom_right",
         "dtype=bf16,b=2,hq=16,hk=16,sq=4096,sk=4096,d=128,bias=11qk"]


def problems():
    for variant in VARIANTS:
        for b, hq, hk, s, d in SHAPES:
            spec = f"dtype=bf16,b={b},hq={hq},hk={hk},sq={s},sk={s},d={d}"
            yield spec + ("," + variant if variant else "")
    for b, hq, hk, s, d in DECODE:
        yield f"dtype=bf16,b={b},hq={hq},hk={hk},sq=1,sk={s},d={d}"
    yield from OTHER


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--attn-run", default="attn-run")
    parser.add_argument("--problems", default="0:0", help="every N-th, from FIRST")
    parser.add_argument("--seconds", type=float, default=1e9)
    options = parser.parse_args()
    step, first = (int(x) for x in (options.problems + ":0").split(":")[:2])
    began = time.monotonic()
    within = total = 0
    for spec in list(problems())[first :: max(step, 1)]:
        if time.monotonic() - began > options.seconds:
            print("out of time")
            break
        with tempfile.TemporaryDirectory() as cache:
            run = subprocess.run(
                [options.attn_run, "--attention", spec, "--device", "cuda",
                 "--autotune",
                 "--explain"],
                capture_output=True, text=True, env={"ATTN_CACHE_DIR": cache},
                check=False)
        chosen = re.search(r"schedule [a-z ]*: (#attn.schedule<.*?>)",
                           run.stdout + run.stderr)
        best = re.search(r"best of \d+: (.*?): ([0-9.e-]+) ms", run.stdout)
        ratio = re.search(r"without it takes ([0-9.e-]+) ms, ([0-9.]+) of", run.stdout)
        if not best or not ratio:
            print(f"{spec}: failed: {(run.stderr or run.stdout).strip()[-300:]}",
                  flush=True)
            total += 1
            continue
        total += 1
        close = float(ratio[2]) <= 1.03
        within += close
        print(f"{float(ratio[2]):.3f} {spec}: {best[2]} ms by {best[1]}"
              + ("" if close else f"; chosen {chosen[1] if chosen else '?'}"),
              flush=True)
    print(f"{within} of {total} within 3 %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
