"""Powers of e and logarithms without a branch or a call, compiled: several by one instruction.

Those of C's library are called for one number at a time, which takes several times as long. Nothing
imports this module until a loop is compiled.
"""

from __future__ import annotations

import numpy as np

from grayzone.numerics.compiled import part

# Added to a number, _ROUND leaves it as a whole number in its last bits. The least power of e is a
# normal number; a logarithm of two is two numbers, whose sum has more digits.
_ROUND, _PER_TWO, _LEAST = 6755399441055744.0, 1.4426950408889634, -708.0
_LN2, _REST = 0.6931471803691238, 1.9082149292705877e-10
_BITS, _BIAS = 52, 1023  # of the fraction of a number, and what is added to its exponent


@part(fastmath={"contract"})
def exponential(x: float) -> float:
    """Return exp(x) of a number up to 700, 0 below the range, and what is no number as it is.

    exp(x) = 2^n exp(r) with |r| <= log(2) / 2: Taylor's polynomial of degree 13, and a power of two
    that is put together from its bits.
    """
    v = _LEAST if x < _LEAST else x
    shifted = v * _PER_TWO + _ROUND
    n = shifted - _ROUND
    r = (v - n * _LN2) - n * _REST
    p = 1.0 / 6227020800.0
    p = p * r + 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    bits = (np.float64(shifted).view(np.int64) + _BIAS) << _BITS
    power = np.int64(bits).view(np.float64)
    return 0.0 if x < _LEAST else (p * (r * r) + r + 1.0) * power


@part(fastmath={"contract"}, error_model="numpy")
def log_of_one_and(e: float) -> float:
    """Return log(1 + e) of a number from 0 to 1, to the digits that it has beside 0.

    log(1 + e) = 2 artanh(z), z = e / (2 + e) <= 1/3: sixteen terms of the series.
    """
    z = e / (2.0 + e)
    s = z * z
    p = 1.0 / 33.0
    p = p * s + 1.0 / 31.0
    p = p * s + 1.0 / 29.0
    p = p * s + 1.0 / 27.0
    p = p * s + 1.0 / 25.0
    p = p * s + 1.0 / 23.0
    p = p * s + 1.0 / 21.0
    p = p * s + 1.0 / 19.0
    p = p * s + 1.0 / 17.0
    p = p * s + 1.0 / 15.0
    p = p * s + 1.0 / 13.0
    p = p * s + 1.0 / 11.0
    p = p * s + 1.0 / 9.0
    p = p * s + 1.0 / 7.0
    p = p * s + 1.0 / 5.0
    p = p * s + 1.0 / 3.0
    return 2.0 * (z * s * p + z)
