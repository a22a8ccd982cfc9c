"""Arrays of any producer of DLPack, as memory with strides, without copies.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

The structs are those of dlpack.h, versions 0 and 1. A capsule is consumed by
renaming it; from then on its deleter is ours to call, once.
"""

import ctypes
from ctypes import POINTER, c_int32, c_int64, c_uint8, c_uint16, c_uint32
from ctypes import c_uint64, c_void_p, py_object

from . import _library as c

# Names must outlive the capsules that they are given to.
_PLAIN, _USED_PLAIN = b"dltensor", b"used_dltensor"
_VERSIONED, _USED_VERSIONED = b"dltensor_versioned", b"used_dltensor_versioned"
_VERSION = (1, 0)
_READ_ONLY = 1
_DEVICES = {1: "the CPU", 2: "CUDA", 3: "CUDA host memory", 8: "Metal", 10: "ROCm"}
_DTYPES = {
    (2, 32): c.F32,
    (2, 16): c.F16,
    (4, 16): c.BF16,
    (2, 64): c.F64,
    (0, 8): c.I8,
    (0, 16): c.I16,
    (0, 32): c.I32,
    (0, 64): c.I64,
    (1, 8): c.U8,
    (6, 8): c.BOOL,
}
_CODES = {0: "int", 1: "uint", 2: "float", 3: "handle", 4: "bfloat", 5: "complex"}


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


_Deleter = ctypes.CFUNCTYPE(None, c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = [
        ("tensor", _DLTensor),
        ("context", c_void_p),
        ("deleter", _Deleter),
    ]


class _ManagedVersioned(ctypes.Structure):
    _fields_ = [
        ("major", c_uint32),
        ("minor", c_uint32),
        ("context", c_void_p),
        ("deleter", _Deleter),
        ("flags", c_uint64),
        ("tensor", _DLTensor),
    ]


def _api(name, result, *arguments):
    function = getattr(ctypes.pythonapi, name)
    function.restype = result
    function.argtypes = arguments
    return function


_is_valid = _api("PyCapsule_IsValid", ctypes.c_int, py_object, ctypes.c_char_p)
_pointer = _api("PyCapsule_GetPointer", c_void_p, py_object, ctypes.c_char_p)
_rename = _api("PyCapsule_SetName", ctypes.c_int, py_object, ctypes.c_char_p)


class Owner:
    """Keeps the producer's memory until nobody looks at it."""

    __slots__ = ("managed", "read_only")

    def __init__(self, managed, read_only):
        self.managed = managed
        self.read_only = read_only

    def __del__(self):
        managed, self.managed = self.managed, None
        if managed is not None and managed.deleter:
            managed.deleter(ctypes.addressof(managed))


def is_producer(array):
    return hasattr(array, "__dlpack__") and hasattr(array, "__dlpack_device__")


def _capsule(name, array):
    device = array.__dlpack_device__()[0]
    if device != 1:
        raise ValueError(
            "attn: expected %s on the CPU, but got %s on %s; memory of a GPU is taken "
            "from torch tensors"
            % (
                name,
                type(array).__name__,
                _DEVICES.get(int(device), "device type %d" % device),
            )
        )
    try:
        try:
            return array.__dlpack__(max_version=_VERSION)
        except TypeError:  # a producer that knows no versions
            return array.__dlpack__()
    except (BufferError, RuntimeError) as error:
        raise ValueError(
            "attn: expected %s to give its memory through DLPack, but %s does not: %s"
            % (name, type(array).__name__, str(error).split("\n")[0])
        ) from None


def read(name, array):
    """(address, dtype, shape, strides, owner) of what `array` gives."""
    capsule = _capsule(name, array)
    if _is_valid(capsule, _VERSIONED):
        kind, used, struct = _VERSIONED, _USED_VERSIONED, _ManagedVersioned
    elif _is_valid(capsule, _PLAIN):
        kind, used, struct = _PLAIN, _USED_PLAIN, _Managed
    else:
        raise TypeError(
            "attn: expected the __dlpack__ of %s to return an unused capsule, but got "
            "%.60r" % (name, capsule)
        )
    managed = struct.from_address(_pointer(capsule, kind))
    _rename(capsule, used)
    owner = Owner(managed, False)
    if struct is _ManagedVersioned:
        if managed.major != _VERSION[0]:
            raise ValueError(
                "attn: expected %s by DLPack 0 or 1, but got version %d.%d"
                % (name, managed.major, managed.minor)
            )
        owner.read_only = bool(managed.flags & _READ_ONLY)
    tensor = managed.tensor
    dtype = _DTYPES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if dtype is None:
        raise TypeError(
            "attn: expected %s of a float, integer or boolean type, but got %s%d%s"
            % (
                name,
                _CODES.get(tensor.code, "type %d of " % tensor.code),
                tensor.bits,
                "" if tensor.lanes == 1 else " in vectors of %d" % tensor.lanes,
            )
        )
    address = (tensor.data or 0) + tensor.byte_offset
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    if tensor.strides:
        strides = tuple(tensor.strides[i] for i in range(tensor.ndim))
    else:  # dense
        dense, size = [], 1
        for extent in reversed(shape):
            dense.append(size)
            size *= max(extent, 1)
        strides = tuple(reversed(dense))
    return address, dtype, shape, strides, owner
