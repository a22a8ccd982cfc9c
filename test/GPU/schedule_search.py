#!/usr/bin/env python3
"""How far the chosen schedules are from the best of a search: shapes x variants.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

    test/GPU/schedule_search.py [NAME...] [--others] [--target NAME]
        [--limit SECONDS] [--rounds N] [--workers N] [--json FILE] [--list]
        [--compile-only]

Each problem is a call of attn.attention. Its own schedule and some others near it
are compiled by worker processes, checked (the chosen one against float64 on one
head, the others against the chosen one), and timed in one process: in each round
every schedule has a window of a few milliseconds, in an order of its own, and the
median of the rounds is what counts; what is slow at first is left out then. A
problem is within the bar if the chosen schedule takes at most 3 % longer than the
fastest. NAME: problems that contain it. Needs torch.
"""

import argparse
import json
import math
import multiprocessing
import os
import random
import re
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in ("python", "../python"):
    path = os.path.join(HERE, "..", folder)
    if os.path.isdir(os.path.join(path, "attn")):
        sys.path.insert(0, os.path.abspath(path))

BAR = 1.03
WINDOW_MS = 4.0
LOOKS, SLOW = 3, 1.1
CAUSAL = {"causal": "bottom_right"}
KINDS = {
    "full": {},
    "causal": CAUSAL,
    "window": dict(CAUSAL, window=(1023, 0)),
    "softcap": {"softcap": 30.0},
    "alibi": {"alibi_slopes": ("h",)},
    "bias": {"bias": (1, "h", "q", "k")},
    "mask": {"mask": (1, 1, "q", "k")},
    "scale": {"scale": -0.11},
    "tf32": {"precision": "tf32"},
    "f32": {},
    "f16": {},
}


class Problem:
    """Sizes b, query and key heads, rows, keys, and channels, of one kind."""

    def __init__(self, kind, b, heads, rows, keys, d, dv=None):
        self.kind, self.b, self.rows, self.keys = kind, b, rows, keys
        self.heads, self.key_heads = heads if isinstance(heads, tuple) else (heads,) * 2
        self.d, self.dv = d, dv or d
        self.name = "%s-%dx%s-%dx%d-d%s" % (
            kind, b, "%d" % self.heads if self.heads == self.key_heads
            else "%d:%d" % (self.heads, self.key_heads), rows, keys,
            "%d" % d if self.dv == d else "%d:%d" % (d, self.dv))

    def shapes(self):
        b = self.b
        return ((b, self.heads, self.rows, self.d),
                (b, self.key_heads, self.keys, self.d),
                (b, self.key_heads, self.keys, self.dv))

    def bytes(self):
        return (4 if self.kind in ("tf32", "f32") else 2) * sum(
            map(math.prod, self.shapes()))

    def operands(self, device):
        """q, k, v and options; on a CPU without contents, for the compiler."""
        import torch

        dtype = {"tf32": torch.float32, "f32": torch.float32,
                 "f16": torch.float16}.get(self.kind, torch.bfloat16)
        sizes = {"h": self.heads, "q": self.rows, "k": self.keys}

        def make(shape, name):
            shape = tuple(sizes.get(x, x) for x in shape)
            if name == "mask":
                if device == "cpu":
                    return torch.empty(shape, dtype=torch.bool)
                i = torch.arange(self.rows, device=device)[:, None] // 512
                j = torch.arange(self.keys, device=device)[None, :] // 512
                return ((i - j) % 4 <= 1).expand(shape).contiguous()
            if device == "cpu":
                return torch.empty(shape, dtype=dtype if name == "t" else None)
            drawn = torch.randn(shape, device=device)
            return drawn.to(dtype) if name == "t" else drawn.abs_()

        tensors = [make(shape, "t") for shape in self.shapes()]
        options = {name: make(value, name)
                   if isinstance(value, tuple) and name != "window" else value
                   for name, value in KINDS[self.kind].items()}
        return tensors, options


