# RUN: %python %s
"""Functions in regions, on every target that this machine runs: a bound in units
in the last place for each, over all magnitudes, denormal and huge arguments,
infinities and NaN. The reference is float64."""
import math
import sys

import numpy as np

import attn

F = np.float32
INFINITE, ONE = F(np.inf), F(1.0)
LOWEST = np.finfo(F).min

each = np.vectorize
failures = []


def half_away(x):
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


# name: (reference, bound)
UNARY = {
    "exp": (np.exp, 1.5),
    "exp2": (np.exp2, 1.5),
    "expm1": (np.expm1, 2.0),
    "log": (np.log, 1.5),
    "log2": (np.log2, 1.5),
    "log10": (np.log10, 2.5),
    "log1p": (np.log1p, 1.5),
    "sqrt": (np.sqrt, 0.5),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1.5),
    "cbrt": (np.cbrt, 1.5),
    "sin": (np.sin, 1.5),
    "cos": (np.cos, 1.5),
    "tan": (np.tan, 2.5),
    "sinh": (np.sinh, 2.5),
    "cosh": (np.cosh, 1.5),
    "tanh": (np.tanh, 1.5),
    "asin": (np.arcsin, 2.5),
    "acos": (np.arccos, 1.5),
    "atan": (np.arctan, 2.5),
    "asinh": (np.arcsinh, 2.5),
    "acosh": (np.arccosh, 2.5),
    "atanh": (np.arctanh, 2.5),
    "erf": (each(math.erf), 2.5),
    "erfc": (each(math.erfc), 4.0),
    "floor": (np.floor, 0),
    "ceil": (np.ceil, 0),
    "trunc": (np.trunc, 0),
    "round": (half_away, 0),
    "roundeven": (np.rint, 0),
    "absf": (np.abs, 0),
}
BINARY = {
    "math.powf": (np.power, 1.5),
    "math.atan2": (np.arctan2, 2.5),
    "math.copysign": (np.copysign, 0),
    "arith.remf": (np.fmod, 0),
    "arith.divf": (np.divide, 0.5),
}


def evaluate(body, x, y, target):
    """The region `body` at every x and y, a row for each: the score of its one
    key. A score of -inf would make the key dead, and is told by LOWEST."""
    t = "tensor<?x?x?x1xf32>"
    text = """
attn.monoid @raw cocycle stats() components(unit) outputs("o") {
  lift { ^bb0(%%s: f32): attn.yield %%s : f32 }
  finalize { ^bb0(%%c: f32): attn.yield %%c : f32 }
}
func.func @f(%%q: %s, %%k: %s, %%ys: tensor<?xf32>) -> tensor<?x?x?xf32> {
  %%one = arith.constant 1.0 : f32
  %%o = attn.attention monoid(@raw) queries(%%q : %s) keys(%%k : %s) scale(%%one)
    captures(%%ys : tensor<?xf32>)
    score {
    ^bb0(%%x: f32, %%b: i32, %%h: i32, %%i: i32, %%j: i32, %%all: tensor<?xf32>):
      %%row = arith.index_cast %%i : i32 to index
      %%y = tensor.extract %%all[%%row] : tensor<?xf32>
      %s
      %%least = arith.constant 0xFF800000 : f32
      %%told = arith.constant 0xFF7FFFFF : f32
      %%isLeast = arith.cmpf oeq, %%z, %%least : f32
      %%score = arith.select %%isLeast, %%told, %%z : f32
      attn.yield %%score : f32
    } -> tensor<?x?x?xf32>
  return %%o : tensor<?x?x?xf32>
}""" % (t, t, t, t, body)
    kernel = attn.compile(text, target=target)
    key = np.ones((1, 1, 1, 1), F)
    return kernel(x.reshape(1, 1, -1, 1), key, y)[0, 0]


