"""Feature maps of linear attention.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

Maps of single elements are regions of attn.scan. Those that make features of pairs of
channels, or of a product with a matrix, are arrays that the scan reads.
"""

from . import _arrays as arrays
from ._checks import fail as _fail

_REGIONS = {
    # exp of what is positive may be infinite, and is not taken.
    "elu1": """^bb0(%x: f32):
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %negative = arith.minimumf %x, %zero : f32
  %e = math.exp %negative : f32
  %sum = arith.addf %x, %one : f32
  %isPositive = arith.cmpf ogt, %x, %zero : f32
  %y = arith.select %isPositive, %sum, %e : f32
  attn.yield %y : f32""",
    "relu": """^bb0(%x: f32):
  %zero = arith.constant 0.0 : f32
  %y = arith.maximumf %x, %zero : f32
  attn.yield %y : f32""",
    "hedgehog": """^bb0(%x: f32):
  %y = math.exp %x : f32
  attn.yield %y : f32""",
}
# Log gates, and what outputs become, of an element and of arrays beside it.
GATES = {
    # -exp(A) softplus(x + bias), as of Mamba-2 and gated delta.
    "softplus": """^bb0(%x: f32, %a: f32, %bias: f32):
  %zero = arith.constant 0.0 : f32
  %y = arith.addf %x, %bias : f32
  %size = math.absf %y : f32
  %minus = arith.negf %size : f32
  %e = math.exp %minus : f32
  %log = math.log1p %e : f32
  %positive = arith.maximumf %y, %zero : f32
  %plus = arith.addf %positive, %log : f32
  %rate = math.exp %a : f32
  %product = arith.mulf %rate, %plus : f32
  %gate = arith.negf %product : f32
  attn.yield %gate : f32""",
}
FINALS = {
    "silu": """^bb0(%o: f32, %z: f32):
  %one = arith.constant 1.0 : f32
  %minus = arith.negf %z : f32
  %e = math.exp %minus : f32
  %sum = arith.addf %e, %one : f32
  %y = arith.divf %z, %sum : f32
  %product = arith.mulf %o, %y : f32
  attn.yield %product : f32""",
}
_NAMES = ("elu1", "relu", "taylor2", "hedgehog")


def _taylor2(x):
    """1, x d^-1/4, and x_i x_j for i <= j, so that dots are 1 + s + s^2 / 2 with
    s = q.k / sqrt(d)."""
    import numpy

    d = x.shape[-1]
    if d > 128:
        _fail("at most 128 channels with feature_map 'taylor2'", d)
    first, second = numpy.triu_indices(d)
    factors = (numpy.where(first == second, 0.5, 1.0) / d) ** 0.5
    if arrays.is_torch(x):
        torch = arrays.torch_module()
        wide = x.to(torch.float32)
        pairs = wide[..., first] * wide[..., second] * torch.as_tensor(
            factors, dtype=torch.float32, device=x.device
        )
        ones = torch.ones_like(wide[..., :1])
        return torch.cat([ones, wide * d**-0.25, pairs], -1).to(x.dtype)
    wide = x.astype("float32")
    pairs = wide[..., first] * wide[..., second] * factors.astype("float32")
    ones = numpy.ones_like(wide[..., :1])
    return numpy.concatenate(
        [ones, wide * numpy.float32(d**-0.25), pairs], -1
    ).astype(x.dtype)


def _projected(x, matrix):
    if len(matrix.shape) != 2 or matrix.shape[0] != x.shape[-1]:
        _fail(
            "a matrix of %d rows for feature_map 'hedgehog'" % x.shape[-1],
            arrays.describe(matrix),
        )
    if arrays.is_torch(x):
        torch = arrays.torch_module()
        return (x.to(torch.float32) @ torch.as_tensor(matrix).to(torch.float32)).to(
            x.dtype
        )
    return (x.astype("float32") @ matrix.astype("float32")).astype(x.dtype)


def apply(feature_map, q, k):
    """q and k, and the text of the region that is left to apply, or None."""
    if feature_map is None:
        return q, k, None
    matrix = None
    if (
        isinstance(feature_map, (tuple, list))
        and len(feature_map) == 2
        and feature_map[0] == "hedgehog"
    ):
        feature_map, matrix = feature_map
    if not isinstance(feature_map, str):
        _fail(
            "feature_map to be one of %s, ('hedgehog', w), or MLIR text"
            % ", ".join(_NAMES),
            arrays.describe(feature_map),
            TypeError,
        )
    for name, x in (("q", q), ("k", k)):
        arrays.view(name, x)
        if not len(x.shape):
            _fail("%s with channels" % name, arrays.describe(x))
    if feature_map == "taylor2" or matrix is not None:
        import numpy

        q, k = (
            x if arrays.is_torch(x) or arrays.is_numpy(x) else numpy.from_dlpack(x)
            for x in (q, k)
        )
        if matrix is None:
            return _taylor2(q), _taylor2(k), None
        if not hasattr(matrix, "shape") or not hasattr(
            matrix, "astype" if arrays.is_numpy(q) else "dtype"
        ):
            _fail(
                "a matrix of the kind of q for feature_map 'hedgehog'",
                arrays.describe(matrix),
                TypeError,
            )
        q, k = _projected(q, matrix), _projected(k, matrix)
    if feature_map in _REGIONS:
        return q, k, _REGIONS[feature_map]
    if "attn.yield" in feature_map:
        return q, k, feature_map
    _fail(
        "feature_map to be one of %s, or MLIR text of a region with attn.yield"
        % ", ".join(_NAMES),
        repr(feature_map),
    )
