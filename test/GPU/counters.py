#!/usr/bin/env python3
"""Counters of the emulator beside those of Nsight Compute, on an H200.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

    test/GPU/counters.py [STEP...] [--folder DIR] [--attn-run FILE] [--ncu FILE]

Steps, all of them in this order where none is named:

    emulate   run each kernel on the emulator, DIR/NAME-KEYS.emulated (no GPU)
    measure   run each under ncu, DIR/NAME-KEYS.csv (a GPU and its counters)
    compare   print the table from these files (neither)

Each kernel runs with two numbers of keys. Bytes are those of the longer one;
cycles are of one more tile of keys: the difference of both by that of their
tiles, of kernels whose blocks work on one item each. A CSV may come from
another machine: `ncu --csv --page raw --metrics ... attn-run ...`. Where there
is none, cycles are compared with those that this script has recorded.

A row ends in "ok" or "DIFFERS"; rows without a bar are there to be read.
"""

import argparse
import csv
import io
import os
import re
import subprocess
import sys

# name: (attention, the two numbers of keys, blocks of a cluster)
KERNELS = {
    "full-64": ("b=1,hq=8,hk=8,sq=768,sk=%d,d=64,dtype=bf16", (1024, 2048), 1),
    "full-128": ("b=1,hq=8,hk=8,sq=1024,sk=%d,d=128,dtype=bf16", (1024, 2048), 1),
    "groups-128": ("b=1,hq=8,hk=2,sq=1024,sk=%d,d=128,dtype=f16,softcap=20",
                   (1024, 2048), 1),
    "full-256": ("b=1,hq=4,hk=4,sq=1024,sk=%d,d=256,dtype=bf16", (1200, 2400), 2),
    "warps-128": ("b=1,hq=4,hk=4,sq=1024,sk=%d,d=128,dtype=f32,precision=tf32",
                  (1024, 2048), 1),
}

# Whatever the compiler chooses for these sizes now.
SCHEDULES = {
    "full-64": "block_q = 192, rows = 64, block_k = 128",
    "full-128": "block_q = 128, rows = 64, block_k = 128",
    "groups-128": "block_q = 128, rows = 64, block_k = 128",
    "full-256": "block_q = 128, rows = 64, block_k = 80, cluster = 2",
    "warps-128": "block_q = 256, rows = 32, block_k = 32",
}

# Cycles of one more tile of keys that this script has measured on an H200
# (driver 580.159.04), for comparisons without a GPU.
RECORDED = {"full-64": 2607, "full-128": 2631, "groups-128": 3143,
            "full-256": 2720, "warps-128": 5602}

METRICS = [
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "lts__t_bytes.sum",
    "lts__t_sectors.sum",
    "lts__t_sectors_op_read.sum",
    "lts__t_sectors_op_write.sum",
    "lts__t_sectors_srcunit_tex.sum",
    "lts__t_sectors_srcunit_tex_op_read.sum",
    "lts__t_sectors_srcunit_tex_op_write.sum",
    "lts__t_sectors_srcunit_ltcfabric.sum",
    "lts__t_sectors_srcnode_gpc.sum",
    "l1tex__m_xbar2l1tex_read_bytes.sum",
    "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld_dest_multicast.sum",
    "l1tex__m_l1tex2xbar_write_bytes.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "l1tex__data_bank_reads.sum",
    "l1tex__data_bank_writes.sum",
    "sm__cycles_elapsed.max",
    "sm__cycles_active.sum",
    "sm__cycles_active.max",
    "sm__pipe_tensor_cycles_active.sum",
    "sm__pipe_tensor_op_hmma_cycles_active.sum",
    "sm__pipe_tensor_op_gmma_cycles_active.sum",
    "sm__inst_executed_pipe_tensor.sum",
    "smsp__inst_executed.sum",
    "smsp__inst_executed_pipe_xu.sum",
    "smsp__inst_executed_pipe_fma.sum",
    "smsp__inst_executed_pipe_alu.sum",
    "smsp__inst_executed_pipe_lsu.sum",
    "smsp__inst_executed_op_shared.sum",
]

SCALE = {"byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "KB": 1e3,
         "MB": 1e6, "GB": 1e9, "B": 1}


def path(options, name, keys, kind):
    return os.path.join(options.folder, "%s-%d.%s" % (name, keys, kind))


def runs(options):
    for name in options.kernels:
        attention, lengths, _ = KERNELS[name]
        for keys in lengths:
            yield name, keys, attention % keys


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit("counters: %s\n%s%s" % (" ".join(command), done.stdout[-2000:],
                                         done.stderr[-2000:]))
    return done.stdout


# ---- Steps -------------------------------------------------------------------


