"""Speed on the CPU beside PyTorch's SDPA and OpenVINO's fused attention.

    test/Benchmarks/cpu.py [--sizes 512,2048,8192] [--dims 64,128]
                           [--dtypes f32,bf16] [--threads 2] [--seconds 0.5]

All run in this one process on the same threads and the same inputs, taking
turns; each figure is a median over the turns. Before timing, the outputs are
compared with each other. Peers that are not installed are left out. The output
is Markdown.

A turn is: a pause, in which the threads of the one before stop spinning, one
call that is not counted, and calls for at least 20 ms (or one).

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import argparse
import ctypes
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

import attn

try:
    import torch
except ImportError:
    torch = None
try:
    import openvino
    import openvino.opset13 as ops
except ImportError:
    openvino = None
try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

# The clock that --clock chose.
now = time.perf_counter

# ---- Peaks -----------------------------------------------------------------

# Independent multiply-adds on vectors, as many as hide their latency.
FMA_LOOP = """
#include <pthread.h>
typedef float Vec __attribute__((vector_size(%(bytes)d)));
static void *work(void *argument) {
  Vec a[12], x, y;
  for (int i = 0; i < 12; ++i) a[i] = (Vec){} + (float)i;
  x = (Vec){} + 0.999f; y = (Vec){} + 0.001f;
  for (long n = *(long *)argument; n > 0; --n)
    for (int i = 0; i < 12; ++i)
      a[i] = a[i] * x + y;
  for (int i = 0; i < 12; ++i) __asm__ volatile("" : : "x"(a[i]));
  return 0;
}
double run(int threads, long n) {
  pthread_t ids[256];
  for (int i = 0; i < threads; ++i) pthread_create(&ids[i], 0, work, &n);
  for (int i = 0; i < threads; ++i) pthread_join(ids[i], 0);
  return 12.0 * 2 * sizeof(Vec) / 4 * n * threads;
}
"""


def fma_peak(threads):
    """f32 multiply-adds, GFLOP/s, by a loop in C; None without a compiler."""
    width = 64 if "avx512f" in cpuinfo("flags").split() else 32
    with tempfile.TemporaryDirectory() as folder:
        source, library = folder + "/fma.c", folder + "/fma.so"
        with open(source, "w") as file:
            file.write(FMA_LOOP % {"bytes": width})
        command = ["cc", "-O3", "-march=native", "-ffp-contract=fast"]
        command += ["-shared", "-fPIC", "-pthread", source, "-o", library]
        try:
            subprocess.run(command, check=True, stderr=subprocess.PIPE)
        except (OSError, subprocess.CalledProcessError):
            return None
        run = ctypes.CDLL(library).run
    run.restype, run.argtypes = ctypes.c_double, [ctypes.c_int, ctypes.c_long]
    best = 0.0
    for _ in range(7):
        start = now()
        flop = run(threads, 30_000_000)
        best = max(best, flop / (now() - start) / 1e9)
    return best


def matmul_rate(dtype):
    """The best of torch's matrix products of 2048, GFLOP/s."""
    if torch is None:
        return None
    a = torch.randn(2048, 2048).to(getattr(torch, dtype))
    best = 0.0
    for _ in range(7):
        start = now()
        torch.mm(a, a)
        best = max(best, 2 * 2048**3 / (now() - start) / 1e9)
    return best


# ---- Machine ---------------------------------------------------------------


def cpuinfo(key):
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith(key):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return ""


def print_machine(args, peaks):
    flags = cpuinfo("flags").split()
    known = ["avx2", "avx512f", "avx512_bf16", "amx_bf16"]
    print("- machine: %s; %d cores; %s" % (
        cpuinfo("model name"), len(os.sched_getaffinity(0)),
        ", ".join(flag for flag in known if flag in flags)))
    print("- threads: %d; %s clock; load of the machine before: %.1f" % (
        args.threads, args.clock, os.getloadavg()[0]))
    versions = ["attn %s (%s)" % (attn.__version__, attn.host_target())]
    if torch:
        versions.append("torch %s" % torch.__version__)
    if openvino:
        versions.append("openvino %s" % openvino.__version__.split("-")[0])
    versions += ["numpy " + np.__version__, "python %d.%d.%d" % sys.version_info[:3]]
    print("- versions: " + ", ".join(versions))
    for name, peak in peaks.items():
        print("- %s: %s"
              % (name, "not measured" if peak is None else "%.0f GFLOP/s" % peak))
    print()


# ---- Contenders ------------------------------------------------------------

NUMPY = {"f32": np.float32, "bf16": ml_dtypes.bfloat16 if ml_dtypes else None}
TORCH = {"f32": "float32", "bf16": "bfloat16"}


