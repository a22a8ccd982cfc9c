"""Writes the printed IR of docs/Tour.md anew, or says that it is stale.

    tour.py ATTN_OPT ATTN_RUN [--check]

The page is its own template. The fenced block after a line

    <!-- tour: NAME -->

holds what the function `print_NAME` below makes of the IR after each phase; the
blocks after `<!-- tour: input -->` and `<!-- tour: gpu-input -->` are the programs
that all the others come from, and are the author's.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import difflib
import os
import re
import subprocess
import sys
import tempfile

PAGE = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "Tour.md")
PHASES = ("input", "aggregate", "schedule", "tile", "vector", "llvm")
MARKER = re.compile(
    r"(<!-- tour: (?P<name>[a-z-]+) -->\n+```(?P<language>[a-z-]*)\n)"
    r"(?P<body>.*?)(?P<end>^```$)",
    re.DOTALL | re.MULTILINE,
)

# What functions call their first arguments, and the type that fills lines.
NAMES = ("q", "k", "v", "o")
LONG_TYPE = "memref<1x2x?x16xf32, strided<[?, ?, ?, 1]>>"


class Tour:
    """The IR after each phase, each made from the text of the one before."""

    def __init__(self, attn_opt, source, phases=PHASES):
        self.attn_opt = attn_opt
        self.ir = {"input": source}
        for before, phase in zip(phases, phases[1:]):
            self.ir[phase] = self.run(self.ir[before], before, phase)

    def run(self, text, before, phase):
        # The target is that of the module's attribute on every machine.
        target = re.search(r'attn\.target = "([\w-]+)"', self.ir["input"]).group(1)
        pipeline = "--attn-pipeline=from=%s until-after=%s target=%s"
        return self.opt(text, "the phase " + phase, pipeline % (before, phase, target))

    def opt(self, text, what, *passes):
        done = subprocess.run(
            [self.attn_opt, "-", *passes],
            input=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if done.returncode:
            raise SystemExit("tour.py: %s failed\n%s" % (what, done.stderr))
        return done.stdout

    # ===-- One function for each block of the page -----------------------=== #

    def print_aggregate(self):
        return self.ir["aggregate"]

    def print_schedule(self):
        """The lines that the phase changed."""
        before = self.ir["aggregate"].splitlines()
        return undent(
            line for line in self.ir["schedule"].splitlines() if line not in before
        )

    def print_split(self):
        """The schedule phase again, with a schedule that asks for splits."""
        schedule = re.search(r"#attn.schedule<[^>]*>", self.ir["schedule"]).group(0)
        split = schedule.replace(", loop", ", splits = 4, loop")
        text = self.ir["schedule"].replace(schedule, split)
        lines = self.run(text, "aggregate", "schedule").splitlines()
        lines = function(lines, "attention")
        return undent(rename(elide_regions(lines)))

    def print_plan(self):
        return shorten(rename(function(self.ir["tile"].splitlines(), "attention")))

    def print_kernel(self):
        kernel, bodies = self.tile_kernel()
        return shorten(kernel[: bodies[0][0]] + ["    ..."])

    def print_full_tiles(self):
        kernel, bodies = self.tile_kernel()
        return shorten(kernel[slice(*bodies[0])] + ["    ..."])

    def print_partial_tiles(self):
        """Of the body of partial tiles, what that of full ones does not have."""
        kernel, bodies = self.tile_kernel()
        first, last = (kernel[slice(*body)] for body in bodies)
        matcher = difflib.SequenceMatcher(
            None, [shape(line) for line in first], [shape(line) for line in last], False
        )
        kept = {0, 1, len(last) - 1}
        for tag, _, _, start, end in matcher.get_opcodes():
            if tag != "equal":
                kept.update(range(start, end))
        lines = []
        for number, line in enumerate(last):
            if number in kept:
                lines.append(line)
            elif number - 1 in kept:
                lines.append(re.match(r" *", line).group(0) + "...")
        return shorten(lines)

    def print_epilogue(self):
        kernel, bodies = self.tile_kernel()
        return shorten(kernel[bodies[-1][1] :])

    def print_loops(self):
        """What the first pass of the next phase makes of the stream."""
        passes = ["--tile-expand-stream", "--canonicalize", "--cse"]
        text = self.opt(self.ir["tile"], "tile-expand-stream", *passes)
        kernel = rename(function(text.splitlines(), "attention_kernel0"))
        last = max(i for i, x in enumerate(kernel) if re.match(r"    \S+ = scf.for", x))
        end = kernel.index("    }", last) + 1
        start = next(i for i, x in enumerate(kernel) if "arith.divui" in x
                     and "%c128" in x)
        lines = []
        for line in kernel[start - 1 : end]:
            if not line.startswith("     "):
                lines.append(line)
            elif lines[-1].endswith("{"):
                lines.append("      ...")
        return shorten(lines)

    def tile_kernel(self):
        """The kernel, and where the bodies of its stream start and end."""
        kernel = rename(function(self.ir["tile"].splitlines(), "attention_kernel0"))
        start = next(i for i, x in enumerate(kernel) if "tile.stream" in x)
        partial = kernel.index("    } partial {")
        end = kernel.index("    }", partial) + 1
        return kernel, [(start, partial), (partial, end)]

    def print_vector(self):
        """The scratch, and the innermost loop of the first matrix product."""
        kernel = function(self.ir["vector"].splitlines(), "attention_kernel0")
        count = next(i for i, line in enumerate(kernel) if "math.fma" in line)
        start = next(i for i in range(count, 0, -1) if "scf.for" in kernel[i])
        indent = re.match(r" *", kernel[start]).group(0)
        end = kernel.index(indent + "}", start) + 1
        head = re.sub(r"\(.*?(%\w+: memref<\d+xi8>)\)", r"(..., \1)", kernel[0])
        return undent([head, indent + "..."] + kernel[start:end] + [indent + "..."])

    def print_llvm(self):
        """The entry's head, and its call of the runtime."""
        lines = function(self.ir["llvm"].splitlines(), "attn_entry_attention")
        calls = [i for i, line in enumerate(lines) if "llvm.call" in line]
        return undent(
            lines[:1] + ["    ..."] + lines[calls[0] - 5 : calls[0] + 1] + ["    ..."]
        )


