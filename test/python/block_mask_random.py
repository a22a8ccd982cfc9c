# RUN: %python %s 30
# RUN: %python %s 12 1 emulator:sm_80
# RUN: %python %s 12 2 emulator:sm_90a
"""Random lists of blocks beside random other masks, against float64: sizes of blocks,
broadcasts, captured numbers, causal forms, windows, lengths, biases, sinks, types and
layouts, with NaN and infinities in what nobody sees.
`block_mask_random.py CASES SEED [TARGET]` draws others; the target cuda is a GPU.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from device import to_gpu, to_host
from reference import DTYPES, attention, check, live, qkv

import attn

MASK = """
^bb0(%b: i32, %h: i32, %i: i32, %j: i32, %by: i32):
  %n = arith.addi %i, %j : i32
  %m = arith.addi %n, %h : i32
  %r = arith.remui %m, %by : i32
  %zero = arith.constant 0 : i32
  %live = arith.cmpi ne, %r, %zero : i32
  attn.yield %live : i1
"""
SIZES = (1, 5, 17, 64, 100, 128, 129, 200, 300, 513)
BLOCKS = (7, 16, 32, 64, 96, 128, 128, 128, 256)


class Case:
    def __init__(self, rng, target):
        self.rng, self.target = rng, target
        size = lambda: int(rng.choice(SIZES))
        self.sq, self.sk = size(), size()
        self.dtype = DTYPES[rng.integers(len(DTYPES))]
        self.b, self.hk = int(rng.integers(1, 3)), int(rng.integers(1, 3))
        self.hq = self.hk * int(rng.integers(1, 4))
        self.block = int(rng.choice(BLOCKS)), int(rng.choice(BLOCKS))
        self.d = int(rng.choice((32, 64, 72, 128)))
        # One kernel serves all lists; what is drawn here it is compiled for.
        self.by = int(rng.integers(2, 6)) if rng.random() < 0.5 else None
        self.options = {}
        if rng.random() < 0.4:
            self.options["causal"] = str(rng.choice(["top_left", "bottom_right"]))
        if rng.random() < 0.3:
            self.options["window"] = (int(rng.integers(0, 300)), -1)
        if rng.random() < 0.3:
            lengths = rng.integers(0, self.sk + 1, self.b)
            self.options["kv_lengths"] = lengths.astype(np.int32)
        if rng.random() < 0.2:
            self.options["softcap"] = 3.0
        if rng.random() < 0.2:
            bias = rng.standard_normal((1, self.hq, self.sq, self.sk))
            bias[rng.random(bias.shape) < 0.2] = -np.inf
            self.options["bias"] = bias.astype(np.float32)
        if rng.random() < 0.2:
            self.options["sinks"] = rng.standard_normal(self.hq).astype(np.float32)
        self.layout = str(rng.choice(["bhsd", "bshd"]))

    def make_mask(self):
        """The lists or the table, and the mask of pairs that they are."""
        rng = self.rng
        lead = (self.b, self.hq)[rng.integers(3):] if rng.random() < 0.7 else (1, 1)
        if len(lead) == 2 and rng.random() < 0.3:
            lead = (1, self.hq)
        blocks = -(-self.sq // self.block[0]), -(-self.sk // self.block[1])
        chances = ((0.5, 0.2, 0.3), (0.05, 0.05, 0.9), (0.95, 0.03, 0.02))
        chances = chances[rng.integers(3)]
        classes = rng.choice(3, lead + blocks, p=chances).astype(np.int8)
        text = MASK if self.by else None
        if rng.random() < 0.5:
            mask = attn.BlockMask.from_classes(classes, self.block, text)
        else:
            lists = []
            for kind in (1, 2):
                count = (classes == kind).sum(-1).astype(np.int32)
                room = blocks[1] + int(rng.integers(0, 3))
                junk = rng.integers(-9, 2**31, classes.shape[:-1] + (room,))
                index = junk.astype(np.int32)
                for at in np.ndindex(count.shape):
                    found = np.nonzero(classes[at] == kind)[0]
                    index[at][: len(found)] = rng.permutation(found)
                lists += [count, index]
            mask = attn.BlockMask(*lists, BLOCK_SIZE=self.block, mask_mod=text)
        classes = classes.reshape((1,) * (2 - len(lead)) + classes.shape)
        whole = np.repeat(np.repeat(classes, self.block[0], 2), self.block[1], 3)
        whole = whole[..., : self.sq, : self.sk]
        partial = True
        if self.by:
            h, i, j = np.ogrid[: self.hq, : self.sq, : self.sk]
            partial = (h + i + j) % self.by != 0
        return mask, (whole == 2) | ((whole == 1) & partial)

    def poison(self, k, v, alive):
        """What no query of a key head sees."""
        shape = (self.b, self.hq, self.sq, self.sk)
        masks = {n: self.options[n] for n in ("causal", "window") if n in self.options}
        alive = live(shape, mask=alive, lengths=self.options.get("kv_lengths"), **masks)
        groups = alive.reshape(self.b, self.hk, -1, self.sk).any(2)
        dead = ~groups
        junk = self.rng.choice([np.nan, np.inf, -np.inf], dead.sum())
        k[dead], v[dead] = junk[:, None], junk[::-1, None]

    def run(self):
        q, k, v = qkv(self.rng, self.b, self.hq, self.hk, self.sq, self.sk, self.d,
                      self.d, self.dtype)
        mask, alive = self.make_mask()
        want = attention(q, k, v, mask=alive, **self.options)
        self.poison(k, v, alive)
        options = dict(self.options, block_mask=mask, return_lse=True)
        if self.by:
            options["captures"] = {"by": self.by}
        if self.target and self.target != "cuda":
            kernel = attn.compile(q, k, v, target=self.target, **options)
            given = dict(self.options, q=q, k=k, v=v)
            given["by"] = np.array(self.by or 0, np.int32)
            given["window_left"] = self.options.get("window", (0,))[0]
            given["window_right"] = 2**31 - 1  # none
            given["block_mask"] = mask.classes(-(-self.sk // self.block[1]))
            got = kernel(*[given[arg.name] for arg in kernel.inputs])
        else:
            arrays = [q, k, v]
            if self.layout == "bshd":
                arrays = [x.swapaxes(1, 2) for x in arrays]
            if self.target:
                arrays = [to_gpu(x) for x in arrays]
                options = to_gpu(options)
                lists = [to_gpu(mask.classes(-(-self.sk // self.block[1])))]
                options["block_mask"] = attn.BlockMask.from_classes(
                    *lists, self.block, mask.mask_mod)
            got = attn.attention(*arrays, layout=self.layout, **options)
            got = [to_host(x) for x in got] if self.target else list(got)
            if self.layout == "bshd":
                got[0] = got[0].swapaxes(1, 2)
        check("o", got[0], want[0], self.dtype)
        check("lse", got[1], want[1], self.dtype)


def main(cases=60, seed=1, target=None):
    failed = 0
    for number in range(int(cases)):
        case = Case(np.random.default_rng([int(seed), number]), target)
        try:
            case.run()
        except Exception as error:
            failed += 1
            hidden = ("rng", "options")
            words = {n: x for n, x in vars(case).items() if n not in hidden}
            what = {n: getattr(x, "shape", x) for n, x in case.options.items()}
            print("case %d of seed %s, %s, %s: %s" % (number, seed, words, what, error))
    print("%d of %s cases pass" % (int(cases) - failed, cases))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
