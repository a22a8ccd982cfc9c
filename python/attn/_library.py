"""libattn.so through ctypes: the declarations of include/attn-c/attn.h.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import ctypes
import os
import signal
import threading
from ctypes import POINTER, c_char_p, c_double, c_int32, c_int64, c_size_t, c_void_p

API_VERSION = 10

F32, F16, BF16, F64, I8, I16, I32, I64, U8, BOOL = range(10)
DTYPE_NAMES = ("f32", "f16", "bf16", "f64", "i8", "i16", "i32", "i64", "u8", "bool")

CAUSAL = {None: 0, "top_left": 1, "bottom_right": 2}


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("dtype", c_int32),
        ("rank", c_int32),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
    ]


class CompileOptions(ctypes.Structure):
    _fields_ = [
        ("structSize", c_size_t),
        ("target", c_char_p),
        ("startFrom", c_char_p),
        ("untilAfter", c_char_p),
        ("dumpPhasesTo", c_char_p),
        ("sourceName", c_char_p),
        ("keepIr", c_int32),
        ("objectOnly", c_int32),
        ("noCache", c_int32),
    ]


class AttentionDesc(ctypes.Structure):
    _fields_ = [
        ("structSize", c_size_t),
        ("dtype", c_int32),
        ("headDim", c_int64),
        ("valueDim", c_int64),
        ("causal", c_int32),
        ("scale", c_int32),
        ("softcap", c_int32),
        ("window", c_int32),
        ("sinks", c_int32),
        ("lengths", c_int32),
        ("packed", c_int32),
        ("bias", c_int32),
        ("mask", c_int32),
        ("biasDType", c_int32),
        ("alibi", c_int32),
        ("monoid", c_char_p),
        ("numOutputs", c_int32),
        ("schedule", c_char_p),
        ("expectedSizes", c_int64 * 4),
        ("precision", c_int32),
        ("expectedKeyHeads", c_int64),
        ("blockTable", c_int32),
        ("kStart", c_int32),
        ("rolling", c_int32),
        ("batchInvariant", c_int32),
        ("append", c_int32),
        ("valueInKey", c_int32),
        ("scoreMod", c_char_p),
        ("maskMod", c_char_p),
        ("blockMask", c_int32),
        ("blockRows", c_int64),
        ("blockKeys", c_int64),
        ("dropout", c_int32),
        ("rotaryDim", c_int64),
        ("rotaryInterleaved", c_int32),
        ("rotaryBySlot", c_int32),
        ("cascade", c_int32),
        ("anyOrder", c_int32),
    ]


class ArgInfo(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p),
        ("dtype", c_int32),
        ("rank", c_int32),
        ("shape", POINTER(c_int64)),
        ("dims", POINTER(c_char_p)),
    ]


class RunOptions(ctypes.Structure):
    _fields_ = [
        ("structSize", c_size_t),
        ("stream", c_void_p),
        ("interrupt", c_void_p),
        ("interruptUser", c_void_p),
        ("counters", c_void_p),
        ("countersUser", c_void_p),
        ("place", c_int32),
    ]


class KVCacheOptions(ctypes.Structure):
    _fields_ = [
        ("structSize", c_size_t),
        ("window", c_int64),
        ("place", c_int32),
        ("keep", c_int64),
    ]


class DeviceInfo(ctypes.Structure):
    _fields_ = [
        ("structSize", c_size_t),
        ("name", ctypes.c_char * 256),
        ("target", ctypes.c_char * 16),
        ("major", c_int32),
        ("minor", c_int32),
        ("multiprocessors", c_int32),
        ("driverVersion", c_int32),
        ("sharedMemoryBytes", c_int64),
        ("l2Bytes", c_int64),
        ("memoryBytes", c_int64),
    ]


class DeviceKernel(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p),
        ("threads", c_int32),
        ("persistent", c_int32),
        ("sharedBytes", c_int64),
    ]


_TENSORS = POINTER(Tensor)
_IDS = [c_void_p, POINTER(c_int64), c_size_t]

# name: (result, arguments). A result of c_void_p named "error" is an
# AttnError *, which check() turns into an exception.
_FUNCTIONS = {
    "attnVersion": (c_char_p, []),
    "attnApiVersion": (c_int32, []),
    "attnErrorMessage": (c_char_p, [c_void_p]),
    "attnErrorDestroy": (None, [c_void_p]),
    "attnContextCreate": (c_void_p, [POINTER(c_void_p)]),
    "attnContextNumCached": (c_size_t, [c_void_p]),
    "attnContextClearCache": (None, [c_void_p]),
    "attnSetNumThreads": (None, [c_int32]),
    "attnGetNumThreads": (c_int32, []),
    "attnHostTarget": (c_char_p, []),
    "attnShippedMonoids": (c_char_p, []),
    "attnShippedMonoid": (c_char_p, [c_char_p]),
    "attnCompile": (
        c_void_p,
        [c_void_p, c_char_p, c_size_t, POINTER(CompileOptions), POINTER(c_void_p)],
    ),
    "attnCompileAttention": (
        c_void_p,
        [c_void_p, POINTER(AttentionDesc), POINTER(CompileOptions), POINTER(c_void_p)],
    ),
    "attnMonoidOutputs": (c_void_p, [c_char_p, c_void_p, c_void_p]),
    "attnDifferentiate": (
        c_void_p,
        [c_char_p, c_size_t, c_char_p, c_char_p, c_void_p, c_void_p],
    ),
    "attnDifferentiateAttention": (
        c_void_p,
        [POINTER(AttentionDesc), c_char_p, c_void_p, c_void_p],
    ),
    "attnAttention": (
        c_void_p,
        [c_void_p, POINTER(AttentionDesc), _TENSORS, c_size_t, _TENSORS, c_size_t]
        + [POINTER(RunOptions)],
    ),
    "attnAttentionKernel": (
        c_void_p,
        [c_void_p, POINTER(AttentionDesc), _TENSORS, c_size_t]
        + [POINTER(CompileOptions), POINTER(c_void_p)],
    ),
    "attnKernelDestroy": (None, [c_void_p]),
    "attnKernelNumEntries": (c_size_t, [c_void_p]),
    "attnKernelEntryName": (c_char_p, [c_void_p, c_size_t]),
    "attnKernelFindEntry": (c_int64, [c_void_p, c_char_p]),
    "attnKernelNumInputs": (c_size_t, [c_void_p, c_size_t]),
    "attnKernelNumOutputs": (c_size_t, [c_void_p, c_size_t]),
    "attnKernelArg": (c_void_p, [c_void_p, c_size_t, c_size_t, POINTER(ArgInfo)]),
    "attnKernelArgIsWritten": (c_int32, [c_void_p, c_size_t, c_size_t]),
    "attnKernelTarget": (c_char_p, [c_void_p]),
    "attnKernelExplain": (c_char_p, [c_void_p]),
    "attnKernelIr": (c_char_p, [c_void_p, c_char_p]),
    "attnKernelNumTimes": (c_size_t, [c_void_p]),
    "attnKernelTimeName": (c_char_p, [c_void_p, c_size_t]),
    "attnKernelTimeMs": (c_double, [c_void_p, c_size_t]),
    "attnKernelOutputShape": (
        c_void_p,
        [c_void_p, c_size_t, _TENSORS, c_size_t, c_size_t]
        + [POINTER(c_int64), c_int32, POINTER(c_int32)],
    ),
    "attnKernelRun": (
        c_void_p,
        [c_void_p, c_size_t, _TENSORS, c_size_t, _TENSORS, c_size_t],
    ),
    "attnKernelRunOn": (
        c_void_p,
        [c_void_p, c_size_t, _TENSORS, c_size_t, _TENSORS, c_size_t]
        + [POINTER(RunOptions)],
    ),
    "attnKernelLoad": (c_void_p, [c_void_p, c_int32]),
    "attnKernelPtx": (c_char_p, [c_void_p]),
    "attnKernelCubin": (c_void_p, [c_void_p, POINTER(c_size_t)]),
    "attnKernelNumDeviceKernels": (c_size_t, [c_void_p]),
    "attnKernelDeviceKernel": (c_void_p, [c_void_p, c_size_t, POINTER(DeviceKernel)]),
    "attnDeviceCount": (c_void_p, [POINTER(c_int32)]),
    "attnDeviceGet": (c_void_p, [c_int32, POINTER(DeviceInfo)]),
    "attnMergeStates": (
        c_void_p,
        [c_void_p] + [_TENSORS] * 4 + [POINTER(RunOptions)],
    ),
    "attnKVCacheCreate": (
        c_void_p,
        [_TENSORS, _TENSORS, POINTER(KVCacheOptions), POINTER(c_void_p)],
    ),
    "attnKVCacheDestroy": (None, [c_void_p]),
    "attnKVCacheNew": (c_void_p, [c_void_p, POINTER(c_int64)]),
    "attnKVCacheAppend": (
        c_void_p,
        _IDS + [_TENSORS] * 3 + [c_int64, POINTER(RunOptions)],
    ),
    "attnKVCacheReuse": (
        c_void_p,
        [c_void_p, c_int64, POINTER(c_int64), c_size_t, POINTER(c_int64)],
    ),
    "attnKVCacheFork": (c_void_p, [c_void_p, c_int64, POINTER(c_int64)]),
    "attnKVCacheTruncate": (c_void_p, [c_void_p, c_int64, c_int64]),
    "attnKVCacheFree": (c_void_p, [c_void_p, c_int64]),
    "attnKVCacheReorder": (c_void_p, [c_void_p] + [POINTER(c_int64)] * 2 + [c_size_t]),
    "attnKVCacheLengths": (c_void_p, _IDS + [POINTER(c_int32)] * 2),
    "attnKVCacheWidth": (c_void_p, _IDS + [POINTER(c_int64)]),
    "attnKVCacheTable": (c_void_p, _IDS + [c_int64, POINTER(c_int32)]),
    "attnKVCacheFreePages": (c_int64, [c_void_p]),
    "attnKVCacheIds": (c_size_t, _IDS),
}


def find_path():
    """The path of libattn.so: ATTN_LIBRARY, else as the package, an install or
    a checkout has it."""
    path = os.environ.get("ATTN_LIBRARY")
    if path:
        return path
    here = os.path.dirname(os.path.abspath(__file__))
    root = os.path.dirname(os.path.dirname(here))
    for folder in (here, os.path.join(root, "lib"), os.path.join(root, "build", "lib")):
        path = os.path.join(folder, "libattn.so")
        if os.path.exists(path):
            return path
    raise ImportError(
        "attn: expected libattn.so in %s/lib or at the path in ATTN_LIBRARY, but "
        "there is none; build it with tools/dev build" % root
    )


def _load():
    path = find_path()
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(
            "attn: expected a library at %s, but loading it failed: %s" % (path, error)
        ) from None
    try:
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(library, name)
            function.restype = result
            function.argtypes = arguments
    except AttributeError:
        raise ImportError(
            "attn: expected a libattn.so of API version %d, but %s has no %s"
            % (API_VERSION, path, name)
        ) from None
    if library.attnApiVersion() < API_VERSION:
        raise ImportError(
            "attn: expected a libattn.so of API version %d, but %s has %d"
            % (API_VERSION, path, library.attnApiVersion())
        )
    return library


lib = _load()


def _interrupt_function():
    """The address of a function that tells whether Ctrl-C was pressed, of the main
    thread; None where Python has none. It runs no Python code, where a handler's
    exception would be lost in the callback."""
    pressed = getattr(
        getattr(ctypes, "pythonapi", None), "PyOS_InterruptOccurred", None
    )
    if pressed is None:
        return None, None
    pressed.restype = c_int32
    pressed.argtypes = [c_void_p]
    callback = ctypes.CFUNCTYPE(c_int32, c_void_p)(pressed)
    return callback, ctypes.cast(callback, c_void_p).value


_interrupt_callback, _interrupt = _interrupt_function()


def interrupt():
    """What a run of this thread asks whether Ctrl-C was pressed, or None: Python tells
    the main thread alone, and ends a thread that asks when it ends itself."""
    is_main = threading.get_ident() == threading.main_thread().ident
    return _interrupt if is_main else None


def run_options(device=None):
    """AttnRunOptions for a run that Ctrl-C ends, on the host or a GPU."""
    return RunOptions(
        structSize=ctypes.sizeof(RunOptions),
        interrupt=interrupt(),
        place=0 if device is None else 1,  # AttnPlace of attn.h
    )


def _c_function(name, result, *arguments):
    function = getattr(ctypes.CDLL(None), name)
    function.restype = result
    function.argtypes = arguments
    return function


_open_memstream = _c_function(
    "open_memstream", c_void_p, POINTER(c_void_p), POINTER(c_size_t)
)
_fclose = _c_function("fclose", c_int32, c_void_p)
_free = _c_function("free", None, c_void_p)
_fputs = ctypes.cast(ctypes.CDLL(None).fputs, c_void_p)


def text_of(function, *arguments):
    """The text that a function of libattn gives an AttnText, its last arguments. C
    takes it: when Python ends, it ends a thread that calls back, which would unwind
    the library's frames."""
    text, size = c_void_p(), c_size_t()
    stream = _open_memstream(ctypes.byref(text), ctypes.byref(size))
    if not stream:
        raise MemoryError
    try:
        error = function(*arguments, _fputs, stream)
    finally:
        _fclose(stream)
    try:
        check(error)
        return ctypes.string_at(text.value, size.value).decode()
    finally:
        _free(text)


