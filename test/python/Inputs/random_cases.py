"""The main function of tests that draw cases: PROGRAM [CASES [SEED]].

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import sys


def main(make, hidden):
    """Runs the cases make(seed, number), and says of each that fails what it drew, but
    for the attributes `hidden`. Returns whether one failed."""
    cases = int(sys.argv[1]) if len(sys.argv) > 1 else 150
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    failed = 0
    for number in range(cases):
        case = make(seed, number)
        try:
            case.run()
        except Exception as error:
            failed += 1
            words = {n: x for n, x in vars(case).items() if n not in hidden}
            print("case %d of seed %d, %s: %s" % (number, seed, words, error))
    print("%d of %d cases pass" % (cases - failed, cases))
    return failed != 0
