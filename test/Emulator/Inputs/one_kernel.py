"""Gradients of one kernel, of sizes for which plans have two.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import re


def read(path, expected):
    """The text of a module behind attn-fuse-gradients, whose kernels, as many as
    expected, run alone whatever the sizes."""
    with open(path) as module:
        text, count = re.subn(
            r"} {turn_sizes = array<[^>]*>, two_kernels = #attn\.schedule<[^>]*>}",
            "}", module.read())
    assert count == expected, count
    return text