def to_torch(array):
    if array.dtype == np.float32:
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)


def make_ours(q, k, v, **options):
    out = np.empty(q.shape[:3] + v.shape[3:], q.dtype)

    def call():
        attn.attention(q, k, v, out=out, **options)
        return out

    return call


def make_torch(q, k, v, causal):
    q, k, v = map(to_torch, (q, k, v))
    sdpa = torch.nn.functional.scaled_dot_product_attention

    def call():
        with torch.no_grad():
            return sdpa(q, k, v, is_causal=causal)

    return call


def make_openvino(q, k, v, causal, threads):
    kind = openvino.Type.f32 if q.dtype == np.float32 else openvino.Type.bf16
    nodes = [ops.parameter(list(x.shape), kind) for x in (q, k, v)]
    node = ops.scaled_dot_product_attention(*nodes, causal=causal)
    model = openvino.Model([node], nodes, "attention")
    # Inputs as they are; nothing is computed in less than what was asked for.
    compiled = openvino.compile_model(model, "CPU", {
        "INFERENCE_NUM_THREADS": str(threads),
        "INFERENCE_PRECISION_HINT": "f32" if q.dtype == np.float32 else "bf16",
        "PERFORMANCE_HINT": "LATENCY",
        "ENABLE_CPU_PINNING": "NO",
    })
    request = compiled.create_infer_request()
    for i, array in enumerate((q, k, v)):
        tensor = openvino.Tensor(kind, openvino.Shape(array.shape))
        tensor.data.view(np.uint8)[:] = array.view(np.uint8)
        request.set_input_tensor(i, tensor)

    def call():
        request.infer()
        return request.get_output_tensor(0).data

    return call


def to_float(result, dtype):
    """A contender's output as float32 NumPy array."""
    if torch and isinstance(result, torch.Tensor):
        return result.float().numpy()
    if dtype == "bf16" and result.dtype.itemsize == 2:
        result = result.view(NUMPY["bf16"])
    return result.astype(np.float32)


def verify(calls, dtype):
    """The largest distance between any contender and ours; fails if too far."""
    outputs = {name: to_float(call(), dtype) for name, call in calls.items()}
    ours = outputs["attn"]
    worst = max(np.abs(out - ours).max() for out in outputs.values())
    bound = (1e-5 if dtype == "f32" else 2e-2) * max(1.0, np.abs(ours).max())
    if not worst <= bound:
        distances = {n: float(np.abs(o - ours).max()) for n, o in outputs.items()}
        sys.exit("outputs differ by more than %g: %s" % (bound, distances))
    return worst


def measure(calls, seconds, turns):
    """Median seconds of each, taking turns."""
    counts = {}
    for name, call in calls.items():
        call()
        start = now()
        call()
        counts[name] = max(1, int(0.02 / max(now() - start, 1e-6)))
    times = {name: [] for name in calls}
    begin = time.perf_counter()
    while (
        len(times["attn"]) < turns
        or time.perf_counter() - begin < seconds * len(calls)
    ):
        for name, call in calls.items():
            time.sleep(0.005)
            call()
            start = now()
            for _ in range(counts[name]):
                call()
            times[name].append((now() - start) / counts[name])
    return {name: statistics.median(values) for name, values in times.items()}


# ---- Tables ----------------------------------------------------------------


def inputs(s, d, dtype, h=8):
    rng = np.random.default_rng(s + d)
    return [rng.standard_normal((1, h, s, d), np.float32).astype(NUMPY[dtype])
            for _ in range(3)]


