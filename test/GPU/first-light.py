#!/usr/bin/env python3
"""Kernels on a Hopper GPU beside torch: errors against float64, and times.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

    test/GPU/first-light.py [STEP...] [--kernel FILE.mlir] [--seconds N]

Steps, each a process of its own that is ended after N seconds, so that a kernel
that hangs or faults takes nothing with it:

    info      device, driver, the compile and load times of the kernel
    hand      the kernel written by hand (causal, d = 128) against float64
    speed     its times beside cuDNN's, burst and sustained
    compiled  attn.attention against float64
    packed    rows of no sequence in the layout "thd" are rows without keys
    compare   its times beside cuDNN's, burst and sustained
    flex      the same beside cuDNN and FlexAttention, which takes minutes
    graph     capture into a graph, runs from threads

A row ends in "ok" or "WRONG"; the last line counts them. Needs torch.
"""

import argparse
import math
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in ("python", "../python"):
    path = os.path.join(HERE, "..", folder)
    if os.path.isdir(os.path.join(path, "attn")):
        sys.path.insert(0, os.path.abspath(path))

STEPS = ("info", "hand", "speed", "compiled", "packed", "compare", "flex", "graph")
counts = {"ok": 0, "WRONG": 0}


def find_kernel(given):
    name = "hopper-forward.mlir"
    places = [given] if given else [
        os.path.join(HERE, name),
        os.path.join(HERE, "..", "Dialect", "TileGPU", "kernels", name),
    ]
    for path in places:
        if os.path.exists(path):
            return path
    sys.exit("first-light: expected a kernel at %s" % " or ".join(places))


def report(name, good, text):
    word = "ok" if good else "WRONG"
    counts[word] += 1
    print("%-44s %s  %s" % (name, text, word), flush=True)


# ---- Numbers -----------------------------------------------------------------


def draw(shape, strided=False):
    """Normal numbers in bf16; `strided`: in memory as [b, s, h, d]."""
    import torch

    b, h, s, d = shape
    if strided:
        x = torch.randn((b, s, h, d), device="cuda").to(torch.bfloat16)
        return x.transpose(1, 2)
    return torch.randn(shape, device="cuda").to(torch.bfloat16)


def exact(q, k, v, scale, causal):
    """Output and log-sum-exp in float64, causal bottom-right, head by head."""
    import torch

    b, hq, sq, _ = q.shape
    hk, sk = k.shape[1], k.shape[2]
    out = torch.zeros((b, hq, sq, v.shape[3]), dtype=torch.float64, device="cuda")
    lse = torch.full((b, hq, sq), -math.inf, dtype=torch.float64, device="cuda")
    if sk == 0 or sq == 0:
        return out, lse
    live = None
    if causal:
        i = torch.arange(sq, device="cuda")[:, None] + (sk - sq)
        live = torch.arange(sk, device="cuda")[None, :] <= i
    for n in range(b):
        for h in range(hq):
            g = h // (hq // hk)
            s = q[n, h].double() @ k[n, g].double().T * scale
            if live is not None:
                s = s.masked_fill(~live, -math.inf)
            lse[n, h] = torch.logsumexp(s, -1)
            p = torch.exp(s - lse[n, h].clamp(min=-1e300)[:, None])
            out[n, h] = torch.nan_to_num(p, nan=0.0) @ v[n, g].double()
    return out, lse


def errors(out, want):
    """The largest error and that of the norm; NaN counts as infinite."""
    import torch

    if out.numel() == 0:
        return 0.0, 0.0
    diff = (out.double() - want).abs()
    if not bool(torch.isfinite(diff).all()):
        return math.inf, math.inf
    return diff.max().item(), (diff.norm() / want.norm().clamp(min=1e-30)).item()


def poison(shape, dtype):
    import torch

    return torch.full(shape, math.nan, dtype=dtype, device="cuda")


# ---- Times -------------------------------------------------------------------


def burst(run, count=5):
    """Milliseconds of a launch from idle: a warm-up, then the median of a few.

    A kernel that waits, for some milliseconds, lets the host get ahead: what is
    between two events is launches, not what the host does between them.
    """
    import torch

    torch.cuda.synchronize()
    time.sleep(0.3)
    run()
    torch.cuda._sleep(6_000_000)  # cycles
    points = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    points[0].record()
    for point in points[1:]:
        run()
        point.record()
    torch.cuda.synchronize()
    return statistics.median(a.elapsed_time(b) for a, b in zip(points, points[1:]))


