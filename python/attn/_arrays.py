"""NumPy arrays, torch tensors and whatever else gives its memory through DLPack,
as memory with strides, without copies.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

Neither package is imported here: an argument of their types shows that the
caller has done so.
"""

import ctypes
import functools
import math
import struct
import sys

from . import _dlpack
from . import _library as c

_NUMPY_DTYPES = {
    "float32": c.F32,
    "float16": c.F16,
    "bfloat16": c.BF16,
    "float64": c.F64,
    "int8": c.I8,
    "int16": c.I16,
    "int32": c.I32,
    "int64": c.I64,
    "uint8": c.U8,
    "bool": c.BOOL,
}
_ITEM_SIZES = (4, 2, 2, 8, 1, 2, 4, 8, 1, 1)


def item_size(dtype):
    """Bytes of an element."""
    return _ITEM_SIZES[dtype]


class View:
    """Memory of an array: what the library is told of it, and the number of the
    GPU that it is on, None for the host."""

    __slots__ = ("data", "dtype", "shape", "strides", "owner", "device")

    def __init__(self, data, dtype, shape, strides, owner, device=None):
        self.data = data
        self.dtype = dtype
        self.shape = tuple(shape)
        self.strides = tuple(strides)
        self.owner = owner
        self.device = device

    @property
    def is_empty(self):
        return 0 in self.shape

    def narrowed(self, columns):
        """The first columns."""
        shape = self.shape[:-1] + (columns,)
        return View(self.data, self.dtype, shape, self.strides, self.owner, self.device)

    def permuted(self, axes):
        return View(
            self.data,
            self.dtype,
            [self.shape[i] for i in axes],
            [self.strides[i] for i in axes],
            self.owner,
            self.device,
        )


def torch_module():
    """torch, where the caller has imported it, or None."""
    return sys.modules.get("torch")


def numpy_module():
    """numpy, where the caller has imported it, or None."""
    return sys.modules.get("numpy")


def tensor_type():
    """torch.Tensor, or None: also while another thread imports torch."""
    return getattr(torch_module(), "Tensor", None)


def ndarray_type():
    """numpy.ndarray, or None."""
    return getattr(numpy_module(), "ndarray", None)


def is_torch(array):
    kind = tensor_type()
    return kind is not None and isinstance(array, kind)


def is_numpy(array):
    kind = ndarray_type()
    return kind is not None and isinstance(array, kind)


def may_cast():
    """Whether torch may be under autocast, which gives tensors another type."""
    torch = torch_module()
    is_any = getattr(getattr(torch, "_C", None), "_is_any_autocast_enabled", None)
    return torch is not None and (is_any is None or is_any())


def is_traced_jax(*values):
    """Whether one of these is an array that JAX traces, and has no values yet."""
    jax = sys.modules.get("jax")
    tracer = getattr(getattr(jax, "core", None), "Tracer", None)
    return tracer is not None and any(isinstance(value, tracer) for value in values)


def kind_of(array):
    """ "numpy", "torch", "dlpack" for any other producer, or None."""
    if is_numpy(array):
        return "numpy"
    if is_torch(array):
        return "torch"
    return "dlpack" if _dlpack.is_producer(array) else None


def describe(value):
    """A few words for an error message."""
    if is_numpy(value) or is_torch(value):
        return "%s of shape %s" % (
            str(value.dtype).replace("torch.", ""),
            list(value.shape),
        )
    if _dlpack.is_producer(value) and hasattr(value, "shape"):
        return "%s of shape %s" % (type(value).__name__, list(value.shape))
    return "%s %.60r" % (type(value).__name__, value)


