#!/usr/bin/env python3
"""Masks and scores on a GPU beside plain attention and PyTorch's FlexAttention.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

    test/GPU/masks.py [--families A,B] [--heads 2x16] [--size 8192] [--depth 128]
        [--no-flex] [--flex-seconds 130] [--no-times] [--device cuda] [--kernels]
        [--schedules "order = in_order;section = 32"]

A family is a recipe of docs/Masks.md, sized for so many tokens, or an option of
attn.attention. Rows of the very call that is timed are compared with float64 first.
A line then has, of tiles of 128 x 128, those with a live pair ("touched"), TFLOP/s of
live pairs and of touched tiles, their ratio to plain attention with as many tiles of
keys, and FlexAttention: compiled, with its block mask made before, in turns in the
same process, while the script is younger than so many seconds (each compilation takes
a few). Times are medians of a few calls from idle. --kernels adds what each kernel of a
call takes, --schedules the time with other decisions in the chosen schedule, and
whether the result is the same. Needs torch.
"""

import argparse
import math
import os
import re
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in ("python", "../python"):
    path = os.path.join(HERE, "..", folder)
    if os.path.isdir(os.path.join(path, "attn")):
        sys.path.insert(0, os.path.abspath(path))
sys.path.insert(0, os.path.join(HERE, "..", "python", "Inputs"))

BLOCK = 128
ROWS = 384  # compared with float64, of one head


class Family:
    """What is asked of attn, and the same for FlexAttention and for float64.

    live(b, h, i, j) and score(s, b, h, i, j) take tensors that broadcast; options are
    those of attn.attention; `blocks`: a number and a list for each block of queries.
    """

    def __init__(self, options, live=None, score=None, sinks=None, bar=0.95,
                 blocks=None):
        self.options, self.live, self.score = options, live, score
        self.sinks, self.bar, self.blocks = sinks, bar, blocks