def host_time(run, count=20):
    """Microseconds that the host takes for a call, the median, the GPU waiting."""
    import torch

    torch.cuda.synchronize()
    torch.cuda._sleep(20_000_000)
    points = [time.perf_counter()]
    for _ in range(count):
        run()
        points.append(time.perf_counter())
    torch.cuda.synchronize()
    return statistics.median(b - a for a, b in zip(points, points[1:])) * 1e6


def sustained(run, ms, train=250.0, tail=0.4):
    """The mean of the last 40 % of a train of launches."""
    import torch

    count = max(5, min(20000, int(train / ms)))
    last = max(1, int(count * tail))
    start = torch.cuda.Event(enable_timing=True)
    end = torch.cuda.Event(enable_timing=True)
    for i in range(count):
        if i == count - last:
            start.record()
        run()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / last


def flops(q, k, v, causal):
    b, h, sq, d = q.shape
    sk = k.shape[2]
    pairs = sq * sk - (sq * (sq - 1) // 2 if causal and sq == sk else 0)
    return 2.0 * b * h * pairs * (d + v.shape[3])


def cudnn(q, k, v, causal):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    import torch.nn.functional as F

    def run():
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return F.scaled_dot_product_attention(
                q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1]
            )

    run()
    return run


def race(name, runs, work):
    """A row: TFLOP/s of each, from idle and sustained, with ours over the best of
    the others', and the microseconds of a call on the host."""
    cells, ratios = [], []
    for measure in ("burst", "sustained"):
        rates = {}
        for label, run in runs.items():
            if run is None:
                continue
            ms = burst(run)
            if measure == "sustained":
                ms = sustained(run, ms)
            rates[label] = work / ms * 1e-9
        best = max((rate for label, rate in rates.items() if label != "ours"),
                   default=math.nan)
        cells.append(measure + " "
                     + "  ".join("%s %.0f" % cell for cell in rates.items()))
        cells[-1] += "  of the best %.3f" % (rates["ours"] / best)
    host = ["%s %.0f" % (label, host_time(run)) for label, run in runs.items() if run]
    cells.append("host us " + "  ".join(host))
    print("%-28s %s" % (name, "   ".join(cells)), flush=True)


def try_flex(q, k, v, causal):
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    try:
        mask = None
        if causal:
            mask = create_block_mask(
                lambda b, h, i, j: i >= j, None, None, q.shape[2], k.shape[2],
                device=q.device
            )
        compiled = torch.compile(flex_attention, dynamic=False)
        gqa = q.shape[1] != k.shape[1]

        def run():
            return compiled(q, k, v, block_mask=mask, enable_gqa=gqa)

        run()
        return run
    except Exception as error:  # its own limits are not ours to mend
        print("FlexAttention: %s" % str(error).strip().split("\n")[0][:200])
        return None


def try_cudnn(q, k, v, causal):
    try:
        return cudnn(q, k, v, causal)
    except Exception as error:  # its own limits are not ours to mend
        print("cuDNN: %s" % str(error).split("\n")[0])
        return None


# ---- Steps -------------------------------------------------------------------


def compile_hand(path):
    import attn

    with open(path) as file:
        return attn.compile(file.read(), target="sm_90a", source_name=path)


def step_info(path):
    import torch
    import attn

    print(torch.__version__, torch.version.cuda, torch.cuda.get_device_name())
    for label in ("cold", "again (disk cache)"):
        # Another process finds what the first one left.
        code = (
            "import sys, time; sys.path[:0] = %r; import attn;"
            "text = open(%r).read(); t = time.perf_counter();"
            "k = attn.compile(text, target='sm_90a', no_cache=%r);"
            "c = time.perf_counter(); k.load(); l = time.perf_counter();"
            "print('compile %%.1f ms, load %%.1f ms' %% ((c - t) * 1e3, (l - c) * 1e3),"
            " k.timings, 'cubin', len(k.cubin() or b''))"
        ) % (sys.path[:2], path, label == "cold")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True,
                              text=True)
        print("%s: %s%s" % (label, done.stdout.strip(), done.stderr.strip()[-2000:]))
        if label == "cold":
            subprocess.run([sys.executable, "-c",
                            code.replace("no_cache=True", "no_cache=False")],
                           capture_output=True)
    kernel = compile_hand(path)
    print(kernel.explain())


