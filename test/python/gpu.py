# RUN: env ATTN_LIBCUDA=%fake_cuda ATTN_PTXAS=none ATTN_FAKE_CUDA_LOG=%t.log \
# RUN:   %python %s %fake_cuda %t.log
# UNSUPPORTED: sanitizer
"""CUDA tensors: which device, stream and target a call takes, on a driver that
checks calls and runs nothing, with as much of torch as the package looks at.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import ctypes
import os
import sys
import types

if len(sys.argv) < 3:
    print("no driver to test with: nothing was tested")
    sys.exit()

driver = ctypes.CDLL(sys.argv[1])
context = ctypes.c_void_p()
open(sys.argv[2], "w").close()


class Device:
    def __init__(self, type, index=None):
        self.type, self.index = type, index

    def __str__(self):
        return self.type if self.index is None else "%s:%d" % (self.type, self.index)


class DType:
    def __init__(self, name, size):
        self.name, self.size = name, size

    def __str__(self):
        return "torch." + self.name


class Tensor:
    """Memory of the driver, or of the host."""

    def __init__(self, shape, dtype, device):
        self.shape, self.dtype, self.device = tuple(shape), dtype, device
        self.is_cuda = device.type == "cuda"
        self.requires_grad, self.layout = False, torch.strided
        size = dtype.size
        for n in self.shape:
            size *= n
        if self.is_cuda:
            memory = ctypes.c_uint64()
            assert driver.cuMemAlloc_v2(ctypes.byref(memory),
                                        ctypes.c_size_t(size)) == 0
            self.address = memory.value
        else:
            self.memory = ctypes.create_string_buffer(size)
            self.address = ctypes.addressof(self.memory)

    is_nested = False

    def is_neg(self):
        return False

    def stride(self):
        strides, step = [], 1
        for n in reversed(self.shape):
            strides.append(step)
            step *= n
        return tuple(reversed(strides))

    def data_ptr(self):
        return self.address

    def permute(self, axes):
        assert tuple(axes) == tuple(range(len(self.shape)))
        return self


torch = types.ModuleType("torch")
torch.Tensor, torch.strided = Tensor, "strided"
torch.float32, torch.bfloat16 = DType("float32", 4), DType("bfloat16", 2)
torch.float16, torch.int32 = DType("float16", 2), DType("int32", 4)
torch.is_grad_enabled = lambda: True
torch.is_autocast_enabled = lambda kind: False
torch.compiler = types.SimpleNamespace(is_compiling=lambda: False)
torch.device = Device
torch.empty = lambda shape, dtype, device: Tensor(shape, dtype, device)
asked = []


def current_stream(device):
    asked.append(device)
    return types.SimpleNamespace(cuda_stream=stream)


torch.cuda = types.SimpleNamespace(current_stream=current_stream)
sys.modules["torch"] = torch

import attn

# The package itself initialises the driver.
try:
    attn.compile("func.func @f()", target="cuda")
except ValueError:
    pass
assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert driver.cuCtxPushCurrent_v2(context) == 0
driver.attnFakeStream.restype = ctypes.c_void_p
stream = driver.attnFakeStream()
cpu, cuda = Device("cpu"), Device("cuda", 0)


def log():
    with open(sys.argv[2]) as file:
        return file.read()


def fails(kind, text, function, *args, **kwargs):
    try:
        function(*args, **kwargs)
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError("expected an error with %r" % text)


q, k, v = (Tensor((2, 4, 100, 64), torch.bfloat16, cuda) for _ in range(3))
out, lse = attn.attention(q, k, v, causal="bottom_right", return_lse=True)
assert out.is_cuda and out.shape == (2, 4, 100, 64) and out.dtype is torch.bfloat16
assert lse.is_cuda and lse.shape == (2, 4, 100) and lse.dtype is torch.float32
assert asked == [0]
assert "launch" in log() and "captured" not in log()

# On that stream, even when it is captured.
driver.attnFakeCapture(ctypes.c_void_p(stream), 1)
assert attn.attention(q, k, v, causal="bottom_right", out=out) is out
driver.attnFakeCapture(ctypes.c_void_p(stream), 0)
assert log().count("captured") == 1, log()

# A call like the first one asks for the stream again.
stream, before = driver.attnFakeStream(), stream
count = log().count("launch")
other = [Tensor((2, 4, 100, 64), torch.bfloat16, cuda) for _ in range(3)]
_, lse = attn.attention(*other, causal="bottom_right", return_lse=True)
assert lse.is_cuda and lse.shape == (2, 4, 100) and asked == [0, 0, 0]
assert log().count("launch") == count + 1
driver.attnFakeCapture(ctypes.c_void_p(stream), 1)
assert attn.attention(*other, causal="bottom_right", out=out) is out
driver.attnFakeCapture(ctypes.c_void_p(stream), 0)
assert log().count("captured") == 2, log()
stream = before
asked.clear()
assert "captured" in log()

kernel = attn.compile(q, k, v)
assert kernel.target == "sm_90a" and ".target sm_90a" in kernel.ptx
assert kernel.cubin() is None and kernel.mlir("ptx") == kernel.ptx
kernel.load()
assert kernel(q, k, v).is_cuda

# Everything is on one side.
host = Tensor((2, 4, 100, 64), torch.bfloat16, cpu)
fails(ValueError, "expected k on cuda:0, where q is", attn.attention, q, host, v)
fails(ValueError, "expected k on the CPU, where q is", attn.attention, host, q, v)
fails(ValueError, "expected out on cuda:0", attn.attention, q, k, v, out=host)
lengths = Tensor((2,), torch.int32, cpu)
fails(
    ValueError, "kv_lengths on cuda:0", attn.attention, q, k, v, kv_lengths=lengths
)
fails(ValueError, "a kernel for sm_90a takes", kernel, q, host, v)
fails(ValueError, "a kernel for sm_90a takes", kernel, host, host, host)
on_cpu = attn.compile(host, host, host)
assert on_cpu.target.startswith("cpu")
fails(ValueError, "a kernel for cpu", on_cpu, q, k, v)
fails(
    ValueError,
    "on the CPU or an NVIDIA GPU",
    attn.attention,
    *[Tensor((1, 1, 8, 64), torch.float32, Device("mps"))] * 3
)

# A step of a scan: on the stream, also a captured one, and with slots that nobody
# on the host looks at.
q, k, v, o = (Tensor((2, 4, 1, 64), torch.bfloat16, cuda) for _ in range(4))
state = Tensor((2, 4, 64, 64), torch.float32, cuda)
decay, beta = (Tensor((2, 4, 1), torch.float32, cuda) for _ in range(2))
count = log().count("launch")
assert attn.scan_step(q, k, v, state, decay=decay, beta=beta, out=o) is o
assert log().count("launch") == count + 1, log()
captured = log().count("captured")
driver.attnFakeCapture(ctypes.c_void_p(stream), 1)
attn.scan_step(q, k, v, state, decay=decay, beta=beta, out=o)
driver.attnFakeCapture(ctypes.c_void_p(stream), 0)
assert log().count("captured") == captured + 1, log()
pool = Tensor((5, 4, 64, 64), torch.bfloat16, cuda)
slots = Tensor((2,), torch.int32, cuda)
assert attn.scan_step(q, k, v, pool, decay=decay, slots=slots).is_cuda
# What all value channels share a second kernel writes.
count = log().count("launch")
parts = {"S": state, "z": Tensor((2, 4, 64), torch.float32, cuda)}
attn.scan_step(q, k, v, parts, decay=decay, out=o)
assert log().count("launch") == count + 2, log()
# Many tokens, from a state to a new one.
q, k, v = (Tensor((2, 4, 30, 64), torch.bfloat16, cuda) for _ in range(3))
o, last = attn.scan(q, k, v, initial_state=state, return_state=True)
assert o.is_cuda and last["S"].is_cuda and last["S"].shape == (2, 4, 64, 64)
host = Tensor((2, 4, 64, 64), torch.float32, cpu)
fails(ValueError, "expected initial_state on cuda:0", attn.scan, q, k, v,
      initial_state=host)
fails(ValueError, "expected state on cuda:0", attn.scan_step, q, k, v, host)
fails(ValueError, "a state of 2 sequences, or slots", attn.scan_step, q, k, v, pool)
print("passed")
