"""Every pass of the level gpu leaves kernels that compute what they did before.

    passes.py [--bin DIR] [--jobs N]

The passes of the phase `gpu` are run one after the other; from where kernels
are of tile_gpu, the emulator runs what each of them leaves, under several
schedules, and compares with what a CPU computes from the same inputs. All
passes of the level have to be among them, and what the last leaves has to be
what the phase itself gives. But for those that leave the compiler's own kernels
as they are, each has to change one of these.
"""

import argparse
import concurrent.futures
import glob
import os
import re
import struct
import subprocess
import sys
import tempfile

# In the order of lib/Pipelines/Pipelines.cpp.
FIRST = (
    "tile-expand-stream,canonicalize,cse,tile-expand-sources,"
    "tile-gpu-specialize-warps,tile-gpu-pipeline-copies,canonicalize,cse,"
    "tile_gpu.kernel(convert-tile-to-tile-gpu)"
)
PASSES = [
    "canonicalize,cse",
    "tile_gpu.kernel(tile-gpu-defer-reductions)",
    "tile_gpu.kernel(tile-gpu-assign-stages)",
    "tile_gpu.kernel(tile-gpu-expand-pipeline)",
    "tile_gpu.kernel(tile-gpu-hoist-reciprocals)",
    "tile_gpu.kernel(tile-gpu-permute-lanes)",
    "tile_gpu.kernel(tile-gpu-order-warpgroups)",
    "tile_gpu.kernel(tile-gpu-read-ahead)",
    "tile-gpu-stage-epilogue",
    "tile_gpu.kernel(tile-gpu-multicast-loads)",
    "tile_gpu.kernel(tile-gpu-hoist-coordinates)",
    "tile-gpu-keep-workspace",
    "tile-gpu-overlap-launches",
    "tile_gpu.kernel(tile-gpu-read-tables-ahead)",
    "tile_gpu.kernel(tile-gpu-copy-fragments)",
    "tile_gpu.kernel(tile-gpu-verify-async)",
    "tile-gpu-allocate-shared",
    "tile-gpu-verify-budget",
]
# Of caches in pages (caches.test), of kernels that others merged fragments of
# (traps.test), and checks.
IDLE = ["tile_gpu.kernel(tile-gpu-read-tables-ahead)",
        "tile_gpu.kernel(tile-gpu-copy-fragments)",
        "tile_gpu.kernel(tile-gpu-verify-async)", "tile-gpu-verify-budget"]
KERNELS = [
    ("sm_90a", "d=64,dtype=bf16,causal=bottom_right", "", "sq=200,sk=330"),
    ("sm_90a", "d=64,dtype=f16,window=70:0,softcap=30", "", "sq=150,sk=330"),
    ("sm_90a", "d=128,dtype=bf16,mask=11qk", "", "sq=150,sk=330"),
    ("sm_90a", "d=64,dtype=bf16,monoid=sigmoid_sum", "", "sq=150,sk=330"),
    ("sm_90a", "d=128,dtype=bf16",
     "block_q = 128, rows = 64, block_k = 128, turns = softmax", "sq=150,sk=330"),
    ("sm_90a", "d=64,dtype=bf16",
     "block_q = 192, rows = 64, block_k = 128, cluster = 2", "sq=400,sk=330"),
    # A mask by a function, whose lists are kept from call to call.
    ("sm_90a", "d=64,dtype=bf16", "", "sq=200,sk=330", """
^bb0(%b: i32, %h: i32, %i: i32, %j: i32):
  %step = arith.constant 3 : i32
  %zero = arith.constant 0 : i32
  %d = arith.subi %i, %j : i32
  %rest = arith.remsi %d, %step : i32
  %near = arith.cmpi eq, %rest, %zero : i32
  %past = arith.cmpi sge, %d, %zero : i32
  %live = arith.andi %near, %past : i1
  attn.yield %live : i1
"""),
    ("sm_80", "d=64,dtype=bf16,causal=bottom_right", "", "sq=150,sk=330"),
    ("sm_80", "d=64,dtype=bf16,monoid=stick_breaking", "", "sq=70,sk=130"),
    ("sm_90a", "dk=24,dv=40,decay=value,init=1", "",
     "b=1,hq=2,hk=2,hv=2,t=3,d=24,dv=40"),
]
SCHEDULES = "eager,lazy,random:1,adversary:1"


def read(path):
    """The floats of a .npy file."""
    data = open(path, "rb").read()
    size = struct.unpack("<H", data[8:10])[0]
    header, data = data[10:10 + size].decode(), data[10 + size:]
    if "f4" in header:
        return struct.unpack(f"<{len(data) // 4}f", data)
    if "f2" in header:
        return struct.unpack(f"<{len(data) // 2}e", data)
    words = struct.unpack(f"<{len(data) // 2}H", data)
    return struct.unpack(f"<{len(words)}f",
                         struct.pack(f"<{len(words)}I", *(w << 16 for w in words)))


