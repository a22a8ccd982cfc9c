"""Attention and its gradients beside FlashAttention-4, -3 and cuDNN on a Hopper GPU.

usage: peers.py [PART,...] [--rows TEXT,...] [--seconds S] [--cycles | --warm I/N]
       peers.py --sum FILE

Parts: variants (a window, a sink, caps, of 2 x 16 heads, 8192 tokens, d = 128), varlen
(ten documents of uneven lengths, causal inside), backward (the whole pass from
autograd), forward (plain). Each row is of one process: before it the numbers of all are
compared with float64 on one head; then for each a burst (0.2 s of rest, one call, the
median of five) and two trains of 80 ms, one in the order of the calls and one in that
order turned around (medians of their last halves, and the mean of both), TFLOP/s of
live pairs, of five products in the backward pass. "any order" is ours with
deterministic=False, "in order" FA4's with deterministic=True. --rows: only rows whose
name has one of the texts in it. --cycles runs each call once in a range of the
profiler, behind a kernel that marks it, for
    ncu --profile-from-start off --clock-control none --csv --page raw
        --metrics sm__cycles_elapsed.max
whose output --sum adds up by calls. --warm compiles part I of N.
Needs PyTorch and flash-attn-4 with what it needs; with fa3-fwd, FA3 is beside them.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import argparse
import csv
import time
import warnings

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as sdpa

import attn

DOCUMENTS = 12000, 7001, 5000, 3333, 2222, 1500, 800, 500, 300, 112
DEPTHS = (128, 128), (64, 64), (256, 256), (192, 128), (96, 96)
SHAPES = (1, 16384), (4, 4096), (16, 1024)


def fa4(function="flash_attn_func"):
    from flash_attn.cute import interface

    return getattr(interface, function)


def fa3(function="flash_attn_func"):
    """That of FlashAttention-3, or None without its wheel (fa3-fwd)."""
    try:
        import fa3_fwd_interface
    except ImportError:
        return None
    return lambda *a, **k: first(getattr(fa3_fwd_interface, function)(*a, **k))


def first(results):
    return results[0] if isinstance(results, (tuple, list)) else results


def draw(b, s, h, hk, d, dv, gradients=False):
    """q, k, v as [b, h, s, d], and with the same numbers as [b, s, h, d]."""
    make = lambda h, d: torch.randn(b, s, h, d, device="cuda", dtype=torch.bfloat16)
    theirs = make(h, d), make(hk, d), make(hk, dv)
    ours = tuple(x.transpose(1, 2).contiguous() for x in theirs)
    for x in theirs + ours:
        x.requires_grad_(gradients)
    return ours, theirs


def cudnn(q, k, v, causal):
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        return sdpa(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])


def weights(q, k, first, causal, window=None, cap=0.0, sink=None):
    """Of some rows of one head, from `first` on, in float64."""
    s = q @ k.mT * q.shape[-1] ** -0.5
    if cap:
        s = cap * (s / cap).tanh()
    i = torch.arange(first, first + len(q), device="cuda")[:, None]
    j = torch.arange(len(k), device="cuda")
    if causal:
        s = s.masked_fill(j > i, -torch.inf)
    if window:
        s = s.masked_fill(j <= i - window, -torch.inf)
    if sink is None:
        return s.softmax(-1)
    most = s.amax(-1, keepdim=True).clamp(min=sink)
    e = (s - most).exp()
    return e / (e.sum(-1, keepdim=True) + (sink - most).exp())


def distance(got, want):
    return ((got.double() - want).norm() / want.norm()).item()


def rows_of_one_head(q, k, v, causal, **options):
    """Outputs of the first, middle and last 256 rows of the last head."""
    q, k, v = q[-1, -1].double(), k[-1, -1].double(), v[-1, -1].double()
    for first in 0, len(q) // 2, len(q) - 256:
        part = slice(first, first + 256)
        yield part, weights(q[part], k, first, causal, **options) @ v


def gradients_of_one_head(q, k, v, do, causal):
    """dq of the last query head, dk and dv of the last key head."""
    group = q.shape[1] // k.shape[1]
    kd, vd = k[-1, -1].double(), v[-1, -1].double()
    dk, dv = torch.zeros_like(kd), torch.zeros_like(vd)
    for h in range(-group, 0):
        qd, dod = q[-1, h].double(), do[-1, h].double()
        dq = torch.empty_like(qd)
        for first in range(0, len(qd), 2048):
            part = slice(first, first + 2048)
            p = weights(qd[part], kd, first, causal)
            dv += p.mT @ dod[part]
            dp = dod[part] @ vd.mT
            ds = p * (dp - (p * dp).sum(-1, keepdim=True)) * q.shape[-1] ** -0.5
            dq[part] = ds @ kd
            dk += ds.mT @ qd[part]
    return dq, dk, dv


class Row:
    """Calls by name, pairs of channels times two, and a check of their results."""

    def __init__(self, name, flops, calls, check):
        self.name, self.flops, self.calls, self.check = name, flops, calls, check


def forward_row(name, s, calls, pairs, ours, causal, **options):
    q, k, v = ours
    b, h, _, d = q.shape

    def check(results):
        for name, o in results.items():
            o = o.transpose(1, 2) if name[:2] == "FA" else o
            for part, want in rows_of_one_head(*ours, causal, **options):
                yield name, distance(o[-1, -1, part], want)

    return Row(name, 2 * b * h * pairs * (d + v.shape[-1]), calls, check)


def variant_rows():
    b, h, s = 2, 16, 8192
    half = s * (s + 1) // 2
    sinks = torch.linspace(-2, 8, h, device="cuda").bfloat16()
    cases = {
        "window 1024": (half - (s - 1024) * (s - 1023) // 2, True,
                        dict(window=(1023, 0)), dict(window_size=(1023, 0)),
                        dict(window=1024)),
        "sink causal": (half, True, dict(sinks=sinks.float()),
                        dict(learnable_sink=sinks), dict(sink=sinks[-1].double())),
        "softcap 30 full": (s * s, False, dict(softcap=30.0), dict(softcap=30.0),
                            dict(cap=30.0)),
        "softcap 30 causal": (half, True, dict(softcap=30.0), dict(softcap=30.0),
                              dict(cap=30.0)),
        "causal": (half, True, {}, {}, {}),
    }
    for name, (pairs, causal, mine, other, wide) in cases.items():
        def make(name=name, pairs=pairs, causal=causal, mine=mine, other=other,
                 wide=wide):
            ours, theirs = draw(b, s, h, h, 128, 128)
            calls = {
                "ours": lambda: attn.attention(
                    *ours, causal="top_left" if causal else None, **mine),
                "FA4": lambda: fa4()(*theirs, causal=causal, **other)[0],
            }
            if "window_size" not in other and "learnable_sink" not in other and fa3():
                calls["FA3"] = lambda: fa3()(*theirs, causal=causal, **other)
            if not mine:
                calls["cuDNN"] = lambda: cudnn(*ours, causal)
            return forward_row("2x8192 " + name, s, calls, pairs, ours, causal, **wide)

        yield "2x8192 " + name, make


def varlen_rows():
    def make():
        make = lambda: torch.randn(sum(DOCUMENTS), 16, 128, device="cuda",
                                   dtype=torch.bfloat16)
        q, k, v = make(), make(), make()
        lengths = torch.tensor((0, *DOCUMENTS), device="cuda")
        at = lengths.cumsum(0).int()
        # In memory as they come, and one head behind the other.
        packed = [x.transpose(0, 1).contiguous().transpose(0, 1) for x in (q, k, v)]
        mine = lambda *x: attn.attention(*x, layout="thd", causal="top_left",
                                         cu_seqlens_q=at, cu_seqlens_k=at)
        calls = {
            "ours": lambda: mine(q, k, v),
            "by heads": lambda: mine(*packed),
            "FA4": lambda: fa4("flash_attn_varlen_func")(
                q, k, v, cu_seqlens_q=at, cu_seqlens_k=at, max_seqlen_q=DOCUMENTS[0],
                max_seqlen_k=DOCUMENTS[0], causal=True)[0],
        }
        if fa3():
            calls["FA3"] = lambda: fa3("flash_attn_varlen_func")(
                q, k, v, cu_seqlens_q=at, cu_seqlens_k=at, max_seqlen_q=DOCUMENTS[0],
                max_seqlen_k=DOCUMENTS[0], causal=True)

        def check(results):
            for name, o in results.items():
                for first, n in zip(lengths.cumsum(0).tolist(), DOCUMENTS):
                    row = max(0, n - 256)
                    one = [x[first:first + n, -1].double() for x in (q, k, v)]
                    p = weights(one[0][row:], one[1], row, True)
                    yield name, distance(o[first + row:first + n, -1], p @ one[2])

        pairs = sum(n * (n + 1) // 2 for n in DOCUMENTS)
        return Row("ten documents of 32768", 4 * 16 * pairs * 128, calls, check)

    yield "ten documents of 32768", make


def plain_shapes():
    """d, dv, b, s, h, hk in the order of weight."""
    for b, s in SHAPES[:2]:
        for d, dv in DEPTHS[:4]:
            yield d, dv, b, s, 2048 // dv, 2048 // dv
    yield 128, 128, 4, 4096, 32, 8
    yield 128, 128, 2, 8192, 64, 8
    for b, s in SHAPES[:2]:
        yield 96, 96, b, s, 21, 21
    for d, dv in DEPTHS:
        yield d, dv, *SHAPES[2], 2048 // dv, 2048 // dv


def plain_name(d, dv, b, s, h, hk, causal):
    depth = f"{d}" if d == dv else f"{d}/{dv}"
    return f"d{depth} {b}x{s} {h}/{hk} {'causal' if causal else 'full'}"


def forward_rows():
    for shape in plain_shapes():
        for causal in False, True:
            def make(shape=shape, causal=causal):
                d, dv, b, s, h, hk = shape
                ours, theirs = draw(b, s, h, hk, d, dv)
                calls = {
                    "ours": lambda: attn.attention(
                        *ours, causal="top_left" if causal else None),
                    "FA4": lambda: fa4()(*theirs, causal=causal)[0],
                    "cuDNN": lambda: cudnn(*ours, causal),
                }
                return forward_row(plain_name(*shape, causal), s, calls,
                                   s * s // (2 if causal else 1), ours, causal)

            yield "forward " + plain_name(*shape, causal), make


def backward_row(shape, causal):
    d, dv, b, s, h, hk = shape
    ours, theirs = draw(b, s, h, hk, d, dv, True)
    do = torch.randn(b, s, h, dv, device="cuda", dtype=torch.bfloat16)
    cotangent = do.transpose(1, 2).contiguous()
    mine = lambda **o: attn.attention(*ours, causal="top_left" if causal else None, **o)
    forms = {
        "ours": (lambda: mine(), ours, cotangent),
        "any order": (lambda: mine(deterministic=False), ours, cotangent),
        "FA4": (lambda: fa4()(*theirs, causal=causal)[0], theirs, do),
        "in order": (lambda: fa4()(*theirs, causal=causal, deterministic=True)[0],
                     theirs, do),
        "cuDNN": (lambda: cudnn(*ours, causal), ours, cotangent),
    }
    calls = {}
    for name, (forward, inputs, do_) in forms.items():
        try:
            out = forward()
            call = lambda out=out, inputs=inputs, do_=do_: torch.autograd.grad(
                out, inputs, do_, retain_graph=True)
            call()
            torch.cuda.synchronize()
            calls[name] = call
        except Exception as error:
            print(f"{plain_name(*shape, causal)}: {name} refuses: "
                  f"{str(error).splitlines()[0][:90] if str(error) else error!r}")

    def check(results):
        want = gradients_of_one_head(*(x.detach() for x in ours), cotangent, causal)
        for name, got in results.items():
            if name in ("FA4", "in order"):
                got = [x.transpose(1, 2) for x in got]
            yield name, max(distance(x[-1, -1], y) for x, y in zip(got, want))
        for name in "ours", "in order":
            if name in results:
                again = calls[name]()
                if not all(map(torch.equal, results[name], again)):
                    print(f"{plain_name(*shape, causal)}: {name} had other bits")

    flops = (6 * d + 4 * dv) * b * h * s * s * (0.5 if causal else 1)
    return Row("backward " + plain_name(*shape, causal), flops, calls, check)


def backward_rows():
    for shape in plain_shapes():
        for causal in False, True:
            yield ("backward " + plain_name(*shape, causal),
                   lambda shape=shape, causal=causal: backward_row(shape, causal))


PARTS = dict(variants=variant_rows, varlen=varlen_rows, backward=backward_rows,
             forward=forward_rows)


def times(call, count):
    """Of calls that follow one another, in ms."""
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    marks[0].record()
    for mark in marks[1:]:
        call()
        mark.record()
    torch.cuda.synchronize()
    return [a.elapsed_time(b) for a, b in zip(marks, marks[1:])]


def median(values):
    return sorted(values)[len(values) // 2]


def measure(row):
    bursts, trains = {}, {}
    for name, call in row.calls.items():
        torch.cuda.synchronize()
        time.sleep(0.2)
        # The host is ahead by then: some of these calls take it 0.5 ms.
        torch.cuda._sleep(6_000_000)
        call()
        bursts[name] = median(times(call, 5))
    # The board is at its limit of power by the last: so once in each order.
    for name in [*row.calls, *reversed(row.calls)]:
        taken = times(row.calls[name], max(4, int(80 / bursts[name])))
        half = median(taken[len(taken) // 2:]) / 2
        trains[name] = trains.get(name, 0) + half
    return bursts, trains


def report(row):
    with torch.no_grad() if row.name[:8] != "backward" else torch.enable_grad():
        results = {name: call() for name, call in row.calls.items()}
        worst = {}
        for name, error in row.check(results):
            worst[name] = max(error, worst.get(name, 0))
            if not error < 1e-2:
                print(f"{row.name}: {name} is off by {error:.2g}")
        del results
        bursts, trains = measure(row)
    rate = lambda ms: row.flops / ms * 1e-9
    cells = [f"{name} {rate(bursts[name]):.0f}/{rate(trains[name]):.0f}"
             for name in row.calls]
    print(f"{row.name} | {' | '.join(cells)} | {ratios(bursts, trains)} | "
          f"ms {bursts['ours']:.4g} | off {max(worst.values()):.1e}", flush=True)


def cycles(row):
    mark = torch.full((32,), 0.5, device="cuda")
    with torch.no_grad() if row.name[:8] != "backward" else torch.enable_grad():
        for name, call in row.calls.items():
            call()
            torch.cuda.synchronize()
            torch.cuda.profiler.start()
            mark.erfinv_()
            call()
            torch.cuda.synchronize()
            torch.cuda.profiler.stop()
            print("CASE", row.flops, name, row.name, sep="\t",
                  flush=True)


def add_up(path):
    """Cycles of all kernels of each call, from what ncu says of --cycles."""
    with open(path) as file:
        lines = file.read().splitlines()
    head, units, *table = csv.reader(x for x in lines if x.startswith('"'))
    name, value = head.index("Kernel Name"), head.index("sm__cycles_elapsed.max")
    scale = {"cycle": 1e-6, "Kcycle": 1e-3, "Mcycle": 1}[units[value]]
    calls = []
    for kernel in table:
        if "erfinv" in kernel[name]:
            calls.append([])
        else:
            calls[-1].append(float(kernel[value].replace(",", "")) * scale)
    cases = [x.split("\t")[1:] for x in lines if x.startswith("CASE")]
    rows = {}
    for (flops, who, row), call in zip(cases, calls):
        # A multiprocessor of Hopper multiplies and adds 2048 pairs a cycle.
        share = float(flops) / (132 * 4096e6 * sum(call))
        rows.setdefault(row, {})[who] = sum(call), share, len(call)
    for row, calls in rows.items():
        cells = [f"{who} {total:.3f} ({share:.1%}, {count})"
                 for who, (total, share, count) in calls.items()]
        print(f"{row} | {' | '.join(cells)} | "
              f"{ratios({who: x[0] for who, x in calls.items()})}")


def ratios(*times):
    """Rates of ours by those of peers, for each kind of times."""
    return "; ".join(
        f"{mine}:{other} " + "/".join(f"{t[other] / t[mine]:.3f}" for t in times)
        for mine in ("ours", "any order") if mine in times[0]
        for other in ("FA4", "in order", "FA3", "cuDNN") if other in times[0])


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("parts", nargs="?", default=",".join(PARTS))
    parser.add_argument("--rows", default="")
    parser.add_argument("--seconds", type=float, default=150)
    parser.add_argument("--cycles", action="store_true")
    parser.add_argument("--warm")
    parser.add_argument("--sum")
    args = parser.parse_args()
    if args.sum:
        return add_up(args.sum)
    warnings.filterwarnings("ignore")
    start = time.time()
    rows = [row for part in args.parts.split(",") for row in PARTS[part]()]
    rows = [row for row in rows if any(t in row[0] for t in args.rows.split(","))]
    if args.warm:
        first, step = map(int, args.warm.split("/"))
        rows = rows[first::step]
    for name, make in rows:
        if time.time() - start > args.seconds:
            print(f"{name}: no time left")
            continue
        try:
            row = make()
            if args.warm:
                for call in row.calls.values():
                    call()
                torch.cuda.synchronize()
            else:
                (cycles if args.cycles else report)(row)
        except Exception as error:
            print(f"{name}: {error!r}"[:300], flush=True)
        row = make = None
    print(f"{time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