def step_hand(path):
    import torch

    kernel = compile_hand(path)
    torch.manual_seed(0)
    # b, hq, hk, sq, sk, in memory as [b, s, h, d]
    for b, hq, hk, sq, sk, strided in [
        (1, 1, 1, 128, 128, False),
        (1, 1, 1, 256, 256, False),
        (1, 2, 1, 64, 128, False),
        (2, 4, 2, 512, 512, True),
        (1, 2, 2, 1111, 1111, False),
        (2, 3, 1, 77, 333, False),
        (1, 2, 2, 1, 1000, False),
        (1, 2, 1, 300, 100, False),
        (1, 2, 1, 100, 0, False),
        (3, 8, 2, 2048, 2048, True),
        (1, 4, 4, 4096, 4096, False),
    ]:
        q, k, v = (draw(s, strided) for s in
                   [(b, hq, sq, 128), (b, hk, sk, 128), (b, hk, sk, 128)])
        scale = 1 / math.sqrt(128)
        name = "hand b%d hq%d hk%d sq%d sk%d%s" % (b, hq, hk, sq, sk, " bshd" * strided)
        outs, lses = [], []
        for _ in range(3):
            out = poison((b, hq, sq, 128), torch.bfloat16)
            lse = poison((b, hq, sq), torch.float32)
            kernel(q, k, v, scale, out=(out, lse))
            torch.cuda.synchronize()
            outs.append(out)
            lses.append(lse)
        want, want_lse = exact(q, k, v, scale, True)
        most, norm = errors(outs[0], want)
        live = want_lse > -math.inf
        lse_error = errors(lses[0][live], want_lse[live])[0]
        dead = bool((lses[0][~live] == -math.inf).all())
        same = all(torch.equal(outs[0], x) for x in outs[1:])
        report(
            name,
            most < 3e-2 and norm < 6e-3 and lse_error < 1e-3 and dead and same,
            "max %.1e norm %.1e lse %.1e%s%s"
            % (most, norm, lse_error, "" if same else " REPEATS DIFFER",
               "" if dead else " dead rows"),
        )


def step_speed(path):
    import torch

    kernel = compile_hand(path)
    torch.manual_seed(0)
    for b, hq, hk, s in [(1, 16, 16, 16384), (4, 16, 16, 4096), (16, 16, 16, 1024),
                         (4, 32, 8, 4096)]:
        q, k, v = (draw((b, h, s, 128)) for h in (hq, hk, hk))
        out = torch.empty_like(q)
        lse = torch.empty((b, hq, s), device="cuda")
        scale = 1 / math.sqrt(128)
        race("hand causal %dx%d hq%d hk%d d128" % (b, s, hq, hk),
             {"ours": lambda: kernel(q, k, v, scale, out=(out, lse)),
              "cuDNN": try_cudnn(q, k, v, True)}, flops(q, k, v, True))


def step_compiled(path):
    import torch
    import attn

    torch.manual_seed(0)
    for d, dv, causal, b, hq, hk, sq, sk in [
        (128, 128, False, 1, 1, 1, 128, 128),
        (128, 128, False, 2, 4, 2, 512, 512),
        (128, 128, True, 2, 4, 2, 512, 512),
        (128, 128, True, 1, 2, 2, 1111, 1111),
        (128, 128, True, 2, 3, 1, 77, 333),
        (128, 128, True, 1, 2, 1, 300, 100),
        (128, 128, False, 1, 2, 1, 100, 0),
        (64, 64, False, 2, 4, 4, 1000, 777),
        (64, 64, True, 2, 4, 4, 1024, 1024),
        (96, 96, True, 1, 2, 2, 500, 500),
        (192, 128, True, 1, 2, 2, 500, 500),
        (192, 192, False, 1, 2, 2, 500, 500),
        (256, 256, False, 1, 2, 2, 700, 700),
        (256, 256, True, 1, 2, 2, 700, 700),
        (40, 24, True, 1, 2, 2, 200, 200),
    ]:
        name = "attention d%d/%d %s b%d hq%d hk%d sq%d sk%d" % (
            d, dv, "causal" if causal else "full", b, hq, hk, sq, sk)
        q, k, v = (draw(s) for s in [(b, hq, sq, d), (b, hk, sk, d), (b, hk, sk, dv)])
        try:
            outs = []
            for _ in range(3):
                out = poison((b, hq, sq, dv), torch.bfloat16)
                _, lse = attn.attention(q, k, v, out=out, return_lse=True,
                                        causal="bottom_right" if causal else None)
                torch.cuda.synchronize()
                outs.append(out)
        except (ValueError, NotImplementedError) as error:
            report(name, False, str(error).split("\n")[0][:300])
            continue
        want, want_lse = exact(q, k, v, 1 / math.sqrt(d), causal)
        most, norm = errors(outs[0], want)
        live = want_lse > -math.inf
        lse_error = errors(lse[live], want_lse[live])[0]
        same = all(torch.equal(outs[0], x) for x in outs[1:])
        report(name, most < 3e-2 and norm < 6e-3 and lse_error < 1e-3 and same,
               "max %.1e norm %.1e lse %.1e%s"
               % (most, norm, lse_error, "" if same else " REPEATS DIFFER"))