class Maker:
    """Families for so many batches, heads and tokens."""

    def __init__(self, b, h, n, device):
        import recipes
        import torch

        self.torch, self.b, self.h, self.n, self.device = torch, b, h, n, device
        self.texts = {name: text for name, (_, text) in recipes.read().items()}
        self.generator = torch.Generator().manual_seed(0)

    def text(self, name, *edits):
        """A recipe with other sizes."""
        text = self.texts[name]
        for old, new in edits:
            assert old in text, (name, old)
            text = text.replace(old, new)
        return text

    def constant(self, name, value, old):
        return ("%%%s = arith.constant %d : i32" % (name, old),
                "%%%s = arith.constant %d : i32" % (name, value))

    def mask(self, name, live, *edits, **captures):
        options = {"mask_mod": self.text(name, *edits)}
        if captures:
            options["captures"] = captures
        return Family(options, live)

    def integers(self, low, high, shape):
        return self.torch.randint(low, high, shape, generator=self.generator)

    def put(self, x, dtype=None):
        return self.torch.as_tensor(x).to(self.device, dtype or self.torch.int32)

    # ---- Masks ---------------------------------------------------------------

    def plain(self):
        return Family({})

    def causal(self):
        return self.mask("causal", lambda b, h, i, j: j <= i)

    def causal_option(self):
        return Family({"causal": "bottom_right"}, lambda b, h, i, j: j <= i)

    def sliding_window(self):
        w = self.n // 8
        return self.mask("sliding-window",
                         lambda b, h, i, j: (j <= i) & (i - j <= w), width=w)

    def window_option(self):
        w = self.n // 8
        return Family({"causal": "bottom_right", "window": (w, 0)},
                      lambda b, h, i, j: (j <= i) & (i - j <= w))

    def both_sides(self):
        w = self.n // 16
        return Family({"window": (w, w)}, lambda b, h, i, j: (i - j).abs() <= w)

    def chunked_causal(self):
        c = self.n // 4
        return self.mask("chunked-causal",
                         lambda b, h, i, j: (j <= i) & (i // c == j // c),
                         self.constant("size", c, 256))

    def global_window(self):
        few, w = self.n // 64, self.n // 16
        return self.mask(
            "global-window",
            lambda b, h, i, j: (i < few) | (j < few) | ((i - j).abs() <= w),
            self.constant("few", few, 16), self.constant("width", w, 128))

    def dilated(self):
        w = self.n // 8 - 1
        return self.mask(
            "dilated",
            lambda b, h, i, j: (j <= i) & (i - j <= w) & ((i - j) % 4 == 0),
            self.constant("width", w, 255))

    def prefix_lm(self):
        prefix = self.put([self.n // 4 - 37 * b for b in range(self.b)])
        return self.mask("prefix-lm", lambda b, h, i, j: (j <= i) | (j < prefix[b]),
                         prefix=prefix)

    def numbers(self, count, shape):
        """Numbers of documents of random lengths."""
        n = self.n
        ends = self.integers(1, n, shape + (count - 1,)).sort(-1).values
        return self.put((self.torch.arange(n)[:, None] >= ends[..., None, :]).sum(-1))

    def documents(self):
        t = self.numbers(12, (self.b,))
        return self.mask("documents", lambda b, h, i, j: t[b, i] == t[b, j], document=t)

    def causal_documents(self):
        t = self.numbers(12, (self.b,))
        family = self.mask("documents",
                           lambda b, h, i, j: (t[b, i] == t[b, j]) & (j <= i),
                           document=t)
        family.options["causal"] = "top_left"
        return family

    def shared_prefix(self):
        t, p = self.numbers(12, ()), self.n // 16
        return self.mask("shared-prefix",
                         lambda b, h, i, j: (j <= i) & ((t[i] == t[j]) | (j < p)),
                         document=t, prefix=p)

    def block_diffusion(self):
        n = self.n // 2
        where = self.torch.where

        def live(b, h, i, j):
            ci, cj = i >= n, j >= n
            bi, bj = where(ci, i - n, i) // 64, where(cj, j - n, j) // 64
            past = (ci & (bj <= bi)) | (bj < bi)
            return ((bi == bj) & (ci == cj)) | (cj & past)

        return self.mask("block-diffusion", live, n=n)

    def flamingo(self):
        size = self.n // 16
        media = self.put(self.torch.arange(self.n) // (self.n // 17 + 1) - 1)
        return self.mask("flamingo", lambda b, h, i, j: media[i] == j // size,
                         self.constant("tokens", size, 64), media=media)

    def neighbourhood_2d(self):
        """13 x 13, of an image twice as high as wide, or square."""
        wide = 1 << (self.n // 2).bit_length() // 2
        high, r = self.n // wide, 6

        def live(b, h, i, j):
            y = (i // wide).clamp(r, high - 1 - r)
            x = (i % wide).clamp(r, wide - 1 - r)
            return ((y - j // wide).abs() <= r) & ((x - j % wide).abs() <= r)

        rows = "%%rows = arith.constant %d : i32\n" % (high - 1 - r)
        return self.mask(
            "neighbourhood-2d", live, self.constant("width", wide, 32),
            self.constant("reach", r, 3), self.constant("most", wide - 1 - r, 28),
            ("  %yc = arith.minsi %y0, %most", "  %s  %%yc = arith.minsi %%y0, %%rows"
             % rows))

    def neighbourhood_3d(self):
        """5 x 5 x 5, in pictures of 16 x 16."""

        def live(b, h, i, j):
            t = (i // 256 - j // 256).abs()
            y = (i % 256 // 16 - j % 256 // 16).abs()
            x = (i % 16 - j % 16).abs()
            return (t <= 2) & (y <= 2) & (x <= 2)

        return self.mask("neighbourhood-3d", live, self.constant("c8", 16, 8),
                         self.constant("c64", 256, 64))

    def morton(self):
        """Pictures in tiles of 16 x 16 tokens."""
        t = self.torch.arange(self.n)
        x = self.put(t % 16 + t // 256 % 4 * 16)
        y = self.put(t % 256 // 16 + t // 1024 * 16)
        return self.mask(
            "morton",
            lambda b, h, i, j: ((y[i] - y[j]).abs() <= 4) & ((x[i] - x[j]).abs() <= 4),
            y=y, x=x)

    def sliding_tile(self):
        """3 x 3 tiles of 128 tokens, 8 across."""
        down = self.n // 1024 - 2

        def live(b, h, i, j):
            y = (i // 1024).clamp(min=1).clamp(max=max(down, 1))
            x = (i // 128 % 8).clamp(1, 6)
            return ((y - j // 1024).abs() <= 1) & ((x - j // 128 % 8).abs() <= 1)

        rows = "%%rows = arith.constant %d : i32\n" % max(down, 1)
        return self.mask(
            "sliding-tile", live, self.constant("tile", 128, 64),
            self.constant("across", 8, 4), self.constant("most", 6, 2),
            ("  %yc = arith.minsi %y0, %most", "  %s  %%yc = arith.minsi %%y0, %%rows"
             % rows))

    def video_spatial(self):
        frame = self.n // 8
        return self.mask(
            "video-spatial",
            lambda b, h, i, j: ((i // frame - j // frame).abs() <= 1) | (j < frame),
            self.constant("frame", frame, 128))

    def video_temporal(self):
        reach = self.n // 128
        return self.mask("video-temporal",
                         lambda b, h, i, j: (i // 8 - j // 8).abs() <= reach,
                         self.constant("reach", reach, 2))

    def tree(self):
        """A prefix, and behind it tokens that each see some before them."""
        torch, p = self.torch, self.n // 2
        i = torch.arange(self.n)[:, None]
        j = torch.arange(self.n - p)[None, :]
        # Paths of a binary tree of 128 tokens, one tree behind the other.
        i, own = i % p, i % p // 128 == j // 128
        i, j = i % 128 + 1, j % 128 + 1
        depth = lambda x: x.double().log2().floor().long()
        above = own & (j <= i) & (i >> (depth(i) - depth(j)).clamp(min=0) == j)
        above = self.put(above, torch.bool)
        return self.mask(
            "tree",
            lambda b, h, i, j: (j < p) | above[i, (j - p).clamp(min=0)],
            prefix=p, ancestor=above)

    def blocks(self):
        """A quarter of the blocks of keys for each block of queries and head (VSA)."""
        import attn

        torch, count = self.torch, self.n // BLOCK
        best = torch.rand((self.b, self.h, count, count), generator=self.generator)
        best = self.put(best.argsort(-1)[..., :count // 4].contiguous())
        number = torch.full(best.shape[:3], best.shape[3], dtype=torch.int32,
                            device=self.device)
        table = torch.zeros((self.b, self.h, count, count), dtype=torch.bool,
                            device=self.device).scatter_(-1, best.long(), True)
        return Family(
            {"block_mask": attn.BlockMask.from_kv_blocks(number, best)},
            lambda b, h, i, j: table[b, h, i // BLOCK, j // BLOCK],
            blocks=(number, best))

    def pairs(self):
        """A boolean for each pair: half of all, by chance, in a quarter of tiles."""
        torch, n = self.torch, self.n
        tiles = torch.rand((n // BLOCK, n // BLOCK), generator=self.generator) < 0.25
        tiles.fill_diagonal_(True)
        live = tiles.repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1)
        live &= torch.rand((n, n), generator=self.generator) < 0.5
        live = live.to(self.device)
        return Family({"mask": live}, lambda b, h, i, j: live[i, j])

    def padding(self):
        few = self.torch.tensor([700 + 150 * b for b in range(self.b)])
        live = self.put(self.torch.arange(self.n) % 1024 < few[:, None],
                        self.torch.bool)
        return Family({"mask": live[:, None, None, :]},
                      lambda b, h, i, j: live[b, j] & (i >= 0))

    def lengths(self):
        t = self.put([self.n * 7 // 8 - 37 - self.n // 16 * b for b in range(self.b)])
        return Family({"kv_lengths": t}, lambda b, h, i, j: (j < t[b]) & (i >= 0))

    # ---- Scores --------------------------------------------------------------

    def softcap(self):
        tanh = self.torch.tanh
        return Family({"softcap": 30.0}, score=lambda s, b, h, i, j: 30 * tanh(s / 30),
                      bar=0.87)

    def alibi(self):
        slopes = self.put([2.0 ** (-8.0 * (h + 1) / self.h) for h in range(self.h)],
                          self.torch.float32)
        return Family({"alibi_slopes": slopes},
                      score=lambda s, b, h, i, j: s - slopes[h] * (i - j).abs())

    def sinks(self):
        sinks = self.torch.randn(self.h, generator=self.generator).to(self.device)
        return Family({"causal": "bottom_right", "sinks": sinks},
                      lambda b, h, i, j: j <= i, sinks=sinks)

    def score(self, name, score, bar=0.95, **captures):
        return Family({"score_mod": self.texts[name], "captures": captures},
                      score=score, bar=bar)

    def relative_bias(self):
        table = self.torch.randn((self.h, 65), generator=self.generator)
        table = table.to(self.device)
        return self.score(
            "relative-bias",
            lambda s, b, h, i, j: s + table[h, (j - i).clamp(-32, 32) + 32],
            table=table)

    def t5_bias(self):
        torch, n = self.torch, self.n
        distance = torch.arange(-n, n + 1).abs()
        near = (distance.clamp(min=1) / 8).log2() / 4 * 8
        bucket = torch.where(distance < 8, distance, 8 + near.long()).clamp(0, 15)
        bucket += 16 * (torch.arange(-n, n + 1) > 0)
        bucket = self.put(bucket)
        weight = torch.randn((32, self.h), generator=self.generator).to(self.device)
        return self.score("t5-bias",
                          lambda s, b, h, i, j: s + weight[bucket[j - i + n], h],
                          n=n, bucket=bucket, weight=weight)

    def bias(self):
        torch = self.torch
        t = torch.randn((self.n, self.n), generator=self.generator)
        t = t.to(self.device, torch.bfloat16)
        return Family({"bias": t}, score=lambda s, b, h, i, j: s + t[i, j])

    def key_bias(self):
        t = self.torch.randn((self.b, self.n), generator=self.generator)
        t = t.to(self.device)
        return Family({"bias": t[:, None, None, :]},
                      score=lambda s, b, h, i, j: s + t[b, j] + 0 * i)

    def threshold(self):
        """Weights of less than exp(-11) of their sum are dropped."""
        lse = self.torch.randn((self.b, self.h, self.n), generator=self.generator)
        lse = (lse * 0.05 + math.log(self.n) + 0.5).to(self.device)
        dead = self.torch.tensor(-math.inf, device=self.device)
        where = self.torch.where
        return self.score(
            "threshold",
            lambda s, b, h, i, j: where(s - lse[b, h, i] < -10.0, dead, s),
            lse=lse, least=-10.0)


FAMILIES = [
    "plain", "causal", "causal_option", "sliding_window", "window_option", "both_sides",
    "chunked_causal", "global_window", "dilated", "prefix_lm", "documents",
    "causal_documents", "shared_prefix", "block_diffusion", "flamingo",
    "neighbourhood_2d", "neighbourhood_3d", "morton", "sliding_tile", "video_spatial",
    "video_temporal", "tree", "blocks", "pairs", "padding", "lengths", "softcap",
    "alibi", "sinks", "relative_bias", "t5_bias", "bias", "key_bias", "threshold",
]


# ---- Numbers -----------------------------------------------------------------


def reference(family, q, k, v, batch, head, rows, kind):
    """Rows of a head, with every step in `kind`."""
    import torch

    x, y, z = (t[batch, head].to(kind) for t in (q, k, v))
    s = (x[rows] @ y.mT / math.sqrt(q.shape[3])).float() if (
        kind != torch.float64) else x[rows] @ y.mT / math.sqrt(q.shape[3])
    at = torch.tensor(batch, device=q.device), torch.tensor(head, device=q.device)
    at += rows[:, None], torch.arange(k.shape[2], device=q.device)[None, :]
    if family.score:
        s = family.score(s, *at)
    s = s.to(kind)
    if family.live:
        s = s.masked_fill(~family.live(*at), -math.inf)
    top = s.max(-1, keepdim=True).values
    sink = family.sinks[head].to(kind) if family.sinks is not None else None
    if sink is not None:
        top = top.maximum(sink)
    p = torch.exp(s - top.nan_to_num(neginf=0.0))
    total = p.sum(-1, keepdim=True)
    if sink is not None:
        total = total + torch.exp(sink - top)
    return torch.nan_to_num(p @ z / total)


def check(name, family, tensors, out):
    """Whether rows of the last head are what float64 gives, and a text."""
    import torch

    q = tensors[0]
    b, h, n, _ = q.shape
    rows = torch.randperm(n, device=q.device)[:ROWS].sort().values
    want, emulated = (reference(family, *tensors, b - 1, h - 1, rows, kind)
                      for kind in (torch.float64, q.dtype))
    off = (out[b - 1, h - 1, rows].double() - want).abs().max().item()
    step = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}.get(q.dtype, 2.0**-18)
    bound = 2 * (emulated.double() - want).abs().max().item()
    bound += 2 * step * want.abs().max().item()
    if not off <= bound:  # also of NaN
        return False, "%s: WRONG by %.2e, bound %.2e" % (name, off, bound)
    return True, "%.2f" % (off / bound)


def count(family, b, h, n, device):
    """Live pairs and touched tiles of a head, on average."""
    import torch

    blocks = (n + BLOCK - 1) // BLOCK
    if not family.live:
        return float(n) * n, float(blocks) * blocks
    pairs = tiles = 0
    j = torch.arange(n, device=device)[None, :]
    heads = [0] if family.blocks is None else range(h)
    for batch in range(b):
        for head in heads:
            where = [torch.tensor(x, device=device) for x in (batch, head)]
            for first in range(0, n, BLOCK):
                i = torch.arange(first, min(first + BLOCK, n), device=device)[:, None]
                live = family.live(*where, i, j).expand(i.shape[0], n)
                pairs += live.sum()
                some = torch.nn.functional.pad(live.any(0), (0, blocks * BLOCK - n))
                tiles += some.view(blocks, BLOCK).any(1).sum()
    times = b * len(heads)
    return float(pairs) / times, float(tiles) / times


# ---- Times -------------------------------------------------------------------


def burst(run, count=5):
    """Milliseconds of a call from idle, the host ahead of the GPU."""
    import torch

    torch.cuda.synchronize()
    time.sleep(0.1)
    run()
    torch.cuda._sleep(4_000_000)  # cycles
    points = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    points[0].record()
    for point in points[1:]:
        run()
        point.record()
    torch.cuda.synchronize()
    return statistics.median(a.elapsed_time(b) for a, b in zip(points, points[1:]))


def flex(family, q, k, v):
    """A call of FlexAttention and what it gave, or None and a reason."""
    import torch
    from torch.nn.attention import flex_attention as fa

    torch._dynamo.reset()
    b, h, n, _ = q.shape
    try:
        blocks = None
        if family.blocks is not None:
            number, best = family.blocks
            # Its lists have room for every block.
            room = torch.zeros((*best.shape[:3], n // BLOCK - best.shape[3]),
                               dtype=best.dtype, device=best.device)
            blocks = fa.BlockMask.from_kv_blocks(
                number, torch.cat([best, room], -1), BLOCK_SIZE=BLOCK,
                seq_lengths=(n, n))
        elif family.live:
            blocks = fa.create_block_mask(family.live, b, None, n, n, device=q.device)
        compiled = torch.compile(fa.flex_attention, dynamic=False)
        if family.sinks is not None:
            def call(q, k, v):
                out, lse = fa.flex_attention(q, k, v, block_mask=blocks,
                                             return_lse=True)
                weight = torch.sigmoid(lse - family.sinks[None, :, None])
                return (out * weight[..., None]).to(out.dtype)

            compiled = torch.compile(call, dynamic=False)
            return lambda: compiled(q, k, v), compiled(q, k, v)

        def run():
            return compiled(q, k, v, score_mod=family.score, block_mask=blocks)

        return run, run()
    except Exception as error:  # its own limits are not ours to mend
        return None, str(error).strip().split("\n")[0][:120]


def race(name, family, tensors, own, options):
    """The cells of a line, and what is below a bar."""
    import attn
    import torch

    q, k, v = tensors
    b, h, n, d = q.shape
    pairs, tiles = count(family, b, h, n, q.device)
    each = tiles / ((n + BLOCK - 1) // BLOCK)
    around = sorted({max(1, math.floor(each)), max(1, math.ceil(each))})

    def plain(keys):
        part = [x[:, :, :keys * BLOCK].contiguous() for x in (k, v)]
        out = torch.empty_like(q)
        return lambda: attn.attention(q, *part, out=out)

    alike = [plain(keys) for keys in around]
    for run in alike:
        run()
    other, result = None, "not asked"
    if not options.no_flex:
        result = "no time left"
        if time.time() < options.end:
            other, result = flex(family, q, k, v)
    flex_text = " flex: %s" % result if other is None else ""
    if other is not None:
        good, text = check("FlexAttention", family, tensors, result)
        flex_text = "" if good else " " + text
    rounds = [[burst(run) for run in (*alike, own) + ((other,) if other else ())]
              for _ in range(2)]
    times = [min(column) for column in zip(*rounds)]
    like = times[0]
    if len(alike) == 2:
        like += (times[1] - times[0]) * (each - around[0])
    ms = times[len(alike)]
    work = 4.0 * d * b * h * 1e-9
    touched = tiles * BLOCK * BLOCK
    below = [] if like / ms >= family.bar else ["plain"]
    cells = "%6.2f %5.1f %8.4f %5.0f %5.0f %6.3f %5.2f" % (
        100 * pairs / n**2, 100 * touched / n**2, ms, work * pairs / ms,
        work * touched / ms, like / ms, family.bar)
    if other is None:
        cells += "       -      -"
    else:
        cells += " %8.4f %6.2f" % (times[-1], times[-1] / ms)
        below += ["flex"] if times[-1] < ms else []
    return cells + flex_text, below


def list_kernels(run, count=5):
    """Microseconds of each kernel of a call."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as found:
        for _ in range(count):
            run()
        torch.cuda.synchronize()
    each = ((event.key.rsplit("_", 1)[-1], event.device_time_total / event.count)
            for event in sorted(found.key_averages(), key=lambda event: event.key)
            if event.device_time_total)
    return "kernels, us: " + " ".join("%s=%.1f" % one for one in each)


def with_decisions(family, tensors, decisions):
    """A call with other decisions in its schedules, "name = word" and commas."""
    import attn

    options = dict(family.options)
    text = attn.compile(*tensors, until_after="schedule", **options).mlir("schedule")
    for decision in decisions.split(","):
        name, word = (x.strip() for x in decision.split("="))

        def edit(match):
            said = [x.split(" = ") for x in match.group(1).split(", ")]
            said = [x for x in said if x[0] != name] + [[name, word]]
            return "#attn.schedule<%s>" % ", ".join(" = ".join(x) for x in said)

        text = re.sub(r"#attn\.schedule<([^<>]*)>", edit, text)
    named = dict(zip("qkv", tensors), **options.pop("captures", {}))
    options.pop("mask_mod", None)
    named.update(options)
    kernel = attn.compile(text)
    inputs = [named[arg.name] for arg in kernel.inputs]
    inputs = [x if arg.shape is None else x[(None,) * (len(arg.shape) - x.dim())]
              for arg, x in zip(kernel.inputs, inputs)]
    return lambda out: kernel(*inputs, out=out)


def race_schedules(family, tensors, out, schedules):
    """Times with other decisions, in turns with the chosen ones."""
    import torch

    names = schedules.split(";")
    calls = [with_decisions(family, tensors, name) for name in ["share = 0"] + names]
    other, cells = torch.empty_like(out), []
    for call in calls:
        other.fill_(math.nan)
        call(other)
        cells.append((other.float() - out.float()).abs().max().item())
    rounds = [[burst(lambda: call(other)) for call in calls] for _ in range(2)]
    times = [min(column) for column in zip(*rounds)]
    return " ".join("[%s] %.4f off %.1e" % cell for cell in
                    zip(["as chosen"] + names, times, cells))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--heads", default="2x16")
    parser.add_argument("--size", type=int, default=8192)
    parser.add_argument("--depth", type=int, default=128)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--no-flex", action="store_true")
    parser.add_argument("--flex-seconds", type=float, default=130)
    parser.add_argument("--no-times", action="store_true")
    parser.add_argument("--kernels", action="store_true")
    parser.add_argument("--schedules")
    options = parser.parse_args()
    import attn
    import torch

    names = options.families.split(",")
    for name in names:
        if name not in FAMILIES:
            parser.error("expected families out of %s, but got %r"
                         % (", ".join(FAMILIES), name))
    b, h = map(int, options.heads.split("x"))
    torch.manual_seed(0)
    dtype = torch.bfloat16 if options.device == "cuda" else torch.float32
    tensors = [torch.randn((b, h, options.size, options.depth), device=options.device)
               .to(dtype) for _ in range(3)]
    maker = Maker(b, h, options.size, options.device)
    start, wrong, slow = time.time(), [], []
    options.end = start + options.flex_seconds
    print("%-17s error live%% tiles%%       ms  live touch  plain   bar"
          "     flex   x" % "family")
    for name in names:
        family = getattr(maker, name)()
        out = torch.empty_like(tensors[0])

        def own():
            return attn.attention(*tensors, out=out, **family.options)

        try:
            own()
        except (ValueError, NotImplementedError, RuntimeError) as error:
            wrong.append(name)
            print("%-17s %s" % (name, str(error).split("\n")[0][:300]), flush=True)
            continue
        good, text = check(name, family, tensors, out)
        if not good:
            wrong.append(name)
        below = []
        if not options.no_times:
            cells, below = race(name, family, tensors, own, options)
            text += " " + cells
        slow += [name] if below else []
        print("%-17s %s%s" % (name, text, "".join(" BELOW " + x for x in below)),
              flush=True)
        if options.kernels:
            print("   ", list_kernels(own), flush=True)
        if options.schedules:
            print("   ", race_schedules(family, tensors, out, options.schedules),
                  flush=True)
    print("%d wrong: %s; %d below: %s; %.0f s" % (
        len(wrong), " ".join(wrong), len(slow), " ".join(slow), time.time() - start))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
