"""Changes kernels of the level gpu, one place at a time, and counts who notices.

    test/Emulator/mutate.py [--bin build/bin] [--every N] [--jobs N] [--list]

A mutant is killed by the emulator (under any of a few schedules, or by other
bits than those of the kernel as it was), by tile-gpu-verify-async, or by the
verifiers of operations; else it is the same kernel in PTX, as `excuse` says, or
it survives and is printed, apart from where none of the runs comes to the line
at all. The last column counts what tile-gpu-verify-async alone
finds. Each kind of change takes away, moves or mistakes one thing that orders
an agent after another.
"""

import argparse
import collections
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

# Targets, attentions, schedules, and what they are run on: sizes that take all
# paths of a kernel, which are long and short rows of keys, none, and partial
# tiles.
KERNELS = [
    ("sm_90a", "d=64,dtype=bf16,causal=bottom_right", "",
     ["sq=150,sk=330", "sq=400,sk=128", "sq=200,sk=900", "sq=20,sk=0", "sq=150,sk=90",
      "sq=192,sk=384", "sq=1,sk=256"]),
    ("sm_90a", "d=128,dtype=bf16", "",
     ["sq=150,sk=330", "sq=130,sk=128", "sq=300,sk=900", "sq=20,sk=0", "sq=150,sk=90",
      "sq=40,sk=700"]),
    ("sm_90a", "d=128,dtype=bf16,mask=11qk", "",
     ["sq=150,sk=330", "sq=300,sk=768 mask=true", "sq=300,sk=900 mask=true",
      "sq=300,sk=900 mask=blocks", "sq=20,sk=0",
      "sq=150,sk=90", "sq=20,sk=16640 mask=true"]),
    ("sm_90a", "d=128,dtype=bf16",
     "#attn.schedule<block_q = 128, rows = 64, block_k = 128, cluster = 2>",
     ["sq=300,sk=330", "sq=130,sk=128", "sq=300,sk=900", "sq=20,sk=0", "sq=150,sk=90",
      "sq=40,sk=700"]),
    ("sm_90a", "d=128,dtype=bf16",
     "#attn.schedule<block_q = 128, rows = 64, block_k = 128, turns = products>",
     ["sq=150,sk=330", "sq=130,sk=128", "sq=300,sk=900", "sq=20,sk=0", "sq=150,sk=90",
      "sq=40,sk=700"]),
    ("sm_80", "d=64,dtype=bf16,causal=bottom_right", "",
     ["sq=150,sk=330", "sq=400,sk=96", "sq=130,sk=400", "sq=20,sk=0", "sq=150,sk=90"]),
    ("sm_80", "d=128,dtype=bf16,monoid=stick_breaking", "",
     ["sq=100,sk=230", "sq=130,sk=96", "sq=20,sk=0", "sq=150,sk=90"]),
    ("sm_80", "d=64,dtype=f32,precision=tf32", "",
     ["sq=100,sk=230", "sq=130,sk=96", "sq=20,sk=0", "sq=150,sk=90"]),
]
SCHEDULES = (
    "eager,lazy,random:1,random:2,adversary:0,adversary:1,adversary:2,adversary:3"
)


def excuse(lines, kind, i):
    """Why a mutant is the same kernel in PTX, or nothing."""
    line = lines[i]
    ring = re.search(r"tile_gpu\.ring\.\w+ (%\w+)\[", line)
    fill, stages, role = "", 0, ""
    kernel = max(j for j in range(i + 1) if "tile_gpu.kernel" in lines[j])
    for j in range(kernel, i):
        create = re.match(r"\s*(%\w+) = tile_gpu\.ring\.create (\w+).*<(\d+),",
                          lines[j])
        if create and ring and create.group(1) == ring.group(1):
            fill, stages = create.group(2), int(create.group(3))
        if "tile_gpu.role" in lines[j]:
            role = lines[j]
    if kind.startswith("wrong use") and stages == 1:
        return "one slot: every use is of it, and copy groups have no phases"
    if kind == "double ring.commit" and fill == "cp_group":
        return "an empty group of copies"
    if kind == "double barrier.sync":
        return "all warps wait once more"
    if kind == "drop after" and "warpgroups" in role:
        return ("read by products alone, which have been waited for: after is about "
                "where the arrival is put")
    end = next((j for j in range(i, len(lines)) if lines[j].startswith("  }")),
               len(lines))
    body = "".join(lines[kernel:end])
    if kind == "drop fence" and not re.search(r"bulk\.store|bulk\.reduce|mma\.issue",
                                              body):
        return "no copy and no product reads shared memory in this kernel"
    if kind == "drop barrier.sync" and "scf.for" not in "".join(
        lines[i:end]) and "barrier.sync" in "".join(
            lines[i + 1:i + 4]) and "scheduler grid" in body:
        return (
            "before the first store of a block that works on one item: nobody has read"
        )
    if kind == "drop smem.clear_rows":
        return "rows of weight zero, of numbers that are finite here"
    return ""


