"""A step of a scan on a GPU: how long, and beside a copy of as many bytes.

usage: scan-steps.py [--batches 1,128] [--heads 16] [--depth 128]
                     [--rules "gated delta,sums,kda"] [--states f32,bf16]
                     [--layouts kv,vk] [--bar]

Each row is one call of attn.scan_step inside a CUDA graph whose calls go round
states that fill more than 400 MB, so that none is in the cache when it is read:
the median of nine replays by the number of calls. `copy` is what torch takes to
copy one half of the bytes of the states onto the other, which reads and writes as
much as a step does of its states; `of all` counts the bytes of tokens, gates and
the rest of a state as well. Before that a step is compared with the recurrence in
float64.
With --bar the script fails where a step of 128 sequences has less than 88 % of the
copy's rate with f32 states, or 85 % with bf16 ones, or one sequence takes more than
4.3 us, in the better one of the layouts of states. Needs PyTorch.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import argparse
import os
import statistics
import sys

import torch

import attn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "../python/Inputs"))
from scan_reference import recurrence

RULES = {
    "sums": (),
    "decay": ("head",),
    "gated delta": ("head", "beta"),
    "gla": ("key",),
    "kda": ("key", "beta"),
    "rwkv7": ("key", "erase"),
    "mlstm": ("head", "log_weight", "normalize"),
}
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
# The share of the copy's rate, and the most microseconds.
BARS = {("f32", 128): 0.88, ("bf16", 128): 0.85}
MOST = {1: 4.3}


def make(rule, b, h, d, kind):
    """Operands of a step of b sequences."""
    normal = lambda *shape: torch.randn(shape, device="cuda")
    words, rows = RULES[rule], {}
    q, k, v = (normal(b, h, d).bfloat16() for _ in range(3))
    k = torch.nn.functional.normalize(k.float(), dim=-1).bfloat16()
    if "normalize" in words:
        q, k = q.abs(), k.abs()
    if "head" in words or "key" in words:
        rows["decay"] = -normal(b, h, *((d,) if "key" in words else ())).abs() / 10
    if "beta" in words:
        rows["beta"] = normal(b, h).sigmoid()
    if "log_weight" in words:
        rows["log_weight"] = normal(b, h)
    if "erase" in words:
        rows["erase"] = (0.1 * normal(b, h, d), 0.1 * normal(b, h, d), "before")
    state = {"S": normal(b, h, d, d).to(TYPES[kind])}
    if "normalize" in words:
        state["z"] = normal(b, h, d).abs() + 1
    if "log_weight" in words:
        state["m"] = normal(b, h)
    return q, k, v, rows, state


def check(rule, b, h, d, kind, layout):
    q, k, v, rows, state = make(rule, b, h, d, kind)
    turned = (lambda x: x.swapaxes(-1, -2)) if layout == "vk" else lambda x: x
    wide = lambda x: x[:, :, None].double().cpu().numpy()
    given = {n: wide(x) for n, x in rows.items() if n != "erase"}
    if "erase" in rows:
        given["erase"] = tuple(map(wide, rows["erase"][:2])) + ("before",)
    start = {n: x.double().cpu().numpy() for n, x in state.items()}
    start["S"] = turned(start["S"])
    want, last = recurrence(*map(wide, (q, k, v)), state=start, normalize="z" in state,
                            **given)
    last["S"] = turned(last["S"])
    got = attn.scan_step(q, k, v, state, state_layout=layout, **rows)
    again = {n: x.double().cpu().numpy() for n, x in state.items()}
    for name, x, y, bound in [("o", got[:, :, None], want, 1e-2)] + [
        (n, state[n], last[n], 1e-2 if n == "S" and kind != "f32" else 3e-5)
        for n in again
    ]:
        x = x.double().cpu().numpy()
        error = abs(x - y).max() / abs(y).max()
        if not error <= bound:
            sys.exit("%s, %s, %s, b = %d: %s is off by %.2g of the largest entry"
                     % (rule, kind, layout, b, name, error))


def count_bytes(rule, b, h, d, kind):
    """What a step has to read and write."""
    q, k, v, rows, state = make(rule, 1, 1, d, kind)
    erase = [x for x in rows.pop("erase", ()) if isinstance(x, torch.Tensor)]
    once = [q, k, v, v, *rows.values(), *erase]
    size = lambda xs: sum(x.numel() * x.element_size() for x in xs)
    return b * h * (size(once) + 2 * size(state.values()))


def time_graph(calls):
    """Seconds of a call, median over replays of a graph of all."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for call in calls:
            call()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for call in calls:
                call()
        times = []
        for _ in range(11):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record(stream)
            graph.replay()
            end.record(stream)
            end.synchronize()
            times.append(start.elapsed_time(end) / len(calls) * 1e-3)
    return statistics.median(times[2:])


def time_steps(rule, b, h, d, kind, layout, pool):
    """Seconds of a step, each with states of its own."""
    q, k, v, rows, state = make(rule, b, h, d, kind)
    out = torch.empty_like(v)

    def step(i):
        state["S"] = pool[i]
        attn.scan_step(q, k, v, state, state_layout=layout, out=out, **rows)

    return time_graph([lambda i=i: step(i) for i in range(len(pool))])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", default="1,128")
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--depth", type=int, default=128)
    parser.add_argument("--rules", default=",".join(RULES))
    parser.add_argument("--states", default="f32,bf16")
    parser.add_argument("--layouts", default="kv,vk")
    parser.add_argument("--bar", action="store_true")
    options = parser.parse_args()
    h, d, failed = options.heads, options.depth, False
    print(
        f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {h} heads, {d} x "
        f"{d}"
    )
    print("| rule | states | layout | b | us | GB/s | copy us | copy GB/s | share "
          "| of all |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for kind in options.states.split(","):
        for b in map(int, options.batches.split(",")):
            size = b * h * d * d * (4 if kind == "f32" else 2)
            count = max(12, -(-400_000_000 // size))
            pool = torch.empty(2, count, b, h, d, d, dtype=TYPES[kind],
                               device="cuda").zero_()
            # Half of the bytes read and half written, as those of a state.
            copy = time_graph([lambda i=i: pool[1, i].copy_(pool[0, i])
                               for i in range(count)])
            for rule in options.rules.split(","):
                best = float("inf")
                everything = count_bytes(rule, b, h, d, kind)
                for layout in options.layouts.split(","):
                    check(rule, min(b, 8), h, d, kind, layout)
                    seconds = time_steps(rule, b, h, d, kind, layout, pool[0])
                    best = min(best, seconds)
                    print(
                        f"| {rule} | {kind} | {layout} | {b} | {seconds * 1e6:.2f} | "
                        f"{2 * size / seconds * 1e-9:.0f} | {copy * 1e6:.2f} | "
                        f"{2 * size / copy * 1e-9:.0f} | {copy / seconds:.2f} | "
                        f"{everything / 2 / size * copy / seconds:.2f} |",
                        flush=True,
                    )
                if (copy / best < BARS.get((kind, b), 0)
                        or best * 1e6 > MOST.get(b, 1e9)):
                    failed = True
                    print(f"below the bar: {rule}, {kind}, b = {b}", file=sys.stderr)
    return options.bar and failed


if __name__ == "__main__":
    sys.exit(main())
