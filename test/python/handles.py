# RUN: %python %s
"""A kernel is freed once, after all that use it, whatever a program does with it;
and the tables of kernels have an end.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import copy
import gc
import os
import pickle
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from reference import fails

import attn
from attn import _kernel, _library, _plans

q = np.ones((1, 1, 4, 16), np.float32)

# How often each handle is freed.
freed = []
destroy = _library.lib.attnKernelDestroy


def note(pointer):
    freed.append(pointer)
    destroy(pointer)


class Noting:
    """The library, but for one function."""

    attnKernelDestroy = staticmethod(note)

    def __getattr__(self, name):
        return getattr(_library.lib, name)


class Library:
    lib = Noting()

    def __getattr__(self, name):
        return getattr(_library, name)


_kernel.c = Library()


def works(kernel):
    assert (kernel(q, q, q) == 1).all()
    assert kernel.explain() and kernel.timings


class Sub(attn.Kernel):
    pass


def sharing():
    kernel = attn.compile(q, q, q)
    for make in (copy.copy, copy.deepcopy, lambda k: copy.deepcopy([k])[0]):
        other = make(kernel)
        works(other)
        del other
        works(kernel)
    # By ways that a program should not take, too.
    other = attn.Kernel.__new__(attn.Kernel)
    other.__dict__.update(kernel.__dict__)
    works(other)
    sub = Sub(kernel._handle)
    works(sub)
    handle = copy.copy(kernel._handle)
    del kernel, other
    gc.collect()
    assert not freed
    works(sub)
    works(attn.Kernel(handle))
    sub.__init__(handle)
    works(sub)


sharing()
gc.collect()
assert len(freed) == 1, freed

kernel = attn.compile(q, q, q)
kernel.__init__(kernel._handle)
works(kernel)
fails(TypeError, "made by attn.compile", kernel.__init__, None)
works(kernel)
# One that is gone may have had the same address.
pointer = kernel._handle.pointer
before = freed.count(pointer)
kernel._handle.__del__()
kernel._handle.__del__()
assert freed.count(pointer) == before + 1
fails(ValueError, "expected a kernel, but got null", kernel, q, q, q)
del kernel
gc.collect()
assert len(freed) == 2, freed

kernel = attn.compile(q, q, q)
for broken in (kernel, kernel._handle, [kernel]):
    fails(TypeError, "which is code of this process", pickle.dumps, broken)
for wrong in (None, 0, 7, kernel, "f"):
    fails(TypeError, "made by attn.compile", attn.Kernel, wrong)
works(kernel)
_kernel.c = _library

# What no table keeps is unmapped.
def count_maps():
    with open("/proc/self/maps") as file:
        return len(file.readlines())


x = np.ones((1, 1, 5, 16), np.float32)
attn.attention(x, x, x)
assert _plans._plans and _library.lib.attnContextNumCached(_library.context)
attn.clear_cache()
assert not _plans._plans
assert _library.lib.attnContextNumCached(_library.context) == 0
before = count_maps()
kernels = []
for d in (16, 24, 32, 40, 48):
    x = np.ones((1, 1, 5, d), np.float32)
    kernels.append(attn.compile(x, x, x))
    assert np.abs(attn.attention(x, x, x) - 1).max() < 1e-5
many = count_maps()
attn.clear_cache()
kernels.pop()(x, x, x)
kernels.clear()
gc.collect()
assert before + 5 < many and count_maps() <= before + 2, (before, many, count_maps())
print("handles")