class GpuTour:
    """The same of the GPU's program, and its level after some of the passes."""

    BEFORE_ROLES = (
        "tile-expand-stream,tile-expand-sources,canonicalize,cse,"
        "tile-gpu-specialize-warps"
    )
    BEFORE_STAGES = (
        "tile-gpu-pipeline-copies,canonicalize,cse,"
        "tile_gpu.kernel(convert-tile-to-tile-gpu),"
        "canonicalize,cse,"
        "tile_gpu.kernel(tile-gpu-defer-reductions,tile-gpu-assign-stages)"
    )
    EXPAND = "tile_gpu.kernel(tile-gpu-expand-pipeline)"

    def __init__(self, attn_opt, attn_run, source):
        self.attn_run = attn_run
        self.source = source
        self.tour = Tour(attn_opt, source,
                         phases=("input", "aggregate", "schedule", "tile"))
        tile = self.tour.ir["tile"]
        self.gpu = self.tour.run(tile, "tile", "gpu").splitlines()
        passes = "--pass-pipeline=builtin.module(%s)"
        roles = self.tour.opt(tile, "tile-gpu-specialize-warps",
                              passes % self.BEFORE_ROLES)
        stages = self.tour.opt(roles, "tile-gpu-assign-stages",
                               passes % self.BEFORE_STAGES)
        self.roles = roles.splitlines()
        self.stages = stages.splitlines()
        self.expanded = self.tour.opt(stages, "tile-gpu-expand-pipeline",
                                      passes % self.EXPAND).splitlines()

    def print_gpu_schedule(self):
        lines = self.tour.ir["schedule"].splitlines()
        return undent(line for line in lines if "#attn.schedule" in line)

    def print_gpu_roles(self):
        """The rings, and what the producer does for the key tiles that are full."""
        kernel = function(self.roles, "attention_kernel0")
        start = next(i for i, x in enumerate(kernel) if 'role "load"' in x)
        loop = next(i for i, x in enumerate(kernel) if i > start and "scf.for" in x)
        indent = re.match(r" *", kernel[loop]).group(0)
        end = kernel.index(indent + "}", loop) + 1
        compute = next(x for x in kernel if 'role "compute"' in x)
        rings = [x for x in kernel if "ring.create" in x]
        body = [x for x in kernel[loop:end] if not re.search(r"arith|memref", x)]
        body = [x[len(indent) - 6 :] for x in body]
        return untyped(
            rings + ["    ...", kernel[start], "      ..."] + body
            + ["      ...", "    }", compute, "      ...", "    }"]
        )

    def print_gpu_stages(self):
        return untyped(self.steady(self.stages))

    def print_gpu_pipeline(self):
        return untyped(self.steady(self.expanded))

    def steady(self, module):
        """The consumer's loop over full tiles: its operations, without their bodies."""
        lines = function(module, "attention_kernel0")
        start = next(i for i, x in enumerate(lines) if 'role "compute"' in x)
        loop = next(i for i, x in enumerate(lines) if i > start and "scf.for" in x)
        indent = re.match(r" *", lines[loop]).group(0)
        end = lines.index(indent + "}", loop) + 1
        depth = len(indent) + 2
        return [
            x
            for i, x in enumerate(lines[loop:end])
            if re.match(r" *", x).end() <= depth and not re.match(r" *[}^]", x)
            or i == end - loop - 1
        ]

    def print_gpu_places(self):
        kernel = function(self.gpu, "attention_kernel0")
        return undent(x for x in kernel
                      if re.search(r"ring\.create|smem\.alloc|= tile_gpu\.scheduler",
                                   x))

    def print_gpu_ptx(self):
        """Of the steady loop: waits, products and the first exponentials."""
        with tempfile.TemporaryDirectory() as folder:
            source = os.path.join(folder, "tour.mlir")
            with open(source, "w") as file:
                file.write(self.source)
            command = [self.attn_run, source, "--no-cache", "--dump-phases-to", folder]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
            name = next(x for x in sorted(os.listdir(folder)) if x.endswith(".ptx"))
            with open(os.path.join(folder, name)) as file:
                lines = [line.strip() for line in file]
        # The loop that issues both products before it waits for the first.
        first = next(i for i, x in enumerate(lines)
                     if "wgmma.wait_group.sync.aligned 1" in x)
        start = max(i for i in range(first) if lines[i].startswith("$L__"))
        while not any("mbarrier.try_wait" in x for x in lines[start:first]):
            start = max(i for i in range(start) if lines[i].startswith("$L__"))
        end = next(i for i, x in enumerate(lines) if i > first
                   and "wgmma.wait_group.sync.aligned 0" in x)
        wanted = r"mbarrier\.try_wait|wgmma|ex2\.approx|cvt\.rn\.bf16x2"
        kept = []
        for line in lines[start : end + 1]:
            name = re.search(wanted, line)
            if not name:
                continue
            line = re.sub(r"\{(%\w+),.*?,(%\w+)\}", r"{\1, ..., \2}", line)
            same = kept and kept[-1].split()[0] == line.split()[0]
            if not same:
                kept.append(line)
            elif not kept[-1].endswith("..."):
                kept[-1] += " ..."
        return "".join(line + "\n" for line in kept)