def step_packed(path):
    """Into memory that held NaN, by attn.attention and by a kernel's handle."""
    import torch
    import attn

    torch.manual_seed(0)
    total = 500
    # What outputs are in a row without keys; 0 where it is not said.
    dead = {"lse": -math.inf, "max": -math.inf}
    for monoid in ("softmax", "softmax_max", "softmax_entropy", "sigmoid_sum"):
        names = attn.monoids()[monoid][1:]
        for dtype in (torch.bfloat16, torch.float16, torch.float32):
            for causal in (None, "bottom_right"):
                name = "packed %s %s %s" % (monoid, str(dtype)[6:], causal or "full")
                q, k, v = (torch.randn(total, h, 64, device="cuda").to(dtype)
                           for h in (4, 2, 2))
                wrong = []
                for ends in ([0, 130, 300], [0, 128, 256], [0, 40, 40], [0, 0], [0],
                             [0, 1, 500], [0, 130, 499]):
                    cu = torch.tensor(ends, dtype=torch.int32, device="cuda")
                    for _ in range(2):  # the second time by a plan
                        out = poison((total, 4, 64), dtype)
                        # What is free next held NaN.
                        held = [poison((4, total), torch.float32) for _ in range(4)]
                        del held
                        o, aux = attn.attention(
                            q, k, v, layout="thd", cu_seqlens_q=cu, cu_seqlens_k=cu,
                            causal=causal, monoid=monoid, return_aux=names, out=out)
                        torch.cuda.synchronize()
                        n = ends[-1]
                        good = bool((o[n:] == 0).all() and torch.isfinite(o).all())
                        for output, x in aux.items():
                            good &= bool((x[:, n:] == dead.get(output, 0.0)).all())
                            good &= bool(torch.isfinite(x[:, :n]).all())
                        if not good:
                            wrong.append(ends)
                report(name, not wrong, "offsets %s" % wrong if wrong else "")
    text = """
func.func @one(%x: tensor<2x?x64xbf16>, %cu: tensor<?xi32>)
    -> (tensor<2x?x64xbf16>, tensor<2x?xf32>) {
  %o, %lse = attn.attention queries(%x : tensor<2x?x64xbf16>)
      keys(%x : tensor<2x?x64xbf16>) values(%x : tensor<2x?x64xbf16>)
      cu_seqlens_q(%cu : tensor<?xi32>) cu_seqlens_k(%cu : tensor<?xi32>)
      -> tensor<2x?x64xbf16>, tensor<2x?xf32>
  return %o, %lse : tensor<2x?x64xbf16>, tensor<2x?xf32>
}
"""
    kernel = attn.compile(text, target="cuda")
    x = draw((1, 2, total, 64))[0]
    for ends in ([0, 130, 300], [0], [0, 500]):
        outs = poison((2, total, 64), torch.bfloat16), poison((2, total), torch.float32)
        o, lse = kernel(x, torch.tensor(ends, dtype=torch.int32, device="cuda"),
                        out=outs)
        torch.cuda.synchronize()
        n = ends[-1]
        report("offsets of rows and keys in one %s" % ends,
               bool((o[:, n:] == 0).all() and (lse[:, n:] == -math.inf).all()
                    and torch.isfinite(o).all() and torch.isfinite(lse[:, :n]).all()),
               "")


