"""Calls of compiled loops as rows of numbers, for threads that know nothing else of a loop.

A row has what the loop returns, whether it failed, and its arguments as compiled code passes them:
an array is where it begins, how many entries it has and how far these are apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from threading import Lock
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import typeof, types
from numba.core.compiler_lock import global_compiler_lock

Array = Any

_FOUND, _FAILED, _ARGUMENTS = 0, 1, 2  # places in a row; the last is where these begin
_WORD = ir.IntType(64)
_ABOUT_AN_ARRAY, _BEGIN = 5, 4  # numbers before its shape, and which of them is its address


def packed(given: Sequence[Any], own: Sequence[Array], edges: Sequence[int]) -> Array:
    """Return rows (k, width) of numbers for k parts, as :func:`~grayzone.numerics.team.share` has.

    The arrays must outlive them.
    """
    first, moving = [0, 0], []
    for value in given:
        first += _numbers(value)
    for array in own:
        moving.append((len(first) + _BEGIN, array.strides[0]))
        first += _numbers(array[0])
    rows = np.empty((len(edges) - 1, len(first) + 2), dtype=np.int64)
    rows[:, :-2] = first
    parts = np.arange(rows.shape[0])
    for place, apart in moving:
        rows[:, place] += apart * parts
    rows[:, -2], rows[:, -1] = edges[:-1], edges[1:]
    return rows


def _numbers(value: Any) -> list[int]:
    if isinstance(value, np.ndarray):
        begin = value.__array_interface__["data"][0]
        return [0, 0, value.size, value.itemsize, begin, *value.shape, *value.strides]
    if isinstance(value, float):
        return [int(np.float64(value).view(np.int64))]
    if isinstance(value, int | np.integer | np.bool_):
        return [int(value)]
    raise TypeError(f"{type(value).__name__} is no array, float, int or bool")


def results(rows: Array) -> list[Any]:
    """Return what the loop returned for each part."""
    if rows[:, _FAILED].any():
        raise RuntimeError("a compiled loop failed on some rows")
    found: list[Any] = rows[:, _FOUND].view(np.float64).tolist()
    return found


# Bits of an array's flags by which compiled code differs: how its numbers lie one after the other,
# and whether they are aligned and may be changed.
_FLAGS = 0x1 | 0x2 | 0x100 | 0x400


def _kind(value: Any) -> Any:
    """Return what compiled code must know of an argument."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.ndim, value.flags.num & _FLAGS
    return type(value)


_known: dict[tuple[Any, ...], int] = {}
_libraries: list[Any] = []  # what is compiled is there as long as its library
_names, _compiling = count(), Lock()


def call_of(compiled: Any, given: Sequence[Any], own: Sequence[Array]) -> int:
    """Return the address of what calls a loop with the address of a row of numbers."""
    arguments = [*given, *(array[0] for array in own), 0, 0]
    key = (compiled, *map(_kind, arguments))
    if key not in _known:
        with _compiling:
            kinds = tuple(map(typeof, arguments))
            compiled.compile(kinds)
            _known[key] = _made(compiled.overloads[kinds])
    return _known[key]


@global_compiler_lock
def _made(loop: Any) -> int:
    """Compile what unpacks a row for a compiled loop, some milliseconds' work."""
    context, signature, name = loop.target_context, loop.signature, f"grayzone_part_{next(_names)}"
    library, symbol = loop.library, f"{name}_loop"
    binding.add_symbol(symbol, library.get_pointer_to_function(loop.fndesc.llvm_func_name))
    module = context.create_module(name)
    kind = context.call_conv.get_function_type(signature.return_type, signature.args)
    caller = ir.Function(module, ir.FunctionType(ir.VoidType(), [_WORD]), name)
    builder = ir.IRBuilder(caller.append_basic_block())
    row = builder.inttoptr(caller.args[0], _WORD.as_pointer())
    status, found = context.call_conv.call_function(
        builder,
        ir.Function(module, kind, symbol),
        signature.return_type,
        signature.args,
        _unpacked(context, builder, row, signature.args),
    )
    if isinstance(signature.return_type, types.Float):
        builder.store(found, builder.bitcast(row, found.type.as_pointer()))
    builder.store(builder.zext(status.is_error, _WORD), _at(builder, row, _FAILED))
    builder.ret_void()
    made = context.codegen().create_library(name)
    made.add_ir_module(module)
    made.finalize()
    _libraries.append(made)
    return int(made.get_pointer_to_function(name))


def _unpacked(context: Any, builder: Any, row: Any, kinds: Sequence[Any]) -> list[Any]:
    """Load the arguments of a loop from a row."""
    arguments, place = [], _ARGUMENTS
    for kind in kinds:
        at, value = _at(builder, row, place), context.get_value_type(kind)
        if isinstance(kind, types.Boolean):
            arguments.append(builder.trunc(builder.load(at), value))
        else:
            arguments.append(builder.load(builder.bitcast(at, value.as_pointer())))
        place += _ABOUT_AN_ARRAY + 2 * kind.ndim if isinstance(kind, types.Array) else 1
    return arguments


def _at(builder: Any, row: Any, place: int) -> Any:
    return builder.gep(row, [ir.Constant(_WORD, place)])
