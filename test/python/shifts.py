# RUN: %python %s
"""Integers of regions where MLIR defines no result (docs/Semantics.md, Regions):
shifts by the width and more, quotients by 0 and -1, promises that are broken.
NumPy in Python integers is the reference; every target and schedule, and the
interpreter, have to agree with it."""
import numpy as np

import attn

F = np.float32
WIDTHS = (8, 16, 32, 64)
ROWS, KEYS = 70, 70
SMALL = "{schedule = #attn.schedule<block_q = 16, rows = 16, block_k = 16>}"
SCHEDULES = ("", SMALL, "")


def signed(x, width):
    x &= (1 << width) - 1
    return x - (1 << width) if x >> (width - 1) else x


def unsigned(x, width):
    return x & ((1 << width) - 1)


def shift(op, x, n, width):
    n = unsigned(n, width)
    if op == "shrsi":
        return signed(x, width) >> min(n, width - 1)
    if n >= width:
        return 0
    return x << n if op == "shli" else unsigned(x, width) >> n


def divide(op, x, y, width):
    if op.endswith("ui"):
        x, y = unsigned(x, width), unsigned(y, width)
    if y == 0:
        return 0
    if op in ("remsi", "remui"):
        return x - y * int(abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1)
    if op == "floordivsi":
        return x // y
    if op.startswith("ceildiv"):
        return -(-x // y)
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def value(op, x, y, width):
    x, y = signed(x, width), signed(y, width)
    result = (shift if op.startswith("sh") else divide)(op, x, y, width)
    return signed(result, width)


def program(op, width, flags, amount, schedule):
    """A mask: bit 0 or bit 3 of `op` of (37 i - 1000 and an amount from j)."""
    t, n = "tensor<?x?x?x4xf32>", width

    def cast(name, of):
        if n == 32:
            return "%%%s = arith.addi %s, %%zero : i32" % (name, of)
        how = "extsi" if n > 32 else "trunci"
        return "%%%s = arith.%s %s : i32 to i%d" % (name, how, of, n)

    return """
func.func @f(%%q: %s, %%k: %s, %%v: %s) -> %s {
  %%o = attn.attention queries(%%q : %s) keys(%%k : %s) values(%%v : %s)
    %s mask {
    ^bb0(%%b: i32, %%h: i32, %%i: i32, %%j: i32):
      %%zero = arith.constant 0 : i32
      %%factor = arith.constant 37 : i32
      %%start = arith.constant -1000 : i32
      %%first = arith.constant %d : i32
      %%x0 = arith.muli %%i, %%factor : i32
      %%x1 = arith.addi %%x0, %%start : i32
      %%y0 = arith.addi %%j, %%first : i32
      %s
      %s
      %%z = arith.%s %%x, %%y %s: i%d
      %%nine = arith.constant 9 : i%d
      %%none = arith.constant 0 : i%d
      %%bits = arith.andi %%z, %%nine : i%d
      %%m = arith.cmpi ne, %%bits, %%none : i%d
      attn.yield %%m : i1
    } -> %s
  return %%o : %s
}""" % (t, t, t, t, t, t, t, schedule, amount, cast("x", "%x1"), cast("y", "%y0"),
        op, flags, n, n, n, n, n, t, t)


def main():
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, 1, ROWS, 4)).astype(F) for _ in range(3))
    scores = (q[0, 0].astype(np.float64) @ k[0, 0].T) / 2
    ops = [("shli", ""), ("shli", "overflow<nsw, nuw>"), ("shrui", ""),
           ("shrui", "exact"), ("shrsi", ""), ("divsi", ""), ("divui", ""),
           ("remsi", ""), ("remui", ""), ("floordivsi", ""),
           ("ceildivsi", ""), ("ceildivui", "")]
    targets = [t for t in ("cpu-generic", "cpu-avx2", "cpu-avx512") if runs(t, q)]
    for op, flags in ops:
        for width in WIDTHS:
            # Shifts by 0 to 69, and divisors about 0.
            first = 0 if op.startswith("sh") else -35
            live = np.array([[value(op, 37 * i - 1000, j + first, width) & 9 != 0
                              for j in range(KEYS)] for i in range(ROWS)])
            with np.errstate(all="ignore"):
                weights = np.where(live, np.exp(scores), 0)
                total = weights.sum(1, keepdims=True)
                want = np.where(total > 0, weights @ v[0, 0] / total, 0)
            for target, schedule in zip(targets, SCHEDULES):
                text = program(op, width, flags and flags + " ", first, schedule)
                got = attn.compile(text, target=target)(q, k, v)[0, 0]
                worst = np.abs(got - want).max()
                assert worst < 1e-5, (op, flags, width, target, schedule, worst)


def runs(target, q):
    try:
        attn.compile(q, q, q, target=target)(q, q, q)
        return True
    except ValueError:
        return False


main()