def compare(args, peaks):
    """Ours beside the peers. A FLOP is counted for live pairs only."""
    print("GFLOP/s count live pairs; the peak is that of f32 FMA, for bf16 the rate "
          "of torch's matrix product.\n")
    peers = [p for p, found in (("torch", torch), ("openvino", openvino)) if found]
    columns = ["dtype", "d", "s", "mask", "attn ms"] + [p + " ms" for p in peers]
    columns += ["best peer / attn", "attn GFLOP/s", "of peak", "max distance"]
    print("| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    ratios = []
    for dtype in args.dtypes:
        peak = peaks["f32 FMA peak" if dtype == "f32" else "bf16 matrix product"]
        for d in args.dims:
            for s in args.sizes:
                for causal in (False, True):
                    q, k, v = inputs(s, d, dtype)
                    calls = {"attn": make_ours(
                        q, k, v, causal="top_left" if causal else None)}
                    if torch:
                        calls["torch"] = make_torch(q, k, v, causal)
                    if openvino:
                        calls["openvino"] = make_openvino(q, k, v, causal, args.threads)
                    distance = verify(calls, dtype)
                    times = measure(calls, args.seconds, args.turns)
                    pairs = s * (s + 1) / 2 if causal else s * s
                    rate = 4 * 8 * pairs * d / times["attn"] / 1e9
                    best = min((times[p] for p in peers), default=float("nan"))
                    ratios.append(best / times["attn"])
                    row = [dtype, d, s, "causal" if causal else "full"]
                    row += ["%.3f" % (1e3 * times[name]) for name in ["attn"] + peers]
                    row += ["%.2f" % ratios[-1], "%.0f" % rate]
                    row += ["%.0f %%" % (100 * rate / peak) if peak else "-"]
                    row += ["%.1e" % distance]
                    print("| " + " | ".join(map(str, row)) + " |", flush=True)
    if peers:
        print("\nbest peer / attn: least %.2f, median %.2f; %d of %d at least 1\n" % (
            min(ratios), statistics.median(ratios),
            sum(ratio >= 1 for ratio in ratios), len(ratios)))


def touched(s, block_q, block_k, left, right):
    """Query-key pairs in the tiles that hold a live pair; -1 is unbounded."""
    pairs = 0
    for first in range(0, s, block_q):
        last = min(first + block_q, s) - 1
        low = 0 if left < 0 else max(0, first - left)
        high = s - 1 if right < 0 else min(s - 1, last + right)
        tiles = high // block_k - low // block_k + 1
        pairs += (last - first + 1) * min(tiles * block_k, s - low // block_k * block_k)
    return pairs


def variants(args):
    """Our own variants: GFLOP/s on the tiles that hold a live pair."""
    print("| dtype | d | s | variant | ms | GFLOP/s on touched tiles | of plain |")
    print("|---|---|---|---|---|---|---|")
    notes = []
    for dtype in args.dtypes:
        d, s = 128, args.variant_size
        q, k, v = inputs(s, d, dtype)
        kinds = {
            "plain": ({}, -1, -1),
            "causal": ({"causal": "top_left"}, -1, 0),
            "window 1024": ({"window": (1024, 0)}, 1024, 0),
            "softcap 30": ({"softcap": 30.0}, -1, -1),
        }
        text = attn.compile(q, k, v).mlir("schedule")
        found = {
            key: re.search(key + r"\s*=\s*(\d+)", text)
            for key in ("block_q", "block_k")
        }
        if not all(found.values()):
            sys.exit("expected a schedule in the IR, but there is none")
        blocks = [int(found[key].group(1)) for key in ("block_q", "block_k")]
        calls = {name: make_ours(q, k, v, **options)
                 for name, (options, _, _) in kinds.items()}
        calls["attn"] = calls.pop("plain")
        times = measure(calls, args.seconds, args.turns)
        times["plain"] = times.pop("attn")
        rates = {
            name: 4 * 8 * touched(s, *blocks, left, right) * d / times[name] / 1e9
            for name, (_, left, right) in kinds.items()
        }
        for name in kinds:
            print("| %s | %d | %d | %s | %.3f | %.0f | %.0f %% |" % (
                dtype, d, s, name, 1e3 * times[name], rates[name],
                100 * rates[name] / rates["plain"]))
        notes.append("%s: tiles of %d queries by %d keys." % (dtype, *blocks))
    print("\n" + "\n".join(notes))


def main():
    def numbers(text):
        return [int(x) for x in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", type=numbers, default=[512, 2048, 8192])
    parser.add_argument("--dims", type=numbers, default=[64, 128])
    parser.add_argument("--dtypes", type=lambda x: x.split(","),
                        default=["f32", "bf16"] if ml_dtypes else ["f32"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.5,
                        help="time spent on each figure, at least")
    parser.add_argument("--turns", type=int, default=5, help="at least")
    parser.add_argument("--variant-size", type=int, default=4096)
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--clock", choices=("wall", "processor"), default="wall",
                        help="processor: the processor time of all threads over "
                        "their number, for a machine that others load")
    args = parser.parse_args()
    if args.clock == "processor":
        global now
        now = lambda: time.process_time() / args.threads
    global torch, openvino
    if args.no_peers:
        torch = openvino = None
    attn.set_num_threads(args.threads)
    if torch:
        torch.set_num_threads(args.threads)
    peaks = {
        "f32 FMA peak": fma_peak(args.threads),
        "f32 matrix product": matmul_rate("float32"),
        "bf16 matrix product": matmul_rate("bfloat16"),
    }
    print_machine(args, peaks)
    compare(args, peaks)
    variants(args)


if __name__ == "__main__":
    main()
