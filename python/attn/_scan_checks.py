"""What calls of attn.scan refuse, in the words of the caller.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

from . import _arrays as arrays
from . import _checks as checks
from ._checks import fail as _fail


def check_segments(segments, is_packed, whole, slots, log_weight, erase, beta):
    segments = checks.integer("segments", segments, 1, 1024)
    for name, given in (
        ("cu_seqlens", is_packed),
        ("causal=False", whole),
        ("slots", slots is not None),
        ("log_weight", log_weight is not None),
        ("erase", erase is not None),
        ("beta", beta is not None),
    ):
        if given and segments > 1:
            _fail("segments without %s" % name, "both")


def check_together(gate, normalize, weight, log_weight, erase, beta, bonus, read):
    """What attn.scan refuses, in the words of the caller."""
    channels = gate in ("key", "value")
    for words, both in (
        ("erase without beta", erase is not None and beta is not None),
        ("beta without weight", beta is not None and weight is not None),
        ("beta without log_weight", beta is not None and log_weight is not None),
        ("erase without weight", erase is not None and weight is not None),
        ("erase without log_weight", erase is not None and log_weight is not None),
        ("beta without gates of values", beta is not None and gate == "value"),
        ("erase without gates of values", erase is not None and gate == "value"),
        ("log_weight without weight", log_weight is not None and weight is not None),
        ("log_weight without gates of channels", log_weight is not None and channels),
        ("log_weight with read='after'", log_weight is not None and read == "before"),
        ("gates of values with normalize=False", gate == "value" and normalize),
        ("bonus with read='before'", bonus is not None and read != "before"),
        ("bonus with normalize=False", bonus is not None and normalize),
    ):
        if both:
            _fail(words, "both")


def check_slots(slots, count):
    if isinstance(slots, arrays.View):
        owner = slots.owner
        slots = (
            owner.tolist()
            if hasattr(owner, "tolist")
            else list(owner)[: slots.shape[0]]
        )
    used = [i for i in slots if i != -1]
    if any(not 0 <= i < count for i in used):
        _fail(
            "slots between -1 and %d" % (count - 1),
            [i for i in used if not 0 <= i < count][0],
        )
    if len(set(used)) != len(used):
        _fail("slots that differ from each other", sorted(used))