def mutants(lines):
    """(kind, line, text of the mutant)"""
    def without(i):
        return lines[:i] + lines[i + 1:]

    def instead(i, text):
        return lines[:i] + [text] + lines[i + 1:]

    def moved(i, to):
        rest = lines[:i] + lines[i + 1:]
        return rest[:to] + [lines[i]] + rest[to:]

    inside = False
    for i, line in enumerate(lines):
        inside |= "tile_gpu.kernel" in line
        if not inside:
            continue
        op = re.search(r"tile_gpu\.([a-z_.]+)", line)
        if not op:
            continue
        op = op.group(1)
        if op in ("ring.release", "ring.commit", "barrier.sync", "bulk.wait",
                  "bulk.store", "ring.load", "frag.store", "turn.wait",
                  "turn.pass", "vec.store", "smem.clear_rows", "draw_next",
                  "dependencies.wait"):
            yield "drop " + op, i, without(i)
        if op == "ring.wait":
            yield "drop " + op, i, instead(i, line.replace("ring.wait", "ring.view"))
        if op == "mma.wait":
            n = int(re.search(r"pending\((\d+)\)", line).group(1))
            yield "weaken mma.wait", i, instead(i, line.replace(f"pending({n})",
                                                                f"pending({n + 1})"))
        if op == "bulk.wait":
            yield "weaken bulk.wait", i, instead(i, line.replace("pending(0)",
                                                                 "pending(1)"))
        if op == "barrier.sync" and "threads_only" not in line:
            yield "drop fence", i, instead(i, line.rstrip() + " threads_only")
        if op in ("ring.release", "ring.commit", "barrier.sync"):
            yield "double " + op, i, lines[:i + 1] + lines[i:]
        if op in ("ring.release", "turn.pass"):
            # Before the last thing that waits, in this block.
            for j in range(i - 1, 0, -1):
                if (
                    "{" in lines[j]
                    and "map" not in lines[j]
                    or lines[j].strip().startswith("}")
                ):
                    break
                if re.search(r"ring\.release|ring\.wait",
                             lines[j]) and "mma" not in lines[j]:
                    continue
                if "tile_gpu.mma.wait" in lines[j] or "tile_gpu.mma.sync" in lines[j]:
                    # What it names comes later: no such names then.
                    early = re.sub(r" after\([^)]*\)", "", lines[i])
                    yield "move " + op, i, lines[:j] + [early] + lines[j:i] + lines[
                        i + 1 :
                    ]
                    break
        if op == "ring.release" and "after(" in line:
            yield "drop after", i, instead(i, re.sub(r" after\([^)]*\)", "", line))
        if op in ("ring.wait", "ring.release", "ring.acquire", "ring.view"):
            use = re.search(r"(%\S+)\[(%[\w#]+)\]", line)
            indent = re.match(r"\s*", line).group(0)
            more = (
                f"{indent}%mutant_one = arith.constant 1 : i32\n"
                f"{indent}%mutant_use = arith.addi {use.group(2)}, %mutant_one : i32\n"
            )
            changed = line.replace(f"{use.group(1)}[{use.group(2)}]",
                                   f"{use.group(1)}[%mutant_use]", 1)
            yield "wrong use of " + op, i, instead(i, more + changed)
        if op == "ring.create":
            for word in ("consumers", "producers"):
                found = re.search(word + r"\((\d+)\)", line)
                if found:
                    n = int(found.group(1))
                    for other in (n + 1, n - 1):
                        if other > 0:
                            yield f"{word} {'+' if other > n else '-'}1", i, instead(
                                i, line.replace(found.group(0), f"{word}({other})"))
        if op == "barrier.create":
            n = int(re.search(r"warps\((\d+)\)", line).group(1))
            for other in (n + 1, n - 1):
                yield f"warps {'+' if other > n else '-'}1", i, instead(
                    i, line.replace(f"warps({n})", f"warps({other})"))
        if op == "smem.slice":
            at = re.search(r"\[(%[\w#]+), (%[\w#]+)\]", line)
            rows = re.search(r"-> <(\d+)x", line).group(1)
            indent = re.match(r"\s*", line).group(0)
            more = (
                f"{indent}%mutant_part = arith.constant {rows} : i32\n"
                f"{indent}%mutant_row = arith.addi {at.group(1)}, %mutant_part : i32\n"
            )
            yield "wrong slice", i, instead(
                i, more + line.replace(at.group(0), f"[%mutant_row, {at.group(2)}]")
            )


