"""Compiled kernels: asking about them, and running them.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import ctypes
import os
from typing import Any, Dict, List, Optional, Tuple

from . import _arrays as arrays
from . import _checks as checks
from . import _library as c
from . import _plans
from ._checks import fail as _fail

PHASES = ("input", "aggregate", "schedule", "tile")
PHASES += ("vector", "llvm", "gpu", "nvvm", "ptx", "llvm-ir")

# Kernels of scans by their text, which attn.clear_cache lets go.
MOST_KEPT = 256
kept: Dict[str, "Kernel"] = {}


class Arg:
    """One argument of a kernel.

    Attributes: `name`; `dtype`, as "f32"; `shape`, a tuple with -1 where the
    size is free, or None for a scalar; `dims`, the name of each dimension,
    equal where sizes must be; `is_written`, whether runs write to this input.
    """

    __slots__ = ("name", "dtype", "shape", "dims", "code", "is_written")

    name: str
    dtype: str
    shape: Optional[Tuple[int, ...]]
    dims: Optional[Tuple[str, ...]]
    is_written: bool

    def __init__(self, info, is_written=False):
        self.is_written = is_written
        self.name = info.name.decode()
        self.code = info.dtype
        self.dtype = c.DTYPE_NAMES[info.dtype]
        self.shape = self.dims = None
        if info.rank >= 0:
            self.shape = tuple(info.shape[i] for i in range(info.rank))
            self.dims = tuple(info.dims[i].decode() for i in range(info.rank))

    def __repr__(self):
        if self.shape is None:
            return "%s: %s" % (self.name, self.dtype)
        sizes = (
            str(size) if size >= 0 else name or "?"
            for size, name in zip(self.shape, self.dims)
        )
        return "%s: %s[%s]" % (self.name, self.dtype, ", ".join(sizes))


class Handle:
    """Owns one AttnKernel, which goes with it. All that use the kernel share this
    object, so that it goes once, and after them."""

    __slots__ = ("pointer", "_destroy")

    def __init__(self, pointer):
        self.pointer = pointer
        self._destroy = c.lib.attnKernelDestroy

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce_ex__(self, protocol):
        raise _not_pickled()

    def __del__(self):
        pointer, self.pointer = self.pointer, None
        if pointer:
            self._destroy(pointer)


def _not_pickled():
    return TypeError(
        "attn: expected what can be pickled, but got a kernel, which is code of this "
        "process; keep its text, kernel.mlir('input'), and compile that"
    )


class _Text(str):
    """A text whose call is the text: `Kernel.ptx` was a method once."""

    def __call__(self):
        return str(self)


class Kernel:
    """A compiled kernel, made by `attn.compile`.

    Immutable; it may run in many threads at once. Calling it runs it. Copies are
    the kernel itself; it cannot be pickled.

    Attributes:
        name: the function in the IR that a call runs.
        target: the name of the target that the code is for, as "cpu-avx512".
        inputs, outputs: lists of arguments (name, dtype, shape, dims).
        timings: a dict of what each step of the compilation took, in
            milliseconds.
    """

    name: Optional[str]
    target: str
    inputs: List[Arg]
    outputs: List[Arg]

    def __init__(self, handle, entry=None):
        if not isinstance(handle, Handle):
            raise TypeError(
                "attn: expected kernels to be made by attn.compile, but got "
                "attn.Kernel(%.60r)" % (handle,)
            )
        self._handle = handle
        self._entry = 0
        pointer = handle.pointer
        if entry is not None:
            self._entry = c.lib.attnKernelFindEntry(pointer, entry.encode())
        names = [
            c.lib.attnKernelEntryName(pointer, i).decode()
            for i in range(c.lib.attnKernelNumEntries(pointer))
        ]
        if entry is not None and self._entry < 0:
            raise ValueError(
                "attn: expected one of the functions %s, but got %r"
                % (", ".join(names) or "(none)", entry)
            )
        self.name = names[self._entry] if names else None
        self.inputs, self.outputs = [], []
        if names:
            count = c.lib.attnKernelNumInputs(pointer, self._entry)
            total = count + c.lib.attnKernelNumOutputs(pointer, self._entry)
            args = [self._arg(i) for i in range(total)]
            self.inputs, self.outputs = args[:count], args[count:]
        self.target = c.lib.attnKernelTarget(pointer).decode()

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce_ex__(self, protocol):
        raise _not_pickled()

    @property
    def _pointer(self):
        return self._handle.pointer

    def __repr__(self):
        return "<attn.Kernel %s for %s: %s -> %s>" % (
            self.name,
            self.target,
            ", ".join(map(repr, self.inputs)),
            ", ".join(map(repr, self.outputs)),
        )

    def _arg(self, index):
        info = c.ArgInfo()
        c.check(
            c.lib.attnKernelArg(self._pointer, self._entry, index, ctypes.byref(info))
        )
        written = c.lib.attnKernelArgIsWritten(self._pointer, self._entry, index)
        return Arg(info, bool(written))

    @property
    def timings(self) -> Dict[str, float]:
        handle, times = self._pointer, {}
        for i in range(c.lib.attnKernelNumTimes(handle)):
            name = c.lib.attnKernelTimeName(handle, i).decode()
            times[name] = times.get(name, 0.0) + c.lib.attnKernelTimeMs(handle, i)
        return times

    def mlir(self, phase: Optional[str] = None) -> str:
        """The IR after a phase, as text.

        Args:
            phase: "input", "aggregate", "schedule" or "tile"; of a CPU "vector",
                "llvm" or "llvm-ir"; of a GPU "gpu", "nvvm", "ptx" or, for the
                plan, "llvm-ir"; None: the last that ran.
        Raises:
            ValueError: there is no such phase, or compilation stopped before.
        """
        text = None
        if phase is None or isinstance(phase, str):
            name = phase.encode() if phase else None
            text = c.lib.attnKernelIr(self._pointer, name)
        if text is None:
            _fail(
                "a phase that this kernel went through, of %s" % ", ".join(PHASES),
                checks.shown(phase),
            )
        return text.decode()

    @property
    def ptx(self) -> str:
        """The assembly of a kernel for a GPU; `ptx()` is the same.

        Raises:
            ValueError: the kernel is for a CPU, or compilation stopped before.
        """
        text = c.lib.attnKernelPtx(self._pointer)
        if text is None:
            _fail(
                "a kernel for a GPU that is compiled to the end",
                "one for %s" % self.target,
            )
        return _Text(text.decode())

    def cubin(self) -> Optional[bytes]:
        """The machine code of a kernel for a GPU, where ptxas was found to make
        it; else None."""
        size = ctypes.c_size_t()
        data = c.lib.attnKernelCubin(self._pointer, ctypes.byref(size))
        return ctypes.string_at(data, size.value) if data else None

    def load(self, device: int = -1) -> None:
        """Loads a kernel onto a GPU (-1: the current one) ahead of its first run,
        as before a graph capture. Nothing for a CPU."""
        c.check(c.lib.attnKernelLoad(self._pointer, device))

    def explain(self) -> str:
        """Why the code is as it is, as text: schedule, memory budget, masks."""
        return c.lib.attnKernelExplain(self._pointer).decode()

    def __call__(self, *inputs: Any, out: Any = None, **named: Any) -> Any:
        """Runs the kernel.

        Args:
            inputs, named: one value for each of `self.inputs`, by position or by
                name: NumPy arrays, torch tensors or other arrays in host memory
                with __dlpack__, with dimensions in the order of `dims`, in any
                memory order whose last dimension has stride 1; numbers for
                scalars. A kernel for a GPU takes torch tensors on it, and runs
                on torch's current stream.
            out: an array, or a tuple of them, one for each of `self.outputs`, to
                write to; None: new arrays.
        Returns:
            The output, or a tuple of them; of the kind of the first array given.
        Raises:
            ValueError, TypeError: what was given does not fit.
        """
        values = list(inputs)
        rest = self.inputs[len(values) :]
        missing = [arg.name for arg in rest if arg.name not in named]
        values += [named.pop(arg.name) for arg in rest if arg.name in named]
        if named or missing or len(values) > len(self.inputs):
            found = str(len(values))
            found += " and " + ", ".join(sorted(named)) if named else ""
            found += ", without " + ", ".join(missing) if missing else ""
            raise TypeError(
                "attn: expected the inputs %s, but got %s"
                % (", ".join(map(repr, self.inputs)), found)
            )
        views = [
            arrays.scalar(arg.name, value, arg.code)
            if arg.shape is None
            else arrays.view(arg.name, value)
            for arg, value in zip(self.inputs, values)
        ]
        for arg, value, view in zip(self.inputs, values, views):
            if arg.is_written:
                arrays.check_writable(arg.name, value, view)
        if out is None:
            like = next(filter(arrays.kind_of, values), None)
            results = tuple(
                arrays.empty(like, arg.code, self._output_shape(views, i))
                for i, arg in enumerate(self.outputs)
            )
        else:
            results = out if isinstance(out, tuple) else (out,)
        outputs = [arrays.view("out", result) for result in results]
        for result, view in zip(results, outputs):
            arrays.check_writable("out", result, view)
        self.run(views, outputs)
        if out is None:
            results = tuple(arrays.like(like, result) for result in results)
        return results[0] if len(results) == 1 else results

    def _output_shape(self, views, index):
        tensors, keep = arrays.pack(views)
        shape, rank = (ctypes.c_int64 * 8)(), ctypes.c_int32()
        c.check(
            c.lib.attnKernelOutputShape(
                self._pointer,
                self._entry,
                tensors,
                len(views),
                index,
                shape,
                8,
                ctypes.byref(rank),
            )
        )
        return list(shape[: rank.value])

    def run(self, inputs, outputs):
        """Runs on views (attn._arrays), for the package's own use."""
        ins, keep_ins = arrays.pack(inputs)
        outs, keep_outs = arrays.pack(outputs)
        devices = {view.device for view in inputs + outputs if view.shape}
        on_gpu = self.target.startswith("sm_")
        if devices and (None in devices) == on_gpu:
            raise ValueError(
                "attn: expected tensors that a kernel for %s takes, but got some on %s"
                % (self.target, " and ".join(sorted(map(arrays.where, devices))))
            )
        options = c.run_options()
        if on_gpu and devices:
            options.stream = arrays.stream_of(min(devices))

        def call():
            return c.lib.attnKernelRunOn(
                self._pointer,
                self._entry,
                ins,
                len(inputs),
                outs,
                len(outputs),
                ctypes.byref(options),
            )

        c.run(call, options)


    def packed(self, operands, inputs, outputs, places, results, names):
        """Runs like `run` on these views, of arrays with other addresses
        (attn._plans.Packed), for the package's own use."""
        packed = _plans.Packed(
            c.run_kernel_at,
            (self._pointer, self._entry),
            operands,
            inputs,
            outputs,
            places,
            results,
            c.run_options(),
            names,
        )
        packed.kernel = self  # whose code it runs
        return packed