def emulate(options):
    for name, keys, attention in runs(options):
        text = run([options.attn_run, "--device", "emulator:sm_90a", "--explain",
                    "--attention", attention, "--schedule",
                    "#attn.schedule<%s>" % SCHEDULES[name]])
        with open(path(options, name, keys, "emulated"), "w") as file:
            file.write(text)
        print("emulated %s with %d keys" % (name, keys), flush=True)


def known_metrics(options):
    """What this ncu knows: else it refuses them all."""
    asked = subprocess.run([options.ncu, "--query-metrics", "--chips", "gh100"],
                           capture_output=True, text=True)
    names = set(re.findall(r"^(\w+__\w+)", asked.stdout, re.M))
    if not names:
        return METRICS
    chosen = [m for m in METRICS if m.split(".")[0] in names]
    tensor_copies = sorted(n for n in names if re.match(r"(l1tex|sm|lts)__", n)
                           and "tma" in n.lower())
    return chosen + [n + ".sum" for n in tensor_copies[:24]]


def measure(options):
    metrics = known_metrics(options)
    missing = [m for m in METRICS if m not in metrics]
    if missing:
        print("ncu does not know: " + ", ".join(missing))
    for name, keys, attention in runs(options):
        text = run([options.ncu, "--csv", "--page", "raw", "--print-units",
                    "base", "--clock-control", "none", "--metrics",
                    ",".join(metrics), options.attn_run, "--device", "cuda",
                    "--attention", attention, "--schedule",
                    "#attn.schedule<%s>" % SCHEDULES[name]])
        with open(path(options, name, keys, "csv"), "w") as file:
            file.write(text)
        print("measured %s with %d keys" % (name, keys), flush=True)


# ---- Files -------------------------------------------------------------------


def read_emulated(file):
    """The column "kernel" of all kernels together, and block_k."""
    with open(file) as opened:
        text = opened.read()
    counted = {}
    for name, value in re.findall(r"^  (\w+) +([-\d.]+) +\S+ +\S+$", text, re.M):
        counted[name] = counted.get(name, 0) + float(value)
    found = re.search(r"block_k = (\d+)", text)
    if not counted or not found:
        sys.exit("counters: expected counters and block_k in %s" % file)
    return counted, int(found[1])


def read_ncu(file):
    """Sums over the launches of a CSV of ncu, of either form."""
    with open(file) as opened:
        lines = [line for line in opened if line.startswith('"')]
    rows = list(csv.reader(io.StringIO("".join(lines))))
    if len(rows) < 2:
        sys.exit("counters: expected the CSV of ncu in %s" % file)
    header, result = rows[0], {}

    def add(name, unit, value):
        try:
            number = float(value.replace(",", "")) * SCALE.get(unit, 1)
        except ValueError:
            return
        result[name] = result.get(name, 0) + number

    if "Metric Name" in header:
        at = [header.index(c) for c in ("Metric Name", "Metric Unit",
                                        "Metric Value")]
        for row in rows[1:]:
            add(*(row[i] for i in at))
        return result
    for row in rows[2:]:
        for name, unit, value in zip(header, rows[1], row):
            if "__" in name:
                add(name, unit, value)
    return result


# ---- The table ---------------------------------------------------------------


def l2_bytes(m):
    """What multiprocessors get from the cache, copies for a cluster once, and
    write to it. The cache itself counts less (`lts__t`): what several ask for at
    once is joined on the way."""
    read = m.get("l1tex__m_xbar2l1tex_read_bytes.sum")
    written = m.get("l1tex__m_l1tex2xbar_write_bytes.sum")
    if read is None or written is None:
        return None
    shared = m.get("l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld_dest_"
                   "multicast.sum", 0)
    return read - shared * (1 - 1 / m["cluster"]) + written


def bank_bytes(m, what):
    """Of the memory that is shared memory and first cache, 4 bytes a bank."""
    banks = m.get("l1tex__data_bank_%s.sum" % what)
    return None if banks is None else 4 * banks


def stored_directly(c):
    """Results that are stored from registers pass through the same memory."""
    return max(0, c["l2_written_bytes"] - c["shared_stored_bytes"])