def run(command, **how):
    done = subprocess.run(command, capture_output=True, text=True, **how)
    if done.returncode:
        raise RuntimeError(" ".join(f"'{c}'" for c in command) + "\n" + done.stderr)
    return done.stdout


def missing():
    """Passes of the level that are not run here."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                          "../../include/attn/Dialect/TileGPU/Transforms")
    registered = set()
    for path in glob.glob(os.path.join(folder, "*.td")):
        with open(path) as file:
            registered.update(re.findall(r':\s*Pass<"([^"]+)"', file.read()))
    return (
        registered - set(re.findall(r"[\w-]+", " ".join([FIRST] + PASSES)))
        if registered
        else {folder}
    )


def check(tools, number, kernel):
    """Runs what each pass leaves of a kernel; the passes that change it."""
    target, spec, schedule, sizes, *masks = kernel
    changed = []
    with tempfile.TemporaryDirectory() as folder:
        is_scan = spec.startswith("dk=")
        output = "out0" if is_scan else "o"
        given = ["--scan" if is_scan else "--attention", spec]
        for mask in masks:
            given += ["--mask-mod", f"{folder}/mask.mlir"]
            with open(given[-1], "w") as file:
                file.write(mask)
        attention = [f"{tools}/attn-run"] + given
        if schedule:
            attention += ["--schedule", f"#attn.schedule<{schedule}>"]
        if not is_scan:
            channels = spec.split("d=")[1].split(",")[0]
            sizes = f"b=1,hq=2,hk=1,{sizes},d={channels},dv={channels}"
        arguments = ["--seed", str(number), "--sizes", sizes, "--output",
                     f"{output}={folder}/o.npy"]
        if is_scan:
            arguments += ["--input", "scale=0.2", "--input", "decay=random:1x2x3x40",
                          "--input", "init_S=random:1x2x24x40"]
        # Options whose values are arguments.
        for name, value in (("softcap", "softcap=30"), ("window", "window_left=70"),
                            ("window", "window_right=0")):
            if name in spec:
                arguments += ["--input", value]
        with open(f"{folder}/input.mlir", "w") as file:
            file.write(run([f"{tools}/attn-run"] + given + ["--until-after", "input"]))
        run([f"{tools}/attn-run", f"{folder}/input.mlir"] + arguments)
        expected = read(f"{folder}/o.npy")
        largest = max(abs(x) for x in expected)
        with open(f"{folder}/0.mlir", "w") as file:
            file.write(run(attention + ["--target", target, "--until-after", "tile"]))
        before = None
        for stage, passes in enumerate([FIRST] + PASSES):
            text = run([f"{tools}/attn-opt", f"{folder}/{stage}.mlir",
                        f"--pass-pipeline=builtin.module({passes})"])
            with open(f"{folder}/{stage + 1}.mlir", "w") as file:
                file.write(text)
            last = stage == len(PASSES)
            if last and text != run(attention
                                    + ["--target", target, "--until-after", "gpu"]):
                raise RuntimeError(
                    f"{target} {spec} {schedule}: the phase gpu runs other passes than "
                    f"these"
                )
            if text == before:
                continue
            before = text
            try:
                run([f"{tools}/attn-run", f"{folder}/{stage + 1}.mlir", "--start-from",
                     "gpu", "--device", "emulator"]
                    + arguments, env=dict(os.environ, ATTN_EMULATOR=SCHEDULES))
            except RuntimeError as error:
                raise RuntimeError(
                    f"{target} {spec} {schedule} after {passes}: {error}")
            worst = max(abs(x - y) for x, y in zip(read(f"{folder}/o.npy"), expected))
            if not worst <= 0.02 * largest:
                raise RuntimeError(
                    f"{target} {spec} {schedule} after {passes}: an error of {worst} "
                    f"of {largest}"
                )
            changed.append(passes)
    return changed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bin", default="build/bin")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    changed, failures = [], 0
    for name in missing():
        failures += 1
        print(f"{name} is of the level gpu and not run here")
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        work = [pool.submit(check, options.bin, i, k) for i, k in enumerate(KERNELS)]
        for one in work:
            try:
                changed += one.result()
            except RuntimeError as error:
                failures += 1
                print(error)
    for passes in PASSES:
        if passes not in changed + IDLE:
            failures += 1
            print(f"{passes} changes none of these kernels")
    print(f"{len(changed)} forms of {len(KERNELS)} kernels, {failures} failed")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