def _view_torch(name, tensor):
    torch = torch_module()
    if tensor.requires_grad and torch.is_grad_enabled():
        raise ValueError(
            "attn: expected %s without gradient, but it requires grad; pass "
            "%s.detach(), or call under "
            "torch.no_grad()" % (name, name)
        )
    if tensor.device.type not in ("cpu", "cuda"):
        raise ValueError(
            "attn: expected %s on the CPU or an NVIDIA GPU, but got a tensor on %s"
            % (name, tensor.device)
        )
    if tensor.layout != torch.strided:
        raise ValueError(
            "attn: expected %s to be a strided tensor, but got %s; pass %s.to_dense()"
            % (name, tensor.layout, name)
        )
    if tensor.is_nested:
        raise ValueError(
            "attn: expected %s to be one tensor, but it is nested; pass layout 'thd' "
            "and cu_seqlens" % name
        )
    if tensor.is_neg():
        raise ValueError(
            "attn: expected %s as it is in memory, but a negation of it is pending; "
            "pass %s.resolve_neg()" % (name, name)
        )
    if in_forward_ad() and _has_tangent(torch, tensor):
        raise ValueError(
            "attn: expected %s without tangent, since there is no forward-mode "
            "derivative, but it has one; pass its primal" % name
        )
    dtype = _code_of(tensor.dtype)
    if dtype is None:
        raise TypeError(
            "attn: expected %s of a float, integer or boolean type, but got %s"
            % (name, tensor.dtype)
        )
    device = tensor.device.index if tensor.is_cuda else None
    try:
        address = tensor.data_ptr()
    except RuntimeError:
        raise without_memory(name) from None
    if address % _ITEM_SIZES[dtype]:
        raise misaligned(name)
    return View(address, dtype, tensor.shape, tensor.stride(), tensor, device)


def versions(values):
    """What counts the changes of torch's tensors, of values that may be nested."""
    found = []
    for value in values:
        if isinstance(value, (list, tuple)):
            found += versions(value)
        elif isinstance(value, dict):
            found += versions(value.values())
        elif is_torch(value) and not value.is_inference():
            found.append(value._version)
    return found


def misaligned(name):
    return ValueError(
        "attn: expected %s in aligned memory, but it is not; pass %s"
        % (name, _instead(name))
    )


def _instead(name, copy="a copy"):
    """What to pass instead of an array that lies badly: of an output a copy would be
    written to, and the array itself would not."""
    return "a new array" if name == "out" else copy


def without_memory(name):
    return ValueError(
        "attn: expected %s with memory, but the tensor has none, as under torch.func; "
        "call attn.attention outside, with one more batch, or attn.attention_vjp" % name
    )


def in_forward_ad():
    """Whether tensors of torch may have tangents."""
    forward_ad = sys.modules.get("torch.autograd.forward_ad")
    return getattr(forward_ad, "_current_level", -1) >= 0


def _has_tangent(torch, tensor):
    return torch.autograd.forward_ad.unpack_dual(tensor).tangent is not None


# dtype objects of NumPy and torch seen so far; None where not supported.
_seen_dtypes = {}


def _code_of(dtype):
    try:
        return _seen_dtypes[dtype]
    except KeyError:
        name = getattr(dtype, "name", None) or str(dtype)[len("torch.") :]
        return _seen_dtypes.setdefault(dtype, _NUMPY_DTYPES.get(name))