# What is compared: the counters, the metrics, and the bar in percent.
ROWS = [
    ("L2 bytes", lambda c: c["l2_read_bytes"] + c["l2_written_bytes"], l2_bytes, 2),
    ("L2, as it counts", lambda c: c["l2_read_bytes"] + c["l2_written_bytes"],
     lambda m: m.get("lts__t_bytes.sum"), None),
    ("shared bytes read",
     lambda c: c["shared_operand_bytes"] + c["shared_loaded_bytes"]
     + c["shared_stored_bytes"] + stored_directly(c),
     lambda m: bank_bytes(m, "reads"), 2),
    ("shared bytes written",
     lambda c: c["shared_copied_bytes"] + c["shared_written_bytes"]
     + c["shared_async_bytes"] + stored_directly(c),
     lambda m: bank_bytes(m, "writes"), 2),
    ("shared, loads' cycles", lambda c: c["shared_load_wavefronts"],
     lambda m: m.get("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"), None),
    ("shared, stores' cycles", lambda c: c["shared_store_wavefronts"],
     lambda m: m.get("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum"), None),
    ("shared, conflicts",
     lambda c: c["shared_load_conflicts"] + c["shared_store_conflicts"],
     lambda m: m.get("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"), None),
    ("HBM bytes read", lambda c: c["hbm_read_bytes"],
     lambda m: m.get("dram__bytes_read.sum"), 10),
    ("tensor cycles", lambda c: c["wgmma_cycles"] + c["mma_sync_cycles"] / 4,
     lambda m: m.get("sm__pipe_tensor_cycles_active.sum"), None),
    ("special functions", lambda c: c["special_instructions"],
     lambda m: m.get("smsp__inst_executed_pipe_xu.sum"), None),
    ("instructions", lambda c: c["warp_instructions"],
     lambda m: m.get("smsp__inst_executed.sum"), None),
    ("cycles", lambda c: c["cycles"], lambda m: m.get("sm__cycles_elapsed.max"),
     None),
]


def compare(options):
    differs = 0

    def line(kernel, what, counted, measured, bar):
        nonlocal differs
        if measured is None:
            print("%-12s %-24s %14.6g %14s" % (kernel, what, counted, "-"))
            return
        if measured == 0 and counted == 0:
            ratio = 1.0
        else:
            ratio = counted / measured if measured else float("inf")
        verdict = ""
        if bar is not None:
            good = abs(ratio - 1) <= bar / 100
            differs += not good
            verdict = "ok" if good else "DIFFERS"
            verdict += " (bar %d %%)" % bar
        print("%-12s %-24s %14.6g %14.6g %8.4f  %s"
              % (kernel, what, counted, measured, ratio, verdict))

    print("%-12s %-24s %14s %14s %8s" % ("kernel", "", "emulator", "ncu",
                                          "ratio"))
    for name in options.kernels:
        few, many = KERNELS[name][1]
        lacking = [k for k in (few, many)
                   if not os.path.exists(path(options, name, k, "emulated"))]
        if lacking:
            print("%-12s was not emulated with %s keys" % (name, lacking))
            differs += 1
            continue
        counted = {k: read_emulated(path(options, name, k, "emulated"))
                   for k in (few, many)}
        measured = {}
        for keys in (few, many):
            file = path(options, name, keys, "csv")
            measured[keys] = read_ncu(file) if os.path.exists(file) else {}
            measured[keys]["cluster"] = KERNELS[name][2]
        for what, of_counters, of_metrics, bar in ROWS:
            line(name, what, of_counters(counted[many][0]),
                 of_metrics(measured[many]), bar)
        tile = counted[many][1]
        tiles = -(-many // tile) - -(-few // tile)
        each = [(c[many] - c[few]) / tiles if None not in c.values() else None
                for c in ({k: counted[k][0]["cycles"] for k in counted},
                          {k: measured[k].get("sm__cycles_elapsed.max")
                           for k in measured})]
        line(name, "cycles of %d keys more" % tile, each[0],
             each[1] or RECORDED[name], 10)
        if options.verbose:
            for metric, value in sorted(measured[many].items()):
                print("    %-64s %16.0f" % (metric, value))
    print("%d rows differ" % differs)
    return differs


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = {"emulate": emulate, "measure": measure, "compare": compare}
    parser.add_argument("steps", nargs="*", metavar="STEP",
                        help="emulate, measure, compare")
    parser.add_argument("--folder", default="counters", metavar="DIR")
    parser.add_argument("--kernels", default=",".join(KERNELS), metavar="NAMES",
                        help="some of " + ", ".join(KERNELS))
    parser.add_argument("--attn-run", default="attn-run", metavar="FILE")
    parser.add_argument("--ncu", default="ncu", metavar="FILE")
    parser.add_argument("--verbose", action="store_true",
                        help="print all metrics that were measured")
    options = parser.parse_args()
    options.kernels = options.kernels.split(",")
    for name in options.kernels:
        if name not in KERNELS:
            parser.error("expected kernels out of %s, but got '%s'"
                         % (", ".join(KERNELS), name))
    for step in options.steps:
        if step not in steps:
            parser.error("expected steps out of %s, but got '%s'"
                         % (", ".join(steps), step))
    os.makedirs(options.folder, exist_ok=True)
    differs = 0
    for step in options.steps or steps:
        differs = steps[step](options) or 0
    return 1 if differs else 0


if __name__ == "__main__":
    sys.exit(main())