def compare(name, got, want, bound, arguments, target):
    with np.errstate(all="ignore"):
        rounded = want.astype(F)
    rounded = np.where(rounded == -INFINITE, LOWEST, rounded)
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    finite = np.isfinite(got) & np.isfinite(rounded) & (rounded != LOWEST)
    with np.errstate(all="ignore"):
        spacing = np.spacing(np.abs(rounded)).astype(np.float64)
        error = np.abs(got.astype(np.float64) - want) / spacing
    # What is a rounding away from the largest number may be infinite.
    with np.errstate(all="ignore"):
        edge = np.abs(want) > float(np.finfo(F).max) * (1 - 1e-6)
    good = same | (finite & (error <= bound)) | (edge & ~np.isnan(got))
    worst = error[finite].max() if finite.any() else 0.0
    if not good.all():
        i = np.flatnonzero(~good)[0]
        failures.append(
            "%s on %s: expected %r at %s, but got %r (%.2f ulp, bound %s); %d wrong"
            % (name, target, rounded[i], [a[i] for a in arguments], got[i],
               error[i], bound, (~good).sum())
        )
    return worst


def arguments():
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 32, 20000, dtype=np.uint32).view(F)
    scales = (1e-6, 1e-3, 0.1, 1, 10, 80, 1e3, 1e5)
    plain = [rng.standard_normal(2000) * s for s in scales]
    # About multiples of pi / 2, and about what functions turn at.
    turns = np.arange(1, 2000) * (np.pi / 2)
    corners = [0, 0.25, 0.4142, 0.45, 0.5, 0.6, 1, 2, 4, 9, 17, 88.5, 104, 150,
               2.0**17, 2.0**23, 2.0**24, 2.0**31, 2.0**40, 1e20, 3.4e38, 1e-30,
               1e-38, 1e-40, 1.4e-45, np.inf]
    near = [np.nextafter(F(c), F(to)) for c in corners for to in (-np.inf, np.inf)]
    parts = [bits, *plain, turns, corners, near, [np.nan]]
    with np.errstate(all="ignore"):
        values = np.concatenate([np.asarray(part, F) for part in parts])
    both = np.concatenate([values, -values])
    return np.where(both == 0, F(0), both)  # a dot product is never -0


def main():
    targets = [t for t in ("cpu-generic", "cpu-avx2", "cpu-avx512",
                           "cpu-avx512-bf16") if runs(t)]
    x = arguments()
    rng = np.random.default_rng(1)
    y = (rng.standard_normal(x.size) * 3).astype(F)
    y[::5] = rng.permutation(x)[::5]
    with np.errstate(all="ignore"):
        y[::7] = np.rint(y[::7])
        wide_x, wide_y = x.astype(np.float64), y.astype(np.float64)
    for target in targets:
        with np.errstate(all="ignore"):
            for name, (reference, bound) in UNARY.items():
                body = "%%z = math.%s %%x : f32" % name
                want = reference(wide_x)
                got = evaluate(body, x, y, target)
                worst = compare(name, got, want, bound, [x], target)
                print("%-16s %-14s %.2f ulp" % (target, name, worst))
            for name, (reference, bound) in BINARY.items():
                body = "%%z = %s %%x, %%y : f32" % name
                want = reference(wide_x, wide_y)
                got = evaluate(body, x, y, target)
                worst = compare(name, got, want, bound, [x, y], target)
                print("%-16s %-14s %.2f ulp" % (target, name, worst))
            for n in (0, 1, -1, 3, -7, 20, 1000001):
                body = """%%n = arith.constant %d : i32
                  %%z = math.fpowi %%x, %%n : f32, i32""" % n
                got = evaluate(body, x, y, target)
                compare("fpowi %d" % n, got, np.power(wide_x, n), 1.5, [x], target)
    # 16-bit types by way of f32, and f64 by libm.
    x = x[np.abs(x) < 100]
    for kind, to in (("f16", np.float16), ("f64", np.float64)):
        narrow = "truncf" if kind == "f16" else "extf"
        back = "extf" if kind == "f16" else "truncf"
        body = """%%a = arith.%s %%x : f32 to %s
          %%c = math.sin %%a : %s
          %%z = arith.%s %%c : %s to f32""" % (
            narrow, kind, kind, back, kind)
        want = np.sin(x.astype(to).astype(np.float64))
        got = evaluate(body, x, x, "host")
        bound = 2.0 ** -10 if kind == "f16" else 2.0 ** -23
        error = np.abs(got - want)
        assert (error <= bound * np.maximum(np.abs(want), 1e-4)).all(), kind


def runs(target):
    try:
        evaluate("%z = arith.addf %x, %x : f32", np.ones(1, F), np.ones(1, F), target)
        return True
    except ValueError:
        return False


main()
if failures:
    sys.exit("\n".join(failures))