def _view_numpy(name, array):
    ma = sys.modules.get("numpy.ma")
    if ma is not None and ma.is_masked(array):
        raise ValueError(
            "attn: expected %s without masked elements, but got %d of them; pass "
            "%s.filled() and a mask" % (name, array.mask.sum(), name)
        )
    dtype = _code_of(array.dtype)
    if dtype is None:
        raise TypeError(
            "attn: expected %s of a float, integer or boolean type, but got %s"
            % (name, array.dtype)
        )
    item = _ITEM_SIZES[dtype]
    if not (array.dtype.isnative and array.flags.aligned) or any(
        stride % item for stride in array.strides
    ):
        copy = "a copy, %s.astype(%s)" % (name, array.dtype.name)
        raise ValueError(
            "attn: expected %s in aligned memory of this machine's byte order, but "
            "it is not; pass %s" % (name, _instead(name, copy))
        )
    strides = [stride // item for stride in array.strides]
    return View(_address_numpy(array), dtype, array.shape, strides, array)


def _address_numpy(array):
    return array.__array_interface__["data"][0]


def address_function(array):
    """The function from arrays of this NumPy or torch type, or numbers of ctypes, to
    their addresses."""
    if isinstance(array, ctypes._SimpleCData):
        return ctypes.addressof
    return type(array).data_ptr if is_torch(array) else _address_numpy


def view(name, array):
    """The memory of an array. Raises TypeError for anything else than a NumPy
    array, a torch tensor or a producer of DLPack in host memory."""
    if is_numpy(array):
        return _view_numpy(name, array)
    if is_torch(array):
        return _view_torch(name, array)
    if _dlpack.is_producer(array):
        found = View(*_dlpack.read(name, array))
        if found.data % _ITEM_SIZES[found.dtype]:
            raise misaligned(name)
        return found
    raise TypeError(
        "attn: expected %s to be a NumPy array, a torch tensor or an array with "
        "__dlpack__, but got %s" % (name, describe(array))
    )


def where(device):
    return "the CPU" if device is None else "cuda:%d" % device


def check_device(name, found, device):
    """All operands of a call are on one device."""
    if found.device != device:
        raise ValueError(
            "attn: expected %s on %s, where q is, but it is on %s; move it there"
            % (name, where(device), where(found.device))
        )


# What list() takes, in an order of its own or as something else than numbers.
_NO_LISTS = (set, frozenset, dict, str, bytes, bytearray)


def vector(name, values, dtype, device=None):
    """A small float32 or int32 operand: an array of that type is looked at in
    place, other numbers are converted. Lists go to the GPU `device`, if any."""
    if device is not None and not kind_of(values):
        torch = torch_module()
        on_host = vector(name, values, dtype)
        flat = torch.tensor(list(on_host.owner)[: math.prod(on_host.shape)])
        kind = torch.float32 if dtype == c.F32 else torch.int32
        place = torch.device("cuda", device)
        return view(name, flat.to(kind).reshape(on_host.shape).to(place))
    if kind_of(values):
        found = view(name, values)
        check_device(name, found, device)
        # Strides of empty arrays mean nothing.
        contiguous = found.is_empty or not found.shape or found.shape[-1] == 1
        contiguous = contiguous or found.strides[-1] == 1
        if found.dtype == dtype and contiguous:
            return found
        is_float = found.dtype in (c.F32, c.F16, c.BF16, c.F64)
        if found.dtype == c.BOOL or is_float != (dtype == c.F32):
            raise TypeError(
                "attn: expected %s of type %s, but got %s"
                % (name, c.DTYPE_NAMES[dtype], describe(values))
            )
        if found.is_empty:  # whose shape no list tells
            strides = [1] * len(found.shape)
            return View(0, dtype, found.shape, strides, values, found.device)
        if not hasattr(values, "tolist"):
            raise TypeError(
                "attn: expected %s to be dense and of type %s, but got %s"
                % (name, c.DTYPE_NAMES[dtype], describe(values))
            )
        values = values.tolist()
        if device is not None:
            return vector(name, values, dtype, device)
    ctype = ctypes.c_float if dtype == c.F32 else ctypes.c_int32
    try:
        if isinstance(values, _NO_LISTS):
            raise TypeError
        rows = list(values)
        width = len(rows[0]) if rows and isinstance(rows[0], (list, tuple)) else None
        flat = rows if width is None else [x for row in rows for x in row]
        if width is not None and any(len(row) != width for row in rows):
            raise ValueError
        # As of an array of booleans, nobody meant numbers.
        if any(kind.__name__ in ("bool", "bool_") for kind in set(map(type, flat))):
            raise TypeError
        if dtype == c.I32:
            if any(x != int(x) or not -(2**31) <= x < 2**31 for x in flat):
                raise ValueError
            flat = [int(x) for x in flat]
        memory = (ctype * max(len(flat), 1))(*flat)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(
            "attn: expected %s to hold numbers of type %s, but got %s"
            % (name, c.DTYPE_NAMES[dtype], describe(values))
        ) from None
    shape = (len(rows),) if width is None else (len(rows), width)
    strides = (1,) if width is None else (width, 1)
    return View(ctypes.addressof(memory), dtype, shape, strides, memory)


def is_bool(value):
    """Whether this is a boolean of Python, NumPy or torch."""
    if isinstance(value, bool):
        return True
    is_scalar = getattr(value, "shape", None) == ()
    return is_scalar and str(getattr(value, "dtype", "")) in ("bool", "torch.bool")


_INTEGERS = {
    c.I8: ctypes.c_int8,
    c.I16: ctypes.c_int16,
    c.I32: ctypes.c_int32,
    c.I64: ctypes.c_int64,
    c.U8: ctypes.c_uint8,
}


def _memory_of(value, dtype):
    if dtype == c.BOOL:
        if not is_bool(value) and value not in (0, 1):
            raise ValueError
        return ctypes.c_uint8(bool(value))
    # float("0.5") and float(True) are numbers, and not what anybody meant.
    if isinstance(value, (str, bytes, bytearray)) or is_bool(value):
        raise TypeError
    if dtype in _INTEGERS:
        memory = _INTEGERS[dtype](int(value))
        if memory.value != value:
            raise ValueError
        return memory
    number = float(value)
    if dtype == c.F16:
        return ctypes.c_uint16.from_buffer_copy(struct.pack("<e", number))
    if dtype == c.BF16:
        bits = ctypes.c_uint32.from_buffer_copy(ctypes.c_float(number)).value
        if number == number:  # to nearest, ties to even
            bits += 0x7FFF + (bits >> 16 & 1)
        return ctypes.c_uint16(bits >> 16)
    return (ctypes.c_double if dtype == c.F64 else ctypes.c_float)(number)


def scalar(name, value, dtype):
    """A number as a tensor of rank 0."""
    try:
        memory = _memory_of(value, dtype)
    except (TypeError, ValueError, OverflowError):
        kind = "a number"
        if dtype in _INTEGERS:
            kind = "an integer of %d bits" % (8 * item_size(dtype))
        elif dtype == c.BOOL:
            kind = "True or False"
        raise TypeError(
            "attn: expected %s to be %s, but got %s" % (name, kind, describe(value))
        ) from None
    return View(ctypes.addressof(memory), dtype, (), (), memory)


# Bytes from which on an array has large pages, as numpy's own arrays do.
_LARGE = 4 << 20


def _ask_for_large_pages(tensor):
    """Has the system give the memory of a new tensor in large pages, where it can: in
    small ones the first writes to 33 MB wait 20 ms."""
    page, advice = 4096, 14  # MADV_HUGEPAGE
    if sys.platform == "linux":
        start = tensor.data_ptr()
        end = (start + tensor.numel() * tensor.element_size()) // page * page
        start = -(-start // page) * page
        madvise = ctypes.CDLL(None).madvise
        madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), advice)
    return tensor


