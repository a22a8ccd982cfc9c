"""What arguments of the package have to be, and errors of those that are not.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import operator

from . import _arrays as arrays


def fail(expected, got, error=ValueError):
    """Raises an error of one line, however many `got` has."""
    got = " ".join(str(got).split())
    raise error("attn: expected %s, but got %s" % (expected, got))


def shown(value):
    """A value for an error message: text and numbers as they are written, of others
    a few words."""
    if value is None or isinstance(value, (str, bytes, int, float)):
        return "%.80r" % (value,)
    return arrays.describe(value)


def boolean(name, value):
    if not arrays.is_bool(value):
        fail("%s to be True or False" % name, arrays.describe(value), TypeError)
    return bool(value)


def integer(name, value, least=-(2**63), most=2**63 - 1):
    try:
        number = None if arrays.is_bool(value) else operator.index(value)
    except TypeError:
        number = None
    if number is None:
        fail("%s to be an integer" % name, arrays.describe(value), TypeError)
    if not least <= number <= most:
        bounds = "of at least %d" % least
        if most < 2**63 - 1:
            bounds = "between %d and %d" % (least, most)
        fail("%s %s" % (name, bounds), number)
    return number


def number(name, value, what="a number"):
    try:
        if arrays.is_bool(value) or isinstance(value, (str, bytes)):
            raise TypeError
        return float(value)
    except (TypeError, ValueError, OverflowError):
        fail("%s to be %s" % (name, what), arrays.describe(value), TypeError)


def names(name, values, of):
    """A text, or several, as a tuple."""
    try:
        found = (values,) if isinstance(values, str) else tuple(values)
    except TypeError:
        found = None
    if found is None or not all(isinstance(text, str) for text in found):
        fail("%s to hold names of %s" % (name, of), shown(values), TypeError)
    return found


def choice(name, value, choices):
    """One of some texts."""
    if not isinstance(value, str) or value not in choices:
        fail("%s to be one of %s" % (name, ", ".join(choices)), shown(value))
    return value
