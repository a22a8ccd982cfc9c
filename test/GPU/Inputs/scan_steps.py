"""Steps of scans with 128 x 128 states assemble without spills, in blocks of one
warp whose accesses of states are 16 bytes for each lane, and whose loads are all there
before the first exponential.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import re
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import ptxas

import attn

ROWS, NUMBERS = "tensor<?x?x?x128xf32>", "tensor<?x?x?xf32>"
RULES = {
    "gated delta": (("%g", NUMBERS), ("%b", NUMBERS), "decay(%g : {0}) delta(%b : {1})",
                    "l2norm"),
    "kda": (("%g", ROWS), ("%b", NUMBERS), "decay(%g : {0}) delta(%b : {1})", "l2norm"),
    "rwkv7": (("%g", ROWS), ("%x", ROWS), ("%y", ROWS),
              "decay(%g : {0}) erase(%x, %y : {1}, {2})", "erase_before"),
}


def text(rule, states, flag=""):
    *operands, clauses, flags = RULES[rule]
    rows, pool = "tensor<?x?x1x128xbf16>", "tensor<?x?x128x128x%s>" % states
    flags = ", ".join(filter(None, (flags, flag)))
    more = "".join(", %s: %s" % operand for operand in operands)
    return f"""func.func @step(%q: {rows}, %k: {rows}, %v: {rows}{more}, %S: {pool},
        %i: tensor<?xi32>) -> {rows} {{
  %o = attn.scan queries(%q : {rows}) keys(%k : {rows}) values(%v : {rows})
      {clauses.format(*(kind for _, kind in operands))} slots(%S : {pool}) index(%i
          : tensor<?xi32>)
      {{{flags}}} -> {rows}
  return %o : {rows}
}}"""


failed = 0
for target, rule, states, flag in (
    ("sm_90a", "gated delta", "f32", ""),
    ("sm_80", "gated delta", "bf16", ""),
    ("sm_80", "kda", "bf16", ""),
    ("sm_90a", "rwkv7", "f32", ""),
    ("sm_90a", "gated delta", "bf16", "values_first"),
    ("sm_80", "kda", "f32", "values_first"),
):
    ptx = attn.compile(text(rule, states, flag), target=target).ptx
    result = ptxas.assemble(ptx, target)
    # 32 value channels are 4096 numbers, and value channels that come first 16;
    # k and q are two accesses or more.
    first = ptx[: ptx.index("ex2.")]
    wide = len(re.findall(r"ld\.global\.v4\.b32", first))
    least = {"f32": 32, "bf16": 16}[states] // (2 if flag else 1) + 4
    is_warp = re.search(r"\.reqntid 32\b", ptx)
    if result.error or result.spills() or wide < least or not is_warp:
        failed += 1
        print(
            f"{rule} {flag} on {target}: {wide} wide loads, {result.kernels}, "
            f"{result.error}"
        )
print("%d failed" % failed)