def problems():
    """The sixty."""
    for kind in ("full", "causal"):
        for b, heads, s, d in (
            (1, 16, 8192, 64), (4, 16, 4096, 64), (16, 16, 1024, 64),
            (64, 32, 256, 64), (1, 16, 8192, 128), (4, 16, 4096, 128),
            (16, 16, 1024, 128), (32, 16, 512, 128), (1, 8, 8192, 256),
            (4, 8, 4096, 256), (16, 8, 1024, 256), (1, 4, 2048, 128)):
            yield Problem(kind, b, heads, s, s, d)
    for kind in ("window", "softcap", "alibi", "bias", "mask", "scale"):
        yield Problem(kind, 2, 16, 4096, 4096, 128)
        yield Problem(kind, 2, 16, 4096, 4096, 64)
    for kind in ("full", "causal"):
        yield Problem(kind, 2, 16, 3001, 3001, 96)
        yield Problem(kind, 2, (32, 8), 2048, 2048, 128)
        yield Problem(kind, 2, 16, 4096, 4096, 192, 128)
    yield Problem("full", 8, 16, 4096, 77, 64)
    yield Problem("full", 8, 16, 2200, 2200, 80)
    yield Problem("causal", 4, (32, 8), 256, 4096, 128)
    yield Problem("f16", 2, 16, 4096, 4096, 128)
    for b, heads, keys, d in (
        (1, (32, 8), 8192, 128), (1, (32, 8), 65536, 128), (8, (32, 8), 4096, 128),
        (64, (32, 8), 2048, 128), (4, 16, 8192, 64), (1, 8, 4096, 256),
        (128, (32, 8), 512, 128), (16, 32, 1024, 64)):
        yield Problem("full", b, heads, 1, keys, d)
    for s, d in ((2048, 64), (2048, 128), (2048, 96), (4096, 64)):
        yield Problem("tf32", 2, 16, s, s, d)
    yield Problem("f32", 2, 8, 1024, 1024, 64)
    yield Problem("f32", 2, 8, 1024, 1024, 128)


def others():
    """Twenty more, whose times no term of the model was fitted to."""
    for kind in ("full", "causal"):
        yield Problem(kind, 3, 12, 5000, 5000, 64)
        yield Problem(kind, 6, 12, 1500, 1500, 128)
        yield Problem(kind, 2, 8, 3000, 3000, 256)
        yield Problem(kind, 128, 16, 128, 128, 64)
        yield Problem(kind, 16, 16, 512, 512, 64)
    yield Problem("full", 1, 2, 1024, 1024, 128)
    yield Problem("full", 2, (24, 4), 3000, 3000, 112)
    yield Problem("full", 4, 16, 4096, 40, 128)
    yield Problem("causal", 4, 16, 2048, 2048, 32)
    yield Problem("causal", 4, 12, 2048, 2048, 160)
    yield Problem("softcap", 8, 16, 1500, 1500, 64)
    yield Problem("bias", 2, 12, 1500, 1500, 128)
    yield Problem("alibi", 8, 16, 1024, 1024, 64)
    yield Problem("window", 2, (32, 8), 8192, 8192, 128)
    yield Problem("tf32", 4, 8, 1500, 1500, 64)


# ---------------------------------------------------------------------------
# Schedules
# ---------------------------------------------------------------------------

SCHEDULE = re.compile(r"#attn\.schedule<([^<>]*)>")


def parse(text):
    return dict(item.strip().split(" = ") for item in text.split(","))


def print_schedule(schedule):
    first = ["block_q", "rows", "block_k"]
    names = first + [name for name in schedule if name not in first]
    return "#attn.schedule<%s>" % ", ".join(
        "%s = %s" % (name, schedule[name]) for name in names)


def brief(schedule):
    words = ["%(block_q)s/%(rows)s x %(block_k)s" % schedule]
    plain = {"splits": "1", "turns": "none", "cluster": "1", "stages": "0",
             "overlap": "next_step", "pack_heads": "false", "fetch": "automatic",
             "occupancy": "1", "order": "in_order"}
    words += ["%s=%s" % (name, schedule[name]) for name in plain
              if schedule.get(name, plain[name]) != plain[name]]
    return " ".join(words + (["loop=" + schedule["loop"]]
                             if schedule.get("loop", "peeled") != "peeled" else []))