def monoid_outputs(monoid):
    """The names of the outputs of a monoid, a name or text."""
    names = text_of(lib.attnMonoidOutputs, monoid.encode())
    return tuple(name.strip() for name in names.split(",") if name.strip())


def go_on(error):
    """Whether a run that ended with `error` is to be made again without an end
    by Ctrl-C: it was pressed, and what the program has set up for that did not
    raise an exception. By default it raises KeyboardInterrupt."""
    if not lib.attnErrorMessage(error).startswith(b"interrupted"):
        return False
    lib.attnErrorDestroy(error)
    # Python's own handling of what the run has taken notice of.
    signal.raise_signal(signal.SIGINT)
    return True


def run(call, options):
    """Makes a call of the library that runs a kernel with `options`, and raises what
    it returned, if anything."""
    error = call()
    if error and go_on(error):
        options.interrupt = None
        error = call()
    check(error)


class OutOfPages(RuntimeError):
    """An attn.KVCache has fewer free pages than an append wants. Nothing of it was
    appended: free or truncate sequences, and append again."""

    __module__ = "attn"


def check(error):
    """Raises what a function of the library returned, if anything."""
    if not error:
        return
    message = lib.attnErrorMessage(error).decode()
    lib.attnErrorDestroy(error)
    first, *notes = message.rstrip().split("\n")
    kind = ValueError
    for start, other in (("out of memory", MemoryError), ("out of pages", OutOfPages)):
        kind = other if first.startswith(start) else kind
    exception = kind("attn: " + first)
    # What the compiler has to say besides, where Python can carry it.
    if hasattr(exception, "add_note"):
        for note in notes:
            exception.add_note(note)
    raise exception


def _create_context():
    handle = c_void_p()
    check(lib.attnContextCreate(ctypes.byref(handle)))
    return handle


_targets = {}


def device_target(device):
    """The target of a GPU, as "sm_90a"; of the host, None."""
    if device is None:
        return None
    if device not in _targets:
        info = DeviceInfo(structSize=ctypes.sizeof(DeviceInfo))
        check(lib.attnDeviceGet(device, ctypes.byref(info)))
        _targets[device] = info.target.decode()
        if not _targets[device]:
            raise ValueError(
                "attn: expected a GPU of compute capability 8.0 or later, but got %s"
                % info.name.decode()
            )
    return _targets[device]


# attnAttention and attnKernelRunOn again, with the addresses of structs as numbers.
run_at, run_kernel_at = lib["attnAttention"], lib["attnKernelRunOn"]
run_at.restype = run_kernel_at.restype = c_void_p
run_at.argtypes = [c_void_p] * 2 + [c_void_p, c_size_t] * 2 + [c_void_p]
run_kernel_at.argtypes = [c_void_p, c_size_t] * 3 + [c_void_p]

# One for the process: kernels are found again in its cache.
context = _create_context()