def maker(like, dtype, shape):
    """A function that makes new dense arrays of the kind of `like`; NumPy arrays for
    other kinds than torch."""
    name, shape = c.DTYPE_NAMES[dtype], tuple(shape)
    if is_torch(like):
        torch = torch_module()
        types = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
        make = functools.partial(
            torch.empty, shape, dtype=types[name], device=like.device
        )
        if like.device.type == "cpu" and math.prod(shape) >= _LARGE // item_size(dtype):
            return lambda: _ask_for_large_pages(make())
        return make
    import numpy

    if name == "bf16":
        import ml_dtypes

        return functools.partial(numpy.empty, shape, ml_dtypes.bfloat16)
    types = {"f32": numpy.float32, "f16": numpy.float16}
    return functools.partial(numpy.empty, shape, types[name])


def empty(like, dtype, shape):
    """A new dense array, as by `maker`."""
    return maker(like, dtype, shape)()


def like(array, result):
    """A result made by `empty` as an array of the kind of `array`: its own
    package's, where that follows the array API standard."""
    if kind_of(array) != "dlpack" or not hasattr(array, "__array_namespace__"):
        return result
    return array.__array_namespace__().asarray(result)


def check_writable(name, array, view):
    read_only = is_numpy(array) and not array.flags.writeable
    jax = sys.modules.get("jax")
    # Immutable, whatever DLPack says: other arrays may have its memory.
    read_only = read_only or jax is not None and isinstance(array, jax.Array)
    if read_only or getattr(view.owner, "read_only", False):
        raise ValueError(
            "attn: expected %s to be writable, but it is a read-only array" % name
        )


def stream_of(device):
    """The address of the stream that torch works on."""
    torch = torch_module()
    if torch is None:
        return None
    # The same without an object of torch.cuda.Stream, where torch has it.
    get = getattr(getattr(torch, "_C", None), "_cuda_getCurrentRawStream", None)
    return get(device) if get else torch.cuda.current_stream(device).cuda_stream


def pack(views):
    """The array of AttnTensor for some views, and what it points to."""
    tensors = (c.Tensor * max(len(views), 1))()
    keep = []
    for slot, item in zip(tensors, views):
        sizes = ctypes.c_int64 * max(len(item.shape), 1)
        shape, strides = sizes(*item.shape), sizes(*item.strides)
        slot.data, slot.dtype, slot.rank = item.data, item.dtype, len(item.shape)
        slot.shape, slot.strides = shape, strides
        keep.append((shape, strides))
    return tensors, keep