def search_space(problem, chosen):
    """The chosen schedule, and others: tiles of all sizes that may pay, and of the
    chosen tile each other decision."""
    tiles, widest = [], max(problem.d, problem.dv)
    if chosen["rows"] == "64" and problem.rows <= 64:
        tiles = [(64, 64, keys) for keys in (32, 48, 64, 96, 128)]
    elif chosen["rows"] == "64":
        if widest <= 64:
            tiles = [(192, 64, n) for n in (64, 80, 96, 112, 128)]
            tiles += [(128, 64, n) for n in (96, 128, 144, 160, 176, 192)]
            tiles += [(64, 64, n) for n in (128, 160)] + [(256, 64, 64)]
        elif widest <= 128:
            tiles = [(128, 64, n) for n in (80, 96, 112, 128, 144, 160, 176, 192)]
            tiles += [(64, 64, n) for n in (96, 128, 160)] + [(192, 64, 80)]
        else:
            tiles = [(128, 64, n) for n in (48, 64, 80, 96)]
            tiles += [(64, 64, n) for n in (64, 80, 128)]
        if problem.keys < 128:
            tiles += [(tiles[0][0], 64, -(-problem.keys // 16) * 16)]
    else:
        tiles = [(rows * warps, rows, n) for rows in (16, 32) for warps in (4, 8)
                 for n in (32, 48, 64)]
        if problem.rows <= 16:
            tiles = [(16 * warps, 16, n) for warps in (1, 2, 4) for n in (32, 64, 128)]
    found = [chosen]

    def add(**changes):
        other = dict(chosen, **{name: str(x) for name, x in changes.items()})
        if brief(other) not in map(brief, found):
            found.append(other)

    for block_q, rows, block_k in tiles:
        add(block_q=block_q, rows=rows, block_k=block_k)
        if chosen.get("cluster", "1") != "1":
            add(block_q=block_q, rows=rows, block_k=block_k, cluster=1)
    if chosen["rows"] == "64":
        if chosen["block_q"] != "64":
            add(turns="products")
            add(turns="none")
        add(stages=2)
        add(fetch="producer")
        if problem.kind in ("causal", "window"):
            add(order="in_order")
            add(fetch="late")
        elif problem.rows > 256:
            add(cluster=2)
            if 64 < widest <= 128:
                add(cluster=2, block_k=192)
    else:
        add(stages=2)
        add(occupancy=2)
    if problem.rows == 1:
        for splits in (1, 2, 4, 8, 16, "automatic"):
            add(splits=splits)
        if problem.heads != problem.key_heads:
            flips = {"true": "false", "false": "true"}
            add(pack_heads=flips[chosen.get("pack_heads", "false")])
    return found


def choose(problem, target):
    """The IR of a call with its schedule, and all schedules of the search."""
    import attn

    tensors, options = problem.operands("cpu")
    kernel = attn.compile(*tensors, target=target, until_after="schedule", **options)
    text = kernel.mlir("schedule")
    chosen = SCHEDULE.search(text)
    if problem.rows == 1:
        # Parts of the keys are made of the schedule, ahead of its phase's end.
        text = re.sub(r"(attn\.aggregate .*?values\([^)]*\))",
                      lambda found: "%s {schedule = %s}" % (found[1], chosen[0]),
                      kernel.mlir("aggregate"), count=1)
    return text, search_space(problem, parse(chosen[1]))


def with_schedule(text, schedule):
    return SCHEDULE.sub(lambda _: print_schedule(schedule), text, count=1)


def compile_one(text):
    """In a worker: the kernel goes to the cache on disk. Why not, or what the
    assembler said."""
    import attn

    try:
        explained = attn.compile(text).explain()
    except (ValueError, NotImplementedError, RuntimeError) as error:
        return str(error).split("\n")[0], 0
    spills = sum(map(int, re.findall(r"(\d+) bytes spill stores", explained)))
    return "", spills


# ---------------------------------------------------------------------------
# On the device
# ---------------------------------------------------------------------------

def exact_head(problem, tensors, options):
    """The last rows of the last head of the last batch, in float64."""
    import torch

    q, k, v = tensors
    head = problem.heads - 1
    of = head * problem.key_heads // problem.heads
    first = max(problem.rows - 512, 0)
    x, y, z = q[-1, head, first:].double(), k[-1, of].double(), v[-1, of].double()
    s = x @ y.T * options.get("scale", problem.d ** -0.5)
    i = torch.arange(first, problem.rows, device=s.device)[:, None]
    i = i + problem.keys - problem.rows
    j = torch.arange(problem.keys, device=s.device)[None, :]
    if "softcap" in options:
        s = options["softcap"] * torch.tanh(s / options["softcap"])
    if "alibi_slopes" in options:
        s = s - options["alibi_slopes"][head].double() * (i - j).abs()
    if "bias" in options:
        s = s + options["bias"][0, head, first:].double()
    if "causal" in options:
        s = s.masked_fill(j > i, -math.inf)
    if "window" in options:
        s = s.masked_fill(i - j > options["window"][0], -math.inf)
    if "mask" in options:
        s = s.masked_fill(~options["mask"][0, 0, first:], -math.inf)
    return torch.nan_to_num(torch.softmax(s, -1)) @ z


def agrees(got, want, bound):
    largest = want.abs().max().item()
    error = (got.double() - want.double()).abs().max().item()
    return error <= bound * largest, error / largest


class Runner:
    """The tensors of a problem, and one graph for each schedule."""

    def __init__(self, problem):
        import torch

        self.problem = problem
        # What is read once comes from memory, as the cache of a decoder does.
        count = 1
        if problem.rows == 1:
            count = min(max(-(-150_000_000 // problem.bytes()), 1), 16)
        self.sets = [problem.operands("cuda") for _ in range(count)]
        q, v = self.sets[0][0][0], self.sets[0][0][2]
        self.outputs = [torch.empty((*q.shape[:3], v.shape[3]), dtype=q.dtype,
                                    device="cuda") for _ in self.sets]
        self.first = None

    def call(self, kernel, index):
        (q, k, v), options = self.sets[index]
        window = options.get("window", (-1, -1))
        named = dict(options, q=q, k=k, v=v, window_left=window[0],
                     window_right=window[1])
        values = [named[arg.name] for arg in kernel.inputs]
        kernel(*values, out=(self.outputs[index],))

    def check(self, kernel):
        """Whether results are right, and the error."""
        self.outputs[0].fill_(math.nan)
        self.call(kernel, 0)
        got = self.outputs[0]
        if self.first is None:
            want = exact_head(self.problem, *self.sets[0])
            bound = 2e-2 if got.element_size() == 2 else 4e-3
            good, error = agrees(got[-1, -1, -want.shape[0]:], want, bound)
            self.first = got.clone()
            return good, error
        return agrees(got, self.first, 2e-2)

    def graph(self, kernel):
        """A graph that takes about a window, and how many calls it has."""
        import torch

        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            self.call(kernel, 0)
            start.record(stream)
            self.call(kernel, 0)
            end.record(stream)
            end.synchronize()
            calls = max(1, min(200, int(WINDOW_MS / start.elapsed_time(end))))
            calls = -(-calls // len(self.sets)) * len(self.sets)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream):
                for n in range(calls):
                    self.call(kernel, n % len(self.sets))
        stream.synchronize()
        return graph, calls


def time_all(graphs, rounds):
    """Milliseconds of a call of each graph: medians over rounds. Those that three
    rounds show to be slow, but for the first, are not in the others."""
    import torch

    times = [[] for _ in graphs]
    order = list(range(len(graphs)))
    for done in range(rounds):
        if done == LOOKS:
            best = min(statistics.median(t[1:]) for t in times)
            order = [n for n in order if n == 0
                     or statistics.median(times[n][1:]) <= SLOW * best]
        random.shuffle(order)
        points = [torch.cuda.Event(enable_timing=True) for _ in range(len(order) + 1)]
        points[0].record()
        for at, n in enumerate(order):
            graphs[n][0].replay()
            points[at + 1].record()
        torch.cuda.synchronize()
        for at, n in enumerate(order):
            times[n].append(points[at].elapsed_time(points[at + 1]) / graphs[n][1])
    return [statistics.median(t[1:] if len(t) > 2 else t) for t in times]


def measure(problem, text, schedules, compiled, rounds):
    """A row of the table: each schedule with its time, the chosen one first."""
    import attn

    runner, rows, graphs = Runner(problem), [], []
    for schedule, (refused, spills) in zip(schedules, compiled):
        row = {"schedule": schedule, "spills": spills, "refused": refused, "ms": None}
        rows.append(row)
        if refused:
            continue
        try:
            kernel = attn.compile(with_schedule(text, schedule))
            good, row["error"] = runner.check(kernel)
            if not good:
                row["refused"] = "WRONG: error %.2e" % row["error"]
                continue
            graphs.append((row, kernel, *runner.graph(kernel)))
        except (ValueError, NotImplementedError, RuntimeError) as error:
            row["refused"] = str(error).split("\n")[0]
    for (row, *_), ms in zip(graphs, time_all([g[2:] for g in graphs], rounds)):
        row["ms"] = ms
    return rows


def report(problem, rows):
    """Prints a line. Returns whether numbers are right, and the chosen schedule's
    time by the best one's."""
    timed = [row for row in rows if row["ms"]]
    wrong = [row for row in rows if "WRONG" in row["refused"]]
    for row in wrong:
        print("%s: %s: %s" % (problem.name, brief(row["schedule"]), row["refused"]))
    if not rows[0]["ms"]:
        print("%s: the chosen schedule: %s" % (problem.name, rows[0]["refused"]))
        return False, math.inf
    best = min(timed, key=lambda row: row["ms"])
    ratio = rows[0]["ms"] / best["ms"]
    print("%.3f %-28s %9.4f ms %s%s; %d of %d" % (
        ratio, problem.name, rows[0]["ms"], brief(rows[0]["schedule"]),
        "" if best is rows[0] else
        "; best %.4f by %s" % (best["ms"], brief(best["schedule"])),
        len(timed), len(rows)), flush=True)
    return not wrong, ratio


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--limit", type=float, default=1e9, help="seconds")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--json")
    parser.add_argument("--others", action="store_true",
                        help="and twenty more, for which nothing was fitted")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--compile-only", action="store_true")
    options = parser.parse_args()
    began = time.monotonic()
    import torch

    torch.manual_seed(0)
    known = [*problems(), *(others() if options.others else ())]
    wanted = [p for p in known
              if not options.names or any(n in p.name for n in options.names)]
    # Processes that have not seen the device yet.
    with multiprocessing.get_context("fork").Pool(options.workers) as pool:
        chosen = pool.starmap(choose, [(p, options.target) for p in wanted], 1)
        if options.list:
            for problem, (_, schedules) in zip(wanted, chosen):
                print("%-30s %s; %d schedules" % (problem.name, brief(schedules[0]),
                                                  len(schedules)))
            return 0
        waiting = [[pool.apply_async(compile_one, (with_schedule(text, s),))
                    for s in schedules] for text, schedules in chosen]
        results, ratios, right = [], [], True
        for problem, (text, schedules), jobs in zip(wanted, chosen, waiting):
            compiled = [job.get() for job in jobs]
            if options.compile_only:
                print(problem.name)
                for schedule, (refused, spills) in zip(schedules, compiled):
                    print("   %s: %s" % (brief(schedule), refused or
                                         "%d bytes spilled" % spills), flush=True)
                continue
            if time.monotonic() - began > options.limit:
                print("out of time")
                break
            try:
                rows = measure(problem, text, schedules, compiled, options.rounds)
            except (ValueError, NotImplementedError, RuntimeError) as error:
                print("%s: %s" % (problem.name, str(error).split("\n")[0]))
                right = False
                continue
            good, ratio = report(problem, rows)
            right &= good
            ratios.append(ratio)
            results.append({"problem": vars(problem), "rows": rows})
            torch.cuda.empty_cache()
            if options.json:
                with open(options.json, "w") as file:
                    json.dump(results, file)
        pool.terminate()
    count = sum(1 for _ in problems()) if not options.names else len(ratios)
    for what, some in (("", ratios[:count]), (" others", ratios[count:])):
        if some:
            print("%d of %d%s within %.0f %%; geometric mean %.3f" % (
                sum(ratio <= BAR for ratio in some), len(some), what,
                (BAR - 1) * 100, statistics.geometric_mean(min(r, 1e3) for r in some)))
    print("%.0f s%s" % (time.monotonic() - began, "" if right else "; WRONG NUMBERS"))
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
