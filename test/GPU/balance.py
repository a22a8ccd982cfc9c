#!/usr/bin/env python3
"""What the order of work tiles costs a mask whose rows have keys of uneven number.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

    test/GPU/balance.py [--families A,B] [--heads 2x16] [--size 8192] [--rows 128]
        [--partial 1.5] [--item 0.7] [--processors 132]

A model, on any machine: a work tile of so many rows takes as long as `item` whole tiles
of 128 keys, and one more for each that is whole and `partial` for each that is tested;
multiprocessors take the next one when they are free. A line has the tiles of a work
tile, how many of them are tested, and the time of plain attention with as many tiles
(of 128 x 128) beside that of four orders: the last rows first, the first rows first,
sorted by length, and the last rows first but for the heads that come last, which are
sorted, each with 4, with 8 heads abreast and with all of them; and of equal shares.
The families are those of masks.py. Needs torch.
"""

import argparse
import heapq

import masks

KEYS = 128


def classes(live, batch, rows, size):
    """(whole tiles, tested tiles) of each tile of rows of a head."""
    import torch

    keys = torch.arange(size)[None, :]
    where = torch.tensor(batch), torch.tensor(0)
    out = []
    for first in range(0, size, rows):
        i = torch.arange(first, min(first + rows, size))[:, None]
        pairs = live(*where, i, keys).expand(len(i), size).view(len(i), -1, KEYS)
        some = pairs.any(0).any(1)
        whole = pairs.all(0).all(1)
        out.append((int(whole.sum()), int((some & ~whole).sum())))
    return out


def finish(items, processors):
    """When the last of the work tiles is done that are taken in this order."""
    ends = [0.0] * processors
    for cost in items:
        heapq.heapreplace(ends, ends[0] + cost)
    return max(ends)


def arrange(costs, heads, abreast, key, end):
    """Costs in the order in which work tiles are drawn: costs[batch][tile]. Those of
    the last heads are in the order that `end` says."""
    all_heads = [batch for batch in range(len(costs)) for _ in range(heads)]
    for first in range(0, len(all_heads), abreast):
        by = end if first + abreast >= len(all_heads) else key
        orders = [sorted(range(len(c)), key=lambda t, c=c: by(c, t)) for c in costs]
        for n in range(len(costs[0])):
            for batch in all_heads[first:first + abreast]:
                yield costs[batch][orders[batch][n]]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--families", default="chunked_causal,global_window,documents,"
                        "causal_documents,block_diffusion,sliding_tile,tree")
    parser.add_argument("--heads", default="2x16")
    parser.add_argument("--size", type=int, default=8192)
    parser.add_argument("--rows", type=int, default=128)
    parser.add_argument("--partial", type=float, default=1.5)
    parser.add_argument("--item", type=float, default=0.7)
    parser.add_argument("--processors", type=int, default=132)
    options = parser.parse_args()
    b, h = map(int, options.heads.split("x"))
    maker = masks.Maker(b, h, options.size, "cpu")
    last, longest = lambda c, t: -t, lambda c, t: (-c[t], -t)
    keys = (("last", last, last), ("first", lambda c, t: t, lambda c, t: t),
            ("sorted", longest, longest), ("ending sorted", last, longest))
    for name in options.families.split(","):
        live = getattr(maker, name)().live
        found = alike = [classes(live, batch, options.rows, options.size)
                         for batch in range(b)]
        if options.rows != KEYS:
            alike = [classes(live, batch, KEYS, options.size) for batch in range(b)]
        tiles = len(found[0])
        each = sum(w + m for c in alike for w, m in c) / (b * len(alike[0]))
        costs = [[options.item + w + options.partial * m for w, m in c] for c in found]
        plain = finish([options.item + each] * (b * h * tiles), options.processors)
        tested = sum(m for c in found for _, m in c)
        total = sum(w + m for c in found for w, m in c)
        text = "%-17s %5.1f tiles %3.0f %% tested" % (
            name, total / (b * tiles), 100 * tested / total)
        for order, key, end in keys:
            times = [finish(arrange(costs, h, abreast, key, end), options.processors)
                     for abreast in (4, 8, b * h)]
            text += "  %s %.2f %.2f %.2f" % (order, *(plain / t for t in times))
        even = sum(map(sum, costs)) * h / options.processors
        print(text + "  even %.2f" % (plain / even), flush=True)


if __name__ == "__main__":
    main()