def _options(target, until_after, dump_phases_to, source_name, keep_ir, no_cache=False):
    def encode(name, text):
        if text is None:
            return None
        text = os.fspath(text) if isinstance(text, os.PathLike) else text
        if not isinstance(text, str):
            _fail("%s to be text" % name, arrays.describe(text), TypeError)
        return text.encode()

    return c.CompileOptions(
        structSize=ctypes.sizeof(c.CompileOptions),
        target=encode("target", target),
        untilAfter=encode("until_after", until_after),
        dumpPhasesTo=encode("dump_phases_to", dump_phases_to),
        sourceName=encode("source_name", source_name),
        keepIr=keep_ir,
        noCache=no_cache,
    )


def compile_text(
    text,
    *,
    entry=None,
    target=None,
    until_after=None,
    dump_phases_to=None,
    source_name=None,
    keep_ir=True,
    no_cache=False
):
    data = text.encode() if isinstance(text, str) else bytes(text)
    options = _options(
        target, until_after, dump_phases_to, source_name, keep_ir, no_cache
    )
    handle = ctypes.c_void_p()
    c.check(
        c.lib.attnCompile(
            c.context, data, len(data), ctypes.byref(options), ctypes.byref(handle)
        )
    )
    return Kernel(Handle(handle.value), entry)


def compile_call(
    desc,
    views,
    *,
    target=None,
    until_after=None,
    dump_phases_to=None,
    keep_ir=False,
    no_cache=False
):
    """The kernel of attention that `desc` describes, for operands like `views`, which
    begin with q and k."""
    options = _options(target, until_after, dump_phases_to, None, keep_ir, no_cache)
    handle = ctypes.c_void_p()
    tensors, keep = arrays.pack(views)
    c.check(
        c.lib.attnAttentionKernel(
            c.context,
            ctypes.byref(desc),
            tensors,
            len(views),
            ctypes.byref(options),
            ctypes.byref(handle),
        )
    )
    return Kernel(Handle(handle.value))
