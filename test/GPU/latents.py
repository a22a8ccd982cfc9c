"""Multi-head latent attention on a GPU beside float64, NaN behind the lengths.

usage: latents.py [--jobs N] [KERNEL...]

A kernel is type:heads:page:sequences:pages, with at most so many pages a sequence;
each is compiled once, in a process of its own, and gets eight problems: random
lengths, 0 and full ones among them, weights flat and peaked, and behind the lengths
NaN in all rows or in the first. Without arguments ten kernels take 8 s on 16 cores.
Needs PyTorch.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import argparse
import concurrent.futures
import subprocess
import sys

KERNELS = (
    "float16:128:64:8:33 float16:128:64:64:64 float16:16:64:8:33 float16:16:64:64:64 "
    "float16:70:16:3:37 float16:5:64:2:9 float16:1:128:5:5 float16:64:64:1:64 "
    "bfloat16:128:64:8:33 bfloat16:16:16:3:37"
)
COLUMNS, VALUES, PROBLEMS = 576, 512, 8
SCALE = 192**-0.5
# Of the largest result; weights are rounded to the type, and so are results.
BOUNDS = {"float16": 4e-3, "bfloat16": 2e-2}


def draw_lengths(number, count, most):
    lengths = torch.randint(0, most + 1, (count,))
    lengths[torch.rand(count) < 0.2] = 0
    lengths[torch.rand(count) < 0.2] = most
    return torch.ones_like(lengths) if number == 1 else lengths


def exact(q, keys, lengths):
    """The result in float64, and which keys are behind the lengths."""
    dead = torch.arange(keys.shape[1])[None] >= lengths[:, None]
    scores = q[:, :, 0].double() @ keys.transpose(1, 2) * SCALE
    scores.masked_fill_(dead.cuda()[:, None], -torch.inf)
    weights = (scores - scores.amax(-1, keepdim=True).clamp_min(-1e30)).exp()
    total = weights.sum(-1, keepdim=True).clamp_min(1e-30)
    return weights @ keys[..., :VALUES] / total, dead


def error_of(number, dtype, heads, page, batch, room):
    """The largest error of one problem, as a share of a sequence's largest result."""
    on = dict(dtype=dtype, device="cuda")
    pool = torch.randn(batch * room, 1, page, COLUMNS, **on) * (0.3, 1, 4)[number % 3]
    table = torch.randperm(batch * room, device="cuda").view(batch, room).int()
    lengths = draw_lengths(number, batch, room * page)
    keys = pool[table.long(), 0].flatten(1, 2).double()
    q = torch.randn(batch, heads, 1, COLUMNS, **on)
    want, dead = exact(q, keys, lengths)
    at = dead.nonzero().cuda()
    if number % 2:
        at = at[at[:, 1] == lengths.cuda()[at[:, 0]]]
    pool[table.long()[at[:, 0], at[:, 1] // page], 0, at[:, 1] % page] = torch.nan
    out = torch.full_like(q[..., :VALUES], 7)
    attn.attention(q, pool, None, v_dim=VALUES, scale=SCALE, block_table=table,
                   kv_lengths=lengths.int().cuda(), out=out)
    difference = (out[:, :, 0].double() - want).abs().amax((1, 2))
    largest = want.abs().amax((1, 2))
    # Sequences without keys have results of 0.
    errors = difference / torch.where(lengths.cuda() == 0, 1, largest)
    return errors.nan_to_num(torch.inf).max().item()


def check(kernel):
    name, *sizes = kernel.split(":")
    sizes = [int(size) for size in sizes]
    torch.manual_seed(sum(sizes))
    errors = [error_of(number, getattr(torch, name), *sizes)
              for number in range(PROBLEMS)]
    wrong = sum(not error < BOUNDS[name] for error in errors)
    print(f"{kernel:>22}: {wrong} of {PROBLEMS} wrong, worst {max(errors):.1e}")
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=16)
    parser.add_argument("kernels", nargs="*", default=KERNELS.split())
    options = parser.parse_args()

    def run(kernel):
        command = [sys.executable, __file__, "--jobs", "0", kernel]
        return subprocess.run(command).returncode

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        return max(pool.map(run, options.kernels))


if __name__ == "__main__":
    if sys.argv[1:3] == ["--jobs", "0"]:
        import torch

        import attn

        sys.exit(check(sys.argv[3]) > 0)
    sys.exit(main())