def write_mask(path, kind, rows, cols):
    """A mask of truths, or of key tiles that all, some or no queries see."""
    def sees(r, c):
        return kind == "true" or (c // 128
                                  + r // 128) % 3 == 0 or ((c // 128
                                                            + r // 128) % 3 == 1
                                                           and c % 7 < 3)

    header = (
        f"{{'descr': '|b1', 'fortran_order': False, 'shape': (1, 1, {rows}, {cols}), }}"
    )
    header = header.ljust(117) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00"
                   + len(header).to_bytes(2, "little") + header.encode())
        file.write(bytes(sees(r, c) for r in range(rows) for c in range(cols)))


def run(command, **how):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=120,
                              **how)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", "error: takes too long")


class Kernel:
    def __init__(self, tools, folder, number, target, spec, schedule, sizes):
        self.tools, self.number, self.folder = tools, number, folder
        channels = re.search(r"d=(\d+)", spec).group(1)
        self.sizes = []
        for size in sizes:
            size, _, mask = size.partition(" mask=")
            arguments = [
                "--sizes",
                f"b={6 if 'sk=0' in size else 1},hq=2,hk=1,{size},d={channels},"
                f"dv={channels}",
            ]
            if mask:
                path = f"{folder}/{number}-{mask}-{size}.npy"
                write_mask(path, mask, *(int(n) for n in re.findall(r"\d+", size)))
                arguments += ["--input", f"mask={path}"]
            self.sizes.append(arguments)
        command = [f"{tools}/attn-run", "--attention", spec, "--target", target,
                   "--until-after", "gpu"]
        if schedule:
            command += ["--schedule", schedule]
        text = subprocess.run(command, capture_output=True, text=True,
                              check=True).stdout
        self.name = f"{target} {spec}" + (" " + schedule if schedule else "")
        self.lines = text.splitlines(keepends=True)
        self.right = [self.emulate("right", text, size) for size in self.sizes]
        for code, error, _ in self.right:
            if code:
                sys.exit(
                    f"{self.name}: expected the kernel itself to be right, but got "
                    f"{error}"
                )

    def emulate(self, name, text, size):
        path = f"{self.folder}/{self.number}-{name}"
        with open(path + ".mlir", "w") as file:
            file.write(text)
        done = run([f"{self.tools}/attn-run", path + ".mlir", "--device", "emulator",
                    "--seed", "7",
                    *size, "--output", f"o={path}.npy"],
                   env=dict(os.environ, ATTN_EMULATOR=SCHEDULES))
        data = b""
        if done.returncode == 0:
            with open(path + ".npy", "rb") as file:
                data = file.read()
            os.remove(path + ".npy")
        return done.returncode, done.stderr, data

    def reaches(self, line):
        """Whether any of the runs comes to a line: a slice beyond a tile there."""
        kernel = max(j for j in range(line + 1) if "tile_gpu.kernel" in self.lines[j])
        for j in range(line - 1, kernel, -1):
            ring = re.match(
                r"\s*(%\w+) = tile_gpu\.ring\.create .* : (<\d+, )(\d+)(x[^,>]*)>$",
                self.lines[j].rstrip())
            alloc = re.match(r"\s*(%\w+) = tile_gpu\.smem\.alloc : (<)(\d+)(x[^,>]*)>$",
                             self.lines[j].rstrip())
            if ring or alloc:
                break
        else:
            # Beside the rings, which every block makes.
            return True
        tile, stages, rows, rest = (ring or alloc).groups()
        indent = re.match(r"\s*", self.lines[line]).group(0)
        marker = (f"{indent}%mutant_zero = arith.constant 0 : i32\n"
                  f"{indent}%mutant_far = arith.constant {rows} : i32\n")
        if ring:
            marker += (f"{indent}%mutant_tile = tile_gpu.ring.view "
                       f"{tile}[%mutant_zero] : {stages}{rows}{rest}>\n")
            tile = "%mutant_tile"
        marker += (
            f"{indent}%mutant_part = tile_gpu.smem.slice {tile}[%mutant_far, "
            f"%mutant_zero]"
            f" : <{rows}{rest}> -> <{rows}{rest}>\n"
        )
        text = "".join(self.lines[:line] + [marker] + self.lines[line:])
        return any("emulator:" in self.emulate(f"reach-{line}", text, size)[1]
                   for size in self.sizes)

    def judge(self, mutant):
        kind, line, text = mutant
        text = "".join(text)
        name = f"{kind.replace(' ', '-')}-{line}"
        for size, right in zip(self.sizes, self.right):
            code, error, data = self.emulate(name, text, size)
            if code or data != right[2]:
                break
        path = f"{self.folder}/{self.number}-{name}.mlir"
        checked = run([f"{self.tools}/attn-opt", path, "-o", "/dev/null",
                       "--pass-pipeline=builtin.module("
                       "tile_gpu.kernel(tile-gpu-verify-async))"])
        static = checked.returncode != 0
        os.remove(path)
        if code == 0 and data == right[2]:
            verdict = (
                "verify-async"
                if static
                else "equal" if excuse(self.lines, kind, line) else "survived"
            )
            if verdict == "survived" and not self.reaches(line):
                verdict = "not reached"
        elif code == 0:
            verdict = "other bits"
        elif "emulator:" in error:
            verdict = "emulator"
        elif static:
            verdict = "verifier"
        else:
            verdict = "emulator" if "too long" in error else "refused"
        return self, kind, line, verdict, static, error.split("\n")[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bin", default="build/bin")
    parser.add_argument("--every", type=int, default=1,
                        help="take each Nth mutant of a kernel")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--lines",
                        help="only mutants of these places, as LOG prints survivors",
                        metavar="LOG")
    parser.add_argument("--list", action="store_true", help="print every mutant")
    parser.add_argument("--least", type=float, default=0,
                        help="percent that must be killed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kernels = [Kernel(options.bin, folder, i, *k) for i, k in enumerate(KERNELS)]
        work = [(k, m) for k in kernels
                for m in list(mutants(k.lines))[::options.every]]
        if options.lines:
            wanted = open(options.lines).read()
            work = [(k, m) for k, m in work
                    if f"survived: {k.name}: {m[0]}, line {m[1] + 1}:" in wanted]
        table = collections.defaultdict(collections.Counter)
        survivors = []
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for kernel, kind, line, verdict, static, error in pool.map(
                lambda w: w[0].judge(w[1]), work):
                table[kind][verdict] += 1
                table[kind]["static"] += static
                if verdict == "survived":
                    survivors.append((kernel, kind, line))
                if options.list:
                    print(
                        f"{verdict}: {kernel.name}: {kind}, line {line + 1}: "
                        f"{error[:300]}",
                        flush=True,
                    )
    columns = ("emulator", "other bits", "verify-async", "verifier", "refused", "equal",
               "not reached", "survived", "static")
    print(f"{'':32}" + "".join(f"{c:>14}" for c in columns))
    total = collections.Counter()
    for kind in sorted(table):
        print(f"{kind:32}" + "".join(f"{table[kind][c]:14}" for c in columns))
        total.update(table[kind])
    print(f"{'all':32}" + "".join(f"{total[c]:14}" for c in columns))
    for kernel, kind, line in survivors:
        print(
            f"survived: {kernel.name}: {kind}, line {line + 1}: "
            f"{kernel.lines[line].strip()}"
        )
    count = len(work) - total["equal"] - total["not reached"]
    killed = 100.0 * (count - len(survivors)) / max(count, 1)
    print(
        f"{len(work)} mutants, {total['equal']} equal, {total['not reached']} not "
        f"reached, {killed:.1f} % of the others killed"
    )
    return killed < options.least


if __name__ == "__main__":
    sys.exit(main())
