"""Products of rows in single precision with others, a tile at a time, for compiled loops.

Where the processor has vectors of 512 bits, sums of twelve rows with thirty-two others stay in its
registers: the BLAS of NumPy's and SciPy's wheels forms such products for some of these processors
only, and takes 1.4 to 1.6 times as long on the others (on AMD's, for one). Elsewhere it is SciPy's
``sgemm``. Nothing imports this module until a kernel is fitted.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.extending import get_cython_function_address, intrinsic

from grayzone.numerics.compiled import part

Array = Any

# By name, not by address: what is compiled can then be kept on disk.
binding.add_symbol(
    "grayzone_sgemm", get_cython_function_address("scipy.linalg.cython_blas", "sgemm")
)
sgemm: Any = types.ExternalFunction("grayzone_sgemm", types.void(*[types.voidptr] * 13))
binding.add_symbol(
    "grayzone_dgemm", get_cython_function_address("scipy.linalg.cython_blas", "dgemm")
)
_dgemm: Any = types.ExternalFunction("grayzone_dgemm", types.void(*[types.voidptr] * 13))

_TURNED, AS_IT_IS = (np.array([ord(letter)], dtype=np.uint8) for letter in "TN")
ONCE, NOTHING = np.ones(1, dtype=np.float32), np.zeros(1, dtype=np.float32)
_ONCE_64, _NOTHING_64 = np.ones(1), np.zeros(1)
# Numbers of a vector, and the sums that stay in registers: so many rows by so many vectors.
_LANES, _ROWS, _VECTORS = 16, 12, 2
PANEL = _LANES * _VECTORS
IS_WIDE = bool(binding.get_host_cpu_features().get("avx512f", False))


@part()
def products(left: Array, right: Array, out: Array, width: int) -> None:
    """Set out, whose rows are ``width`` numbers apart, to the products of rows of both factors."""
    sizes = np.empty((4, 1), dtype=np.int32)
    sizes[0, 0], sizes[1, 0], sizes[2, 0] = right.shape[0], left.shape[0], left.shape[1]
    sizes[3, 0] = width
    columns, rows, features, apart = (
        sizes[0].ctypes,
        sizes[1].ctypes,
        sizes[2].ctypes,
        sizes[3].ctypes,
    )
    # in Fortran's eyes all are transposed
    sgemm(
        _TURNED.ctypes,
        AS_IT_IS.ctypes,
        columns,
        rows,
        features,
        ONCE.ctypes,
        right.ctypes,
        features,
        left.ctypes,
        features,
        NOTHING.ctypes,
        out.ctypes,
        apart,
    )


@part()
def products_64(left: Array, right: Array, out: Array, width: int) -> None:
    """Do so in double precision."""
    sizes = np.empty((4, 1), dtype=np.int32)
    sizes[0, 0], sizes[1, 0], sizes[2, 0] = right.shape[0], left.shape[0], left.shape[1]
    sizes[3, 0] = width
    features = sizes[2].ctypes
    _dgemm(
        _TURNED.ctypes,
        AS_IT_IS.ctypes,
        sizes[0].ctypes,
        sizes[1].ctypes,
        features,
        _ONCE_64.ctypes,
        right.ctypes,
        features,
        left.ctypes,
        features,
        _NOTHING_64.ctypes,
        out.ctypes,
        sizes[3].ctypes,
    )


_FLOAT, _INT = ir.FloatType(), ir.IntType(64)
_VECTOR = ir.VectorType(_FLOAT, _LANES)


def _sums_of(n_rows: int) -> Any:
    """Return what sets numbers of out to the products of so many rows with a panel.

    All arrays are flat; the rows begin at ``at`` and are ``depth`` numbers long, the panel begins
    at ``there``, and rows of out, from ``to`` on, are ``apart`` numbers apart.
    """

    @intrinsic
    def sums(
        context: Any,
        left: Any,
        at: Any,
        depth: Any,
        panels: Any,
        there: Any,
        out: Any,
        to: Any,
        apart: Any,
    ) -> tuple[Any, Any]:
        place = types.intp
        given = left, place, place, panels, place, out, place, place
        return types.void(*given), partial(_emit_sums, n_rows)

    return sums


def _emit_sums(n_rows: int, context: Any, builder: Any, signature: Any, given: Any) -> Any:
    """Emit a loop over the numbers of the rows, in which sums are never in memory."""

    def pointer(k: int, place: Any) -> Any:
        array = context.make_array(signature.args[k])(context, builder, given[k])
        return builder.gep(array.data, [place])

    def number(k: int) -> Any:
        return ir.Constant(_INT, k)

    def vector_at(place: Any) -> Any:
        return builder.bitcast(place, _VECTOR.as_pointer())

    _, at, depth, _, there, _, to, apart = given
    begins = [pointer(0, builder.add(at, builder.mul(depth, number(r)))) for r in range(n_rows)]
    panel, out = pointer(3, there), pointer(5, to)
    before, loop, after = (
        builder.block,
        builder.append_basic_block("sum"),
        builder.append_basic_block("summed"),
    )
    builder.branch(loop)
    builder.position_at_end(loop)
    k = builder.phi(_INT)
    k.add_incoming(number(0), before)
    old = [[builder.phi(_VECTOR) for _ in range(_VECTORS)] for _ in range(n_rows)]
    start = builder.mul(k, number(PANEL))
    others = [
        builder.load(
            vector_at(builder.gep(panel, [builder.add(start, number(v * _LANES))])), align=4
        )
        for v in range(_VECTORS)
    ]
    new = []
    for begin in begins:
        value = builder.load(builder.gep(begin, [k]))
        undefined = ir.Constant(_VECTOR, ir.Undefined)
        first = builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
        same = ir.Constant(ir.VectorType(ir.IntType(32), _LANES), [0] * _LANES)
        spread = builder.shuffle_vector(first, undefined, same)
        new.append([builder.fmul(spread, other, flags=("contract",)) for other in others])
    for was, products_ in zip(old, new, strict=True):
        for v in range(_VECTORS):
            products_[v] = builder.fadd(products_[v], was[v], flags=("contract",))
            was[v].add_incoming(ir.Constant(_VECTOR, [0.0] * _LANES), before)
            was[v].add_incoming(products_[v], loop)
    following = builder.add(k, number(1))
    k.add_incoming(following, loop)
    builder.cbranch(builder.icmp_signed("<", following, depth), loop, after)
    builder.position_at_end(after)
    for r, row in enumerate(new):
        for v, total in enumerate(row):
            place = builder.add(builder.mul(apart, number(r)), number(v * _LANES))
            builder.store(total, vector_at(builder.gep(out, [place])), align=4)
    return context.get_dummy_value()


_sums_of_many, _sums_of_one = _sums_of(_ROWS), _sums_of(1)


@part()
def by_panels(
    left: Array, depth: int, a: int, b: int, right: Array, c: int, d: int, tile: Array
) -> tuple[int, int]:
    """Do what ``multiply`` does with panels: all of those that have one of the others."""
    first, last = c // PANEL, (d + PANEL - 1) // PANEL
    width = (last - first) * PANEL
    many = a + (b - a) // _ROWS * _ROWS
    for p in range(first, last):
        there, to = p * PANEL * depth, (p - first) * PANEL
        for i in range(a, many, _ROWS):
            _sums_of_many(left, i * depth, depth, right, there, tile, to + (i - a) * width, width)
        for i in range(many, b):
            _sums_of_one(left, i * depth, depth, right, there, tile, to + (i - a) * width, width)
    return width, c - first * PANEL


@part()
def by_blas(
    left: Array, depth: int, a: int, b: int, right: Array, c: int, d: int, tile: Array
) -> tuple[int, int]:
    """Do what ``multiply`` does with others as they are."""
    rows, others = left[a * depth : b * depth], right[c * depth : d * depth]
    products(rows.reshape(b - a, depth), others.reshape(d - c, depth), tile, d - c)
    return d - c, 0


def in_panels(right: Array) -> Array:
    """Return the numbers of others, one after the other by columns of each panel, then zeros."""
    n, depth = right.shape
    whole = np.zeros((-(-n // PANEL) * PANEL, depth), dtype=np.float32)
    whole[:n] = right
    return whole.reshape(-1, PANEL, depth).transpose(0, 2, 1).reshape(-1)


def as_they_are(right: Array) -> Array:
    """Return the numbers of others, row by row."""
    return np.ascontiguousarray(right).reshape(-1)


# multiply(left, depth, a, b, right, c, d, tile) sets the tile to the products of the rows a to b of
# a flat left factor with the others c to d, and returns how far its rows are apart, and where in
# each of them those of c are: they are never more than PANEL - 1 numbers longer at either end. One
# or the other by the processor alone, by which numba tells apart what it keeps on disk.
multiply, ready = (by_panels, in_panels) if IS_WIDE else (by_blas, as_they_are)


class Others(NamedTuple):
    """Right factors of rows, ready to be multiplied with."""

    n_rows: int
    depth: int
    numbers: Array

    @classmethod
    def of(cls, right: Array) -> Others:
        """Return those of factors (n, depth)."""
        n_rows, depth = right.shape
        return cls(n_rows, depth, ready(right))
