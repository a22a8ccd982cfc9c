"""Shared prefixes on a GPU: cascade=True beside the same call without it.

usage: cascade.py [--shapes 64:8192:256,...] [--heads 32:8] [--page 16] [--kernels]
                  [--levels N] [--schedules TEXT;TEXT...]

Each shape is SEQUENCES:SHARED:OWN. Numbers come first: the result beside that in
float64 of some sequences, and beside that without sharing, also in a captured graph
whose table has changed since. Then times, as test/GPU/decode.py takes them: calls in a
CUDA graph that go round copies of more than 400 MB. `floor` is what reading the shared
keys once and the others would take at 4.5 TB/s. --kernels lists what each kernel of a
call takes; --schedules times other schedules of the keys that each sequence has for
itself, "block_q = 64, rows = 64, ..." each. Needs PyTorch.
"""

import argparse
import statistics
import sys

import torch

import attn

SHAPES = "64:8192:256,128:2048:128,32:32768:256"


def time_graph(call, sets):
    """Seconds of call(set), median over replays of a graph of all sets."""
    calls = max(12, len(sets)) // len(sets) * len(sets)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for one in sets:
            call(one)
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for i in range(calls):
                call(sets[i % len(sets)])
        times = []
        for _ in range(11):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record(stream)
            graph.replay()
            end.record(stream)
            end.synchronize()
            times.append(start.elapsed_time(end) / calls * 1e-3)
    return statistics.median(times[2:])


def make(batch, shared, own, heads, key_heads, page, depth=128):
    """Queries, pools, a table in which all sequences begin alike, and lengths."""
    of_shared, of_own = shared // page, -(-own // page)
    pages = of_shared + batch * of_own
    numbers = torch.randperm(pages, device="cuda", dtype=torch.int32)
    table = torch.cat(
        [numbers[:of_shared].expand(batch, -1),
         numbers[of_shared:].view(batch, of_own)], 1).contiguous()
    lengths = torch.randint(shared + max(own - page, 1), shared + own + 1, (batch,),
                            device="cuda", dtype=torch.int32)
    q = torch.randn(batch, heads, 1, depth, device="cuda", dtype=torch.bfloat16)
    k, v = (torch.randn(pages, key_heads, page, depth, device="cuda",
                        dtype=torch.bfloat16) for _ in range(2))
    return q, k, v, table, lengths, torch.empty_like(q)


TEXT = """
func.func @decode(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?xPAGEx128xbf16>,
                  %v: tensor<?x?xPAGEx128xbf16>, %n: tensor<?xi32>, %t: tensor<?x?xi32>)
    -> tensor<?x?x?x128xbf16> {
  %o = attn.attention queries(%q : tensor<?x?x?x128xbf16>)
      keys(%k : tensor<?x?xPAGEx128xbf16>) values(%v : tensor<?x?xPAGEx128xbf16>)
      lengths(%n : tensor<?xi32>) block_table(%t : tensor<?x?xi32>)
      {causal = #attn.causal<bottom_right>, cascade = LEVELS : i64,
       schedule = #attn.schedule<SCHEDULE, share = LEVELS>} -> tensor<?x?x?x128xbf16>
  return %o : tensor<?x?x?x128xbf16>
}
"""


def time_schedules(options, sets):
    for schedule in options.schedules.split(";"):
        text = TEXT.replace("PAGE", str(options.page)).replace("SCHEDULE", schedule)
        kernel = attn.compile(text.replace("LEVELS", str(options.levels)),
                              target="sm_90a")

        def call(s):
            return kernel(s[0], s[1], s[2], s[4], s[3], out=s[5])

        call(sets[0])
        error = (sets[0][5][0].double() - exact(sets[0], 0)).abs().max().item()
        print(f"{time_graph(call, sets) * 1e6:16.1f} us, error {error:.1e}: {schedule}",
              flush=True)


def run(one, cascade):
    q, k, v, table, lengths, out = one
    return attn.attention(q, k, v, block_table=table, kv_lengths=lengths,
                          causal="bottom_right", cascade=cascade, out=out)


def exact(one, b):
    q, k, v, table, lengths, _ = one
    n, page = int(lengths[b]), k.shape[2]
    pages = table[b, : -(-n // page)].long()
    group = q.shape[1] // k.shape[1]
    keys, values = (
        x[pages].double().transpose(0, 1).flatten(1, 2)[:, :n].repeat_interleave(
            group, 0) for x in (k, v))
    scores = q[b].double() @ keys.transpose(-1, -2) * q.shape[-1] ** -0.5
    return scores.softmax(-1) @ values


def check(one, levels):
    """The largest errors: beside float64, and of a graph beside no sharing."""
    out = run(one, levels)
    error = max((out[b].double() - exact(one, b)).abs().max().item()
                for b in (0, len(out) // 2, len(out) - 1))
    scale = exact(one, 0).abs().max().item()
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        run(one, levels)
        stream.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            run(one, levels)
        # Half of the sequences leave in the middle, and two groups are mixed.
        table, width = one[3], one[3].shape[1]
        before = table.clone()
        table[::2, width // 3:] = table[::2, width // 3:].roll(1, 1)
        table[1::4, 1:width // 5] = table[1::4, 2:width // 5 + 1].clone()
        graph.replay()
        stream.synchronize()
        found = one[5].clone()
        plain = run(one, False).clone()
        stream.synchronize()
        table.copy_(before)
        stream.synchronize()
    changed = (found.double() - plain.double()).abs().max().item()
    return error / scale, changed / scale


def list_kernels(one, levels):
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as found:
        for _ in range(5):
            run(one, levels)
        torch.cuda.synchronize()
    for event in found.key_averages():
        if event.device_time_total:
            print(f"    {event.device_time_total / event.count:8.1f} us "
                  f"x {event.count // 5}  {event.key[:60]}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shapes", default=SHAPES)
    parser.add_argument("--heads", default="32:8")
    parser.add_argument("--page", type=int, default=16)
    parser.add_argument("--kernels", action="store_true")
    parser.add_argument("--levels", type=int, default=1)
    parser.add_argument("--schedules")
    options = parser.parse_args()
    heads, key_heads = map(int, options.heads.split(":"))
    print(f"{torch.cuda.get_device_name()}, heads {options.heads}, d=128, bf16, "
          f"pages of {options.page}")
    failed = False
    for shape in options.shapes.split(","):
        batch, shared, own = map(int, shape.split(":"))
        size = 512 * key_heads * (shared + batch * own)
        sets = [make(batch, shared, own, heads, key_heads, options.page)
                for _ in range(max(2, -(-420_000_000 // size)))]
        error, changed = check(sets[0], options.levels)
        failed |= not (error < 0.01 and changed < 0.01)
        ours = time_graph(lambda s: run(s, options.levels), sets)
        plain = time_graph(lambda s: run(s, False), sets)
        print(f"{shape:>14}: error {error:.1e}, table changed {changed:.1e}; "
              f"cascade {ours * 1e6:7.1f} us, without {plain * 1e6:7.1f}, "
              f"floor {size / 4.5e6:5.1f}", flush=True)
        if options.kernels:
            list_kernels(sets[0], options.levels)
        if options.schedules:
            time_schedules(options, sets)
    sys.exit(failed)


if __name__ == "__main__":
    main()
