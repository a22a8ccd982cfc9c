# RUN: %python %s
# REQUIRES: torch
"""torch CPU tensors, beside torch in one process, without copies.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import re
import subprocess
import sys

try:
    import torch
except ImportError:
    print("no torch: nothing was tested")
    sys.exit()

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from reference import fails

import attn

sdpa = torch.nn.functional.scaled_dot_product_attention
torch.manual_seed(0)


def qkv(dtype=torch.float32, b=2, h=4, sq=33, sk=47, d=40, dv=24):
    shapes = (b, h, sq, d), (b, h, sk, d), (b, h, sk, dv)
    return [torch.randn(shape).to(dtype) for shape in shapes]


# The same numbers as torch's own; both compilers' LLVMs live in this process.
for dtype, bound in [(torch.float32, 2e-5), (torch.float16, 4e-3),
                     (torch.bfloat16, 3e-2)]:
    q, k, v = qkv(dtype)
    mask = torch.rand(33, 47) < 0.8
    mask[:, 0] = True
    for options, theirs in [
        ({}, {}),
        ({"causal": "top_left"}, {"is_causal": True}),
        ({"mask": mask}, {"attn_mask": mask}),
        ({"scale": 0.25}, {"scale": 0.25}),
    ]:
        out = attn.attention(q, k, v, **options)
        assert isinstance(out, torch.Tensor) and out.dtype == dtype
        want = sdpa(q.double(), k.double(), v.double(), **theirs)
        error = (out.double() - want).abs().max().item()
        assert error < bound, (dtype, options, error)

# Kinds of the results, and of small operands.
q, k, v = qkv()
out, lse, aux = attn.attention(
    q, k, v, return_lse=True, return_aux="max",
    kv_lengths=torch.tensor([47, 20]), sinks=torch.zeros(4, dtype=torch.bfloat16),
)
assert isinstance(lse, torch.Tensor) and lse.dtype == torch.float32
assert isinstance(aux["max"], torch.Tensor) and aux["max"].shape == (2, 4, 33)

# Strides: views, expanded tensors, other layouts.
q4, k4, v4 = (x.transpose(1, 2).contiguous() for x in (q, k, v))
want = attn.attention(q, k, v)
assert torch.equal(attn.attention(q4.transpose(1, 2), k4.transpose(1, 2), v), want)
assert torch.equal(attn.attention(q4, k4, v4, layout="bshd").transpose(1, 2), want)
bias = torch.randn(1, 1, 1, 47)
wide = attn.attention(q, k, v, bias=bias.expand(2, 4, 33, 47))
assert torch.equal(attn.attention(q, k, v, bias=bias), wide)
one = k[:, :1].expand(-1, 4, -1, -1)
assert torch.equal(attn.attention(q, one, v), attn.attention(q, one.contiguous(), v))

# No copy: most keys there may be, one row in memory, and an output in place.
row = torch.randn(1, 1, 1, 16)
n = 2**31 - 2**16 - 1
lengths = [100]
big = row.expand(1, 1, n, 16)
out = attn.attention(row, big, big, kv_lengths=lengths)
assert torch.allclose(out, row, atol=1e-5)
out = torch.zeros(2, 33, 4, 24)
assert attn.attention(q, k, v, out=out.transpose(1, 2)).data_ptr() == out.data_ptr()
assert torch.equal(out.transpose(1, 2), want)
assert attn.attention(q, k, v[..., :0:1].new_zeros(2, 4, 47, 24)).abs().sum() == 0

# Large outputs have large pages, where the system has any.
q2 = torch.zeros(1, 1, 1 << 14, 64)
out = attn.attention(q2, q2[:, :, :1], q2[:, :, :1])
flags = {}
if os.path.exists("/proc/self/smaps"):
    for line in open("/proc/self/smaps"):
        if re.match("[0-9a-f]+-", line):
            begin, end = (int(x, 16) for x in line.split()[0].split("-"))
        elif line.startswith("VmFlags:"):
            flags[begin, end] = line.split()[1:]
if os.path.exists("/sys/kernel/mm/transparent_hugepage"):
    middle = out.data_ptr() + (1 << 21)
    assert [f for (b, e), f in flags.items() if b <= middle < e and "hg" in f]

# Gradients (torch_training.py): never a silent detach.
q.requires_grad_()
assert attn.attention(q, k, v).requires_grad
with torch.no_grad():
    assert torch.equal(attn.attention(q, k, v), want)
fails(ValueError, "pass k.detach()", attn.attention, q.detach().numpy(),
      k.requires_grad_(), v)
k = k.detach()
assert torch.equal(attn.attention(q.detach(), k, v), want)
fails(ValueError, "pass out.detach()", attn.attention, q.detach(), k, v,
      out=torch.zeros(2, 4, 33, 24, requires_grad=True))
q = q.detach()

# Calls that are like earlier ones: other tensors, views, kinds.
for _ in range(3):
    q, k, v = qkv()
    assert (attn.attention(q, k, v) - sdpa(q, k, v)).abs().max() < 2e-5
    a, b, c = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v))
    assert (attn.attention(a, b, c) - sdpa(q, k, v)).abs().max() < 2e-5
    out = torch.full((2, 4, 33, 24), float("nan"))
    assert attn.attention(q, k, v, out=out) is out
    assert (out - sdpa(q, k, v)).abs().max() < 2e-5
    assert isinstance(attn.attention(*(x.numpy() for x in (q, k, v))), np.ndarray)
    half = attn.attention(*(x.half() for x in (q, k, v)))
    assert half.dtype is torch.float16 and (half - sdpa(q, k, v)).abs().max() < 4e-3
    # A subclass is no torch.Tensor to take at its word.
    o = attn.attention(torch.nn.Parameter(q, requires_grad=False), k, v)
    assert (o - sdpa(q, k, v)).abs().max() < 2e-5

# What torch has put off, or derives: errors, with a plan for such sizes too.
q, k, v = (torch.randn(1, 1, 5, 8) for _ in range(3))
attn.attention(q, k, v)
fails(ValueError, "q.resolve_neg()", attn.attention, torch._neg_view(q), k, v)
fails(ValueError, "it is nested", attn.attention,
      torch.nested.nested_tensor([q[0, 0], k[0, 0]]), k, v)
with torch.autograd.forward_ad.dual_level():
    dual = torch.autograd.forward_ad.make_dual(q, k)
    fails(ValueError, "without tangent", attn.attention, dual, k, v)
    attn.attention(q, k, v)
for _ in range(2):
    fails(ValueError, "q with memory", torch.vmap(lambda x: attn.attention(x, k, v)),
          torch.randn(3, 1, 1, 5, 8))
odd = torch.frombuffer(bytearray(161), dtype=torch.float32, offset=1, count=40)
fails(ValueError, "aligned", attn.attention, odd.view(1, 1, 5, 8), k, v)
torch._dynamo.config.fail_on_recompile_limit_hit = True
compiled = torch.compile(lambda q: attn.attention(q * 2, q, q) + 1, backend="eager")
for n in range(2, 24):
    for _ in range(2):
        x = torch.randn(1, 1, n, 16)
        assert (compiled(x) - sdpa(x * 2, x, x) - 1).abs().max() < 2e-5

# Where only shapes are wanted.
with torch._subclasses.fake_tensor.FakeTensorMode():
    x, y = torch.empty(2, 4, 5, 16, requires_grad=True), torch.empty(2, 2, 7, 16)
    o, lse = attn.attention(x, y, y[..., :8], return_lse=True, kv_lengths=[1, 2])
    o.sum().backward()
    assert o.shape == (2, 4, 5, 8) and lse.shape == o.shape[:3]
    assert x.grad.shape == x.shape
    x = x.detach().bfloat16()
    assert attn.attention(x, x, x).dtype == torch.bfloat16

# Other errors.
fails(TypeError, "k of the kind of q", attn.attention, q, k.numpy(), v)
fails(ValueError, "on the CPU", attn.attention, q.to("meta"), k, v)
fails(ValueError, "strided tensor", attn.attention, q.to_sparse(), k, v)
fails(TypeError, "float32, float16 or bfloat16", attn.attention, q.double(), k, v)
fails(ValueError, "stride 1", attn.attention,
      q.transpose(2, 3).contiguous().transpose(2, 3), k, v)

# Empty tensors have no memory.
q, k, v = qkv(b=0)
assert attn.attention(q, k, v).shape == (0, 4, 33, 24)

# torch goes on working, its threads too.
x = torch.randn(256, 256)
assert torch.allclose(x @ x, (x.double() @ x.double()).float(), atol=1e-3)

# The other order of loading.
subprocess.run(
    [
        sys.executable,
        "-c",
        "import attn, numpy as np\n"
        "x = np.ones((1, 1, 4, 8), np.float32)\n"
        "attn.attention(x, x, x)\n"
        "import torch\n"
        "t = torch.ones(1, 1, 4, 8)\n"
        "assert torch.equal(attn.attention(t, t, t), t)",
    ],
    check=True,
)
