"""Calls of compiled loops as numbers: a part of one can then be called from compiled code.

A loop's arguments are written into one row of numbers, arrays as numba has them, and a small
function is compiled for each loop and its kinds of arguments that reads them from there. What the
parts differ by it finds by the part's number: where the rows start and stop, and which entry of the
arrays that each part has for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_void_p
from functools import cache
from itertools import count
from struct import Struct
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from llvmlite import binding, ir
from numba import typeof, types
from numba.core.compiler_lock import global_compiler_lock

Array = Any

_WORD = ir.IntType(64)
# An array among the numbers: these, its shape, its strides. Numba has the place of an owner where
# the distance between entries is, which is not 0 where each part has one of its own.
_ABOUT_AN_ARRAY, _APART, _BEGIN = 5, 1, 4
# Bits of an array's flags by which compiled code differs: how its numbers lie one after the other,
# and whether they are aligned and may be changed.
_FLAGS = 0x1 | 0x2 | 0x100 | 0x400


class Call(NamedTuple):
    """A loop with its arguments."""

    address: int  # of what calls it for a part: by the row's address, its number and how many are
    finds: bool  # whether the loop returns numbers
    row: Array  # the arguments, k + 1 edges, and for each part what it found, and whether it failed

    def results(self, n_parts: int) -> list[Any]:
        """Return what the loop returned for each part."""
        found = self.row[-2 * n_parts :]
        if np.count_nonzero(found[n_parts:]):
            raise RuntimeError("a compiled loop failed on some rows")
        if not self.finds:
            return [None] * n_parts
        numbers: list[Any] = found[:n_parts].view(np.float64).tolist()
        return numbers


def packed(compiled: Any, given: Sequence[Any], own: Sequence[Array], edges: Sequence[int]) -> Call:
    """Return the call that :func:`~grayzone.numerics.team.share` has; its arrays must outlive it.

    ``own`` has one entry for each part, and the loop is called with that.
    """
    numbers: list[int] = []
    kinds: list[Any] = [compiled, len(given)]
    for value in given:
        if isinstance(value, np.ndarray):
            about = value.size, value.itemsize, _begin(value)
            numbers += (0, 0, *about, *value.shape, *value.strides)
            kinds.append((value.dtype, value.ndim, value.flags.num & _FLAGS))
        else:
            numbers.append(_number(value))
            kinds.append(type(value))
    for value in own:
        (apart, *strides), (n, *shape) = value.strides, value.shape
        about = value.size // n, value.itemsize, _begin(value)
        numbers += (0, apart, *about, *shape, *strides)
        kinds.append((value.dtype, value.ndim, value.flags.num & _FLAGS))
    key, size = tuple(kinds), len(numbers)
    if key not in _known:
        arguments = [*given, *(array[0] for array in own), 0, 0]
        with _compiling:
            _known[key] = _made(compiled, tuple(map(typeof, arguments)), len(given))
    n_parts = len(edges) - 1
    row = np.zeros(size + 3 * n_parts + 1, dtype=np.int64)
    _whole_numbers(size + n_parts + 1).pack_into(row.data, 0, *numbers, *edges)
    return Call(*_known[key], row)


def _begin(array: Array) -> int:
    """Return where an array's numbers begin, for a seventh of what ``__array_interface__`` takes.

    It is the first that an array has after the head of an object, by NumPy's binary interface.
    """
    return c_void_p.from_address(id(array) + _HEAD).value or 0


_HEAD = object.__basicsize__
if _begin(_probe := np.zeros(1)) != _probe.__array_interface__["data"][0]:

    def _begin(array: Array) -> int:
        return int(array.__array_interface__["data"][0])


@cache
def _whole_numbers(n: int) -> Struct:
    return Struct(f"{n}q")


def _number(value: Any) -> int:
    if isinstance(value, float):
        return int(np.float64(value).view(np.int64))
    if isinstance(value, int | np.integer | np.bool_):
        return int(value)
    raise TypeError(f"{type(value).__name__} is no array, float, int or bool")


_known: dict[tuple[Any, ...], tuple[int, bool]] = {}
_libraries: list[Any] = []  # what is compiled is there as long as its library
_names, _compiling = count(), Lock()


@global_compiler_lock
def _made(compiled: Any, kinds: tuple[Any, ...], n_given: int) -> tuple[int, bool]:
    """Compile what unpacks a row for a compiled loop, some milliseconds' work."""
    compiled.compile(kinds)
    loop = compiled.overloads[kinds]
    context, signature, name = loop.target_context, loop.signature, f"grayzone_part_{next(_names)}"
    library, symbol = loop.library, f"{name}_loop"
    binding.add_symbol(symbol, library.get_pointer_to_function(loop.fndesc.llvm_func_name))
    module = context.create_module(name)
    kind = context.call_conv.get_function_type(signature.return_type, signature.args)
    caller = ir.Function(module, ir.FunctionType(ir.VoidType(), [_WORD, _WORD, _WORD]), name)
    address, part, n_parts = caller.args
    builder = ir.IRBuilder(caller.append_basic_block())
    row = builder.inttoptr(address, _WORD.as_pointer())
    arguments, place = _unpacked(context, builder, row, part, signature.args[:-2], n_given)
    edges = builder.gep(row, [ir.Constant(_WORD, place)])
    after = builder.add(part, ir.Constant(_WORD, 1))
    arguments += [builder.load(builder.gep(edges, [edge])) for edge in (part, after)]
    status, found = context.call_conv.call_function(
        builder,
        ir.Function(module, kind, symbol),
        signature.return_type,
        signature.args,
        arguments,
    )
    founds = builder.gep(edges, [builder.add(n_parts, ir.Constant(_WORD, 1))])
    finds = isinstance(signature.return_type, types.Float)
    if finds:
        own = builder.gep(founds, [part])
        builder.store(found, builder.bitcast(own, found.type.as_pointer()))
    failed = builder.gep(founds, [builder.add(n_parts, part)])
    builder.store(builder.zext(status.is_error, _WORD), failed)
    builder.ret_void()
    made = context.codegen().create_library(name)
    made.add_ir_module(module)
    made.finalize()
    _libraries.append(made)
    return int(made.get_pointer_to_function(name)), finds


def _unpacked(
    context: Any, builder: Any, row: Any, part: Any, kinds: Sequence[Any], n_given: int
) -> tuple[list[Any], int]:
    """Load the arguments of a part of a loop, and return where in the row they end."""
    arguments, place = [], 0
    for number, kind in enumerate(kinds):
        at = builder.gep(row, [ir.Constant(_WORD, place)])
        value = context.get_value_type(kind)
        if isinstance(kind, types.Boolean):
            loaded = builder.trunc(builder.load(at), value)
        else:
            loaded = builder.load(builder.bitcast(at, value.as_pointer()))
        if number >= n_given:
            loaded = _entry(builder, loaded, part)
        arguments.append(loaded)
        place += _ABOUT_AN_ARRAY + 2 * kind.ndim if isinstance(kind, types.Array) else 1
    return arguments, place


def _entry(builder: Any, array: Any, part: Any) -> Any:
    """Return an array's entry of this number, without an owner."""
    owner, begin = (builder.extract_value(array, place) for place in (_APART, _BEGIN))
    further = builder.mul(builder.ptrtoint(owner, _WORD), part)
    moved = builder.inttoptr(builder.add(builder.ptrtoint(begin, _WORD), further), begin.type)
    array = builder.insert_value(array, moved, _BEGIN)
    return builder.insert_value(array, ir.Constant(owner.type, None), _APART)
