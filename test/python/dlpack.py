# RUN: %python %s
"""Arrays of any producer of DLPack.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import ctypes
import gc
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from reference import fails, qkv

import attn
from attn import _dlpack

rng = np.random.default_rng(3)
freed = []


class Producer:
    """An array of a package that attn has never heard of, by capsules of
    version 0 or 1."""

    def __init__(self, array, version=None, device=1, flags=0, dense=False, **changes):
        self.array, self.version, self.device = array, version, device
        self.flags, self.dense, self.changes = flags, dense, changes
        self.shape = array.shape

    def __dlpack_device__(self):
        return self.device, 0

    def __dlpack__(self, **options):
        if self.version is None and options:
            raise TypeError("unexpected argument")
        array = self.array
        versioned = self.version is not None
        managed = (_dlpack._ManagedVersioned if versioned else _dlpack._Managed)()
        sizes = ctypes.c_int64 * max(array.ndim, 1)
        shape = sizes(*array.shape)
        strides = sizes(*[x // array.itemsize for x in array.strides])
        tensor = managed.tensor
        tensor.data, tensor.device_type, tensor.ndim = array.ctypes.data, 1, array.ndim
        tensor.code = {"f": 2, "i": 0, "b": 6}[array.dtype.kind]
        tensor.bits, tensor.lanes = 8 * array.itemsize, 1
        tensor.shape = shape
        if not self.dense:
            tensor.strides = strides
        if versioned:
            managed.major, managed.flags = self.version, self.flags
        for name, value in self.changes.items():
            setattr(tensor, name, value)
        address = ctypes.addressof(managed)

        def delete(pointer):
            assert pointer == address
            freed.append(self)
            keep.clear()

        deleter = _dlpack._Deleter(delete)
        keep = [managed, shape, strides, array]
        alive.append(deleter)  # code must outlive its own call
        managed.deleter = deleter
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        name = _dlpack._VERSIONED if versioned else _dlpack._PLAIN
        return new(address, name, None)


alive = []


def test_operands():
    q, k, v = qkv(rng)
    want, want_lse = attn.attention(q, k, v, return_lse=True)
    for version in (None, 1):
        freed.clear()
        operands = [Producer(x, version) for x in (q, k, v)]
        out, lse = attn.attention(*operands, return_lse=True)
        assert isinstance(out, np.ndarray) and np.array_equal(out, want)
        assert np.array_equal(lse, want_lse)
        del operands
        gc.collect()
        assert len(freed) == 3, len(freed)
    # Dense arrays may have no strides; read-only memory is read.
    freed.clear()
    operands = [Producer(x, 1, flags=1, dense=True) for x in (q, k, v)]
    assert np.array_equal(attn.attention(*operands), want)
    kernel = attn.compile(*operands)
    assert np.array_equal(kernel(*operands), want)
    gc.collect()
    # compile looked at them too
    assert len(freed) == 9, len(freed)
    # Strides, an offset, small operands.
    swapped = [Producer(x.transpose(0, 2, 1, 3).copy().transpose(0, 2, 1, 3))
               for x in (q, k, v)]
    assert np.array_equal(attn.attention(*swapped), want)
    shifted = Producer(q[:, :, 1:], data=q.ctypes.data, byte_offset=q.strides[2])
    lengths = np.array([40, 13], np.int32)
    got = attn.attention(shifted, Producer(k), Producer(v),
                         kv_lengths=Producer(lengths))
    assert np.array_equal(got, attn.attention(q[:, :, 1:], k, v, kv_lengths=lengths))


def test_numpy_capsules():
    # NumPy's own producer, hidden from attn.
    class Hidden:
        def __init__(self, array):
            self.__dlpack__ = array.__dlpack__
            self.__dlpack_device__ = array.__dlpack_device__

    q, k, v = qkv(rng, dtype=np.float16)
    out = attn.attention(Hidden(q), Hidden(k), Hidden(v))
    assert np.array_equal(out, attn.attention(q, k, v))


def test_outputs():
    q, k, v = qkv(rng)
    want = attn.attention(q, k, v)
    out = np.zeros_like(want)
    producer = Producer(out, 1)
    assert attn.attention(q, k, v, out=producer) is producer
    assert np.array_equal(out, want)
    fails(
        ValueError,
        "expected out to be writable",
        attn.attention,
        q,
        k,
        v,
        out=Producer(out, 1, flags=1),
    )

    # The result of a package that follows the array API standard is its own.
    class Array(Producer):
        def __array_namespace__(self):
            return Namespace

    class Namespace:
        @staticmethod
        def asarray(array):
            return Array(array)

    got = attn.attention(*[Array(x) for x in (q, k, v)])
    assert isinstance(got, Array) and np.array_equal(got.array, want)


def test_errors():
    q, k, v = qkv(rng)

    def bad(error, text, wrong):
        fails(error, text, attn.attention, wrong, Producer(k), Producer(v))

    bad(ValueError, "expected q on the CPU, but got Producer on CUDA",
        Producer(q, device=2))
    bad(ValueError, "on device type 77", Producer(q, device=77))
    bad(ValueError, "by DLPack 0 or 1, but got version 2.0", Producer(q, 2))
    bad(TypeError, "but got complex64", Producer(q, code=5, bits=64))
    bad(TypeError, "in vectors of 4", Producer(q, lanes=4))
    bad(ValueError, "aligned", Producer(q, byte_offset=2))
    bad(TypeError, "k of the kind of q, ndarray, but got Producer", q)

    class Refuses(Producer):
        def __dlpack__(self, **options):
            raise BufferError("not today")

    bad(ValueError, "Refuses does not: not today", Refuses(q))

    class Twice(Producer):
        def __dlpack__(self, **options):
            if not hasattr(self, "capsule"):
                self.capsule = super().__dlpack__()
            return self.capsule

    twice = Twice(q)
    attn.attention(twice, Producer(k), Producer(v))
    bad(TypeError, "to return an unused capsule", twice)
    # What is refused is given back too.
    freed.clear()
    bad(TypeError, "but got complex64", Producer(q, code=5, bits=64))
    gc.collect()
    assert len(freed) >= 1


for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
        print("ok", name)