def step_compare(path, flex=False):
    import torch
    import attn

    torch.manual_seed(0)
    shapes = [(1, 16384), (4, 4096), (16, 1024)]
    rows = [(b, 2048 // max(d, dv), 2048 // max(d, dv), s, d, dv, causal)
            for d, dv in ((128, 128), (64, 64), (256, 256), (192, 128))
            for causal in (False, True) for b, s in shapes]
    rows = [(b, 16, 16, s, d, dv, c) if d == 192 else (b, h, hk, s, d, dv, c)
            for b, h, hk, s, d, dv, c in rows]
    rows.append((4, 32, 8, 4096, 128, 128, True))
    for b, h, hk, s, d, dv, causal in rows:
        q = draw((b, h, s, d))
        k, v = draw((b, hk, s, d)), draw((b, hk, s, dv))
        out = torch.empty((b, h, s, dv), dtype=q.dtype, device=q.device)
        name = "d%s %s %dx%d" % (d if d == dv else "%d/%d" % (d, dv),
                                 "causal" if causal else "full", b, s)
        if h != hk:
            name += " heads %d/%d" % (h, hk)
        option = "bottom_right" if causal else None

        def run():
            attn.attention(q, k, v, out=out, causal=option)

        try:
            run()
            torch.cuda.synchronize()
        except (ValueError, NotImplementedError) as error:
            report(name, False, str(error).split("\n")[0][:300])
            continue
        runs = {"ours": run, "cuDNN": try_cudnn(q, k, v, causal)}
        if flex:
            runs["Flex"] = try_flex(q, k, v, causal)
        race(name, runs, flops(q, k, v, causal))
        if flex:
            torch._dynamo.reset()  # each shape is compiled for itself


def step_flex(path):
    step_compare(path, flex=True)


def step_graph(path):
    import threading
    import torch

    kernel = compile_hand(path)
    kernel.load()
    torch.manual_seed(0)
    q, k, v = (draw((2, 4, 512, 128)) for _ in range(3))
    scale = 1 / math.sqrt(128)
    want = kernel(q, k, v, scale)[0]
    torch.cuda.synchronize()

    out = poison((2, 4, 512, 128), torch.bfloat16)
    lse = poison((2, 4, 512), torch.float32)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(q, k, v, scale, out=(out, lse))
    for _ in range(3):
        out.fill_(math.nan)
        graph.replay()
        torch.cuda.synchronize()
        report("graph replay", torch.equal(out, want), "")

    results = [None] * 8

    def work(i):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(20):
                results[i] = kernel(q, k, v, scale)[0]
        stream.synchronize()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    report("8 threads, a stream each",
           all(x is not None and torch.equal(x, want) for x in results), "")
    for name, args in [
        ("host and GPU mixed", (q, k.cpu(), v, scale)),
        ("misaligned", (q.flatten()[1:1 + 2 * 4 * 500 * 128].view(2, 4, 500, 128),
                        k, v, scale)),
    ]:
        try:
            kernel(*args)
            report(name, False, "no error")
        except ValueError as error:
            report(name, "\n" not in str(error), str(error)[:160])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("steps", nargs="*", default=[s for s in STEPS if s != "flex"])
    parser.add_argument("--kernel")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--here", action="store_true", help="run in this process")
    options = parser.parse_args()
    for step in options.steps:
        if step not in STEPS:
            parser.error("expected a step out of %s, but got %r"
                         % (", ".join(STEPS), step))
    path = find_kernel(options.kernel)
    if options.here:
        for step in options.steps:
            globals()["step_" + step](path)
        print("%d ok, %d wrong" % (counts["ok"], counts["WRONG"]))
        return counts["WRONG"] != 0
    failed = False
    for step in options.steps:
        print("== %s" % step, flush=True)
        command = [sys.executable, os.path.abspath(__file__), step, "--here",
                   "--kernel", path]
        try:
            failed |= subprocess.run(command, timeout=options.seconds).returncode != 0
        except subprocess.TimeoutExpired:
            failed = True
            print("first-light: %s was ended after %g s" % (step, options.seconds))
    return failed


if __name__ == "__main__":
    sys.exit(main())