# ===-- Text --------------------------------------------------------------=== #


def untyped(lines):
    """Operations without their types and the names of bodies' arguments."""
    short = []
    for line in lines:
        line = re.sub(
            r"(ins\(.*?) : .*?\)( identity.*?\))?( attributes (\{.*?>\}))? \{$",
            r"\1) \4", line)
        line = re.sub(r"(after\(\S+) : [^)]*\)", r"\1)", line)
        line = re.sub(r" : (<|!|memref|i32|index).*", "", line)
        line = re.sub(r" -> \(.*\{$", " {", line)
        short.append(line)
    return undent(short)



def function(lines, name):
    """The lines of a function, without what precedes and follows it."""
    start = next(
        i for i, line in enumerate(lines)
        if re.search(r"(func|kernel) .*@%s\(" % name, line)
    )
    return lines[start : lines.index("  }", start) + 1]


def rename(lines):
    """Gives the leading arguments of a function their names."""
    names = dict(zip(("arg%d" % i for i in range(len(NAMES))), NAMES))
    own = set(re.findall(r"%(arg\d+):", lines[0]))
    if "tile.kernel" in lines[0]:
        names["arg%d" % (len(own) - 1)] = "block"
    return [
        re.sub(
            r"%(arg\d+)\b",
            lambda m: "%" + (names.get(m[1], m[1]) if m[1] in own else m[1]),
            line,
        )
        for line in lines
    ]


def shorten(lines):
    """An alias for the type of the operands, and no indentation in common."""
    return undent(
        line.replace(LONG_TYPE, "!rows").replace("!tile.tile<", "<") for line in lines
    )


def shape(line):
    """A line without its indentation and the names of its values."""
    return re.sub(r"[%#:]\w+(:\d+)?", "%", line.strip())


def elide_regions(lines):
    """Leaves the regions of operations away, but for the function's own."""
    kept, skipping = [], False
    for line in lines[:-1]:
        indent = len(line) - len(line.lstrip())
        if indent > 4:
            if not skipping:
                kept.append("      ...")
            skipping = True
            arrow = re.search(r"\} (-> .*)", line)
            if arrow:
                kept.append("      " + arrow.group(1))
        else:
            kept.append(line)
            skipping = False
    return kept + lines[-1:]


def undent(lines):
    lines = list(lines)
    indent = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
    return "".join(line[indent:].rstrip() + "\n" for line in lines)


# ===-- The page ----------------------------------------------------------=== #


def main():
    arguments = [a for a in sys.argv[1:] if a != "--check"]
    if len(arguments) != 2:
        raise SystemExit("tour.py: expected ATTN_OPT ATTN_RUN [--check]")
    with open(PAGE) as file:
        page = file.read()
    blocks = {match["name"]: match["body"] for match in MARKER.finditer(page)}
    cpu = Tour(arguments[0], blocks["input"])
    gpu = GpuTour(*arguments, blocks["gpu-input"])

    def fill(match):
        if match["name"] in ("input", "gpu-input"):
            return match[0]
        tour = gpu if match["name"].startswith("gpu-") else cpu
        made = getattr(tour, "print_" + match["name"].replace("-", "_"))()
        return match[1] + made.strip("\n") + "\n" + match["end"]

    fresh = MARKER.sub(fill, page)
    if "--check" not in sys.argv:
        with open(PAGE, "w") as file:
            file.write(fresh)
    elif fresh != page:
        sys.stderr.writelines(
            difflib.unified_diff(
                page.splitlines(True),
                fresh.splitlines(True),
                "docs/Tour.md",
                "what the compiler prints",
            )
        )
        raise SystemExit("docs/Tour.md is stale: run tools/dev docs and commit it")


main()
