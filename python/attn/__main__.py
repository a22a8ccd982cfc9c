"""`python -m attn`: the version, the library and what it can do here.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import sys

import attn
from attn import _library


def main():
    if len(sys.argv) > 1 and sys.argv[1] not in ("--version",):
        print("usage: python -m attn [--version]", file=sys.stderr)
        return 2
    print("attn", attn.__version__)
    if len(sys.argv) > 1:
        return 0
    print("library:", _library.find_path())
    print("host target:", attn.host_target())
    print("threads:", attn.get_num_threads())
    print("monoids:")
    for name, outputs in attn.monoids().items():
        print("  %s: %s" % (name, ", ".join(outputs)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
