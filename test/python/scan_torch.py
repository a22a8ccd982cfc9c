# REQUIRES: torch
# RUN: %python %s
"""Scans of torch tensors on the CPU, as NumPy arrays give them.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import sys

try:
    import torch
except ImportError:
    print("no torch: nothing was tested")
    sys.exit()

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from scan_reference import check, recurrence

import attn
from attn import fla

torch.manual_seed(3)


def tensors(b, h, t, d, dtype=torch.float32):
    q, k, v = (torch.randn(b, h, t, d) for _ in range(3))
    k = torch.nn.functional.normalize(k, dim=-1)
    return tuple(x.to(dtype) for x in (q, k, v))


def test_tensors():
    for dtype, bound in ((torch.float32, 2e-5), (torch.float16, 2e-3),
                         (torch.bfloat16, 2e-2)):
        q, k, v = tensors(2, 2, 70, 16, dtype)
        decay, beta = -torch.rand(2, 2, 70), torch.rand(2, 2, 70)
        want, last = recurrence(*(x.double() for x in (q, k, v)), decay=decay,
                                beta=beta)
        o, state = attn.linear_attention(
            q, k, v, decay=decay, beta=beta, normalize=False, return_state=True
        )
        assert isinstance(o, torch.Tensor) and o.dtype == dtype
        assert state["S"].dtype == torch.float32
        check(str(dtype), o.double().numpy(), want, bound)
        check(str(dtype), state["S"].numpy(), last["S"], 2e-5)
        # Views of other layouts, gates of other types, states of their own.
        turned = [x.transpose(1, 2).contiguous() for x in (q, k, v)]
        gates = [x.transpose(1, 2).double() for x in (decay, beta)]
        again = attn.scan(*turned, decay=gates[0], beta=gates[1], layout="bshd")
        check("bshd", again.transpose(1, 2).double().numpy(), want, bound)
        again, last_state = fla.chunk_gated_delta_rule(*turned, *gates,
                                                       output_final_state=True)
        check("fla", again.transpose(1, 2).double().numpy(), want, bound)
        check("fla", last_state.numpy(), last["S"], 2e-5)
        step = attn.scan_step(
            q[:, :, 0], k[:, :, 0], v[:, :, 0], state, decay=decay[:, :, 0],
            beta=beta[:, :, 0]
        )
        first = [torch.cat([x, x[:, :, :1]], 2) for x in (q, k, v, decay, beta)]
        want, last = recurrence(*(x.double() for x in first[:3]), decay=first[3],
                                beta=first[4])
        check("step", step.double().numpy(), want[:, :, -1], bound)
        check("step", state["S"].numpy(), last["S"], 2e-5)


def test_maps_reverse_and_trees():
    q, k, v = tensors(1, 2, 40, 16)
    for feature_map in ("elu1", "taylor2", ("hedgehog", torch.randn(16, 8))):
        other = feature_map if isinstance(feature_map,
                                          str) else ("hedgehog", feature_map[1].numpy())
        got = attn.linear_attention(q, k, v, feature_map=feature_map)
        want = attn.linear_attention(*(x.numpy() for x in (q, k, v)), feature_map=other)
        assert isinstance(got, torch.Tensor)
        check(str(feature_map[0]), got.numpy(), want.astype("d"), 1e-4)
    decay = -torch.rand(1, 2, 40)
    got = attn.scan(q, k, v, decay=decay, direction="reverse")
    want, _ = recurrence(*(x.flip(2) for x in (q, k, v)), decay=decay.flip(2))
    check("reverse", got.flip(2).numpy(), want, 2e-5)
    for monoid in (None, "softmax"):
        tree = attn.StateTree(leaf=8, monoid=monoid)
        tree.append(k, v)
        tree.update(20, k[:, :, :3], v[:, :, :3])
        assert isinstance(tree.read(q), torch.Tensor)
    o, states = attn.scan(q, k, v, states_every=10)
    assert states["S"].shape == (1, 2, 4, 16, 16) and isinstance(o, torch.Tensor)
    o, lse = attn.prefix_states(decay, v)
    assert isinstance(o, torch.Tensor) and lse.shape == (1, 2, 40)
    for x in (q.clone().requires_grad_(), q.to_sparse()):
        try:
            attn.linear_attention(x, k, v)
        except (ValueError, TypeError) as error:
            assert str(error).startswith("attn: expected"), error
            continue
        raise AssertionError(x)


def main():
    for name, test in sorted(globals().items()):
        if name.startswith("test_"):
            test()
            print("%s: ok" % name)


if __name__ == "__main__":
    main()
