"""Types and monoids that tests of gradients draw from.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import ml_dtypes
import numpy as np

TYPES = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
# A unit in the last place of 1.
ULPS = {"f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7}
# Their outputs.
MONOIDS = {
    "softmax": ("o", "lse"),
    "softmax_entropy": ("o", "lse", "entropy"),
    "softmax_max": ("o", "lse", "max"),
    "logsumexp": ("lse",),
    "sigmoid_sum": ("o",),
    "relu_sum": ("o",),
    "relu2_sum": ("o",),
}
