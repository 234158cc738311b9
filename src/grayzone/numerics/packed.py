"""Calls of compiled loops as numbers: a part of one can then be called from compiled code.

A loop's arguments are written into one row of numbers, arrays by where they are as objects, and a
small function is compiled for each loop and its kinds of arguments that reads them from there. What
the parts differ by it finds by the part's number: where the rows start and stop, and which entry of
the arrays that each part has for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_int64
from functools import cache
from itertools import count
from struct import Struct
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from llvmlite import binding, ir
from numba import typeof, types
from numba.core import cgutils
from numba.core.compiler_lock import global_compiler_lock
from numba.np.numpy_support import as_dtype

Array = Any

_WORD = ir.IntType(64)
# What an array of NumPy's has after the head of an object, by the binary interface that compiled
# modules rely on: where its numbers begin, how many axes there are, and where to find the lengths
# of these and the steps along them.
_HEAD, _BEGIN, _LENGTHS, _STEPS = object.__basicsize__, 0, 2, 3
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
    for value in (*given, *own):
        if isinstance(value, np.ndarray):
            numbers.append(id(value))
            kinds.append((value.dtype, value.ndim, value.flags.num & _FLAGS))
        else:
            numbers.append(_number(value))
            kinds.append(type(value))
    key, size = tuple(kinds), len(numbers)
    if key not in _known:
        arguments = [*given, *(array[0] for array in own), 0, 0]
        with _compiling:
            _known[key] = _made(compiled, tuple(map(typeof, arguments)), len(given))
    n_parts = len(edges) - 1
    row = np.zeros(size + 3 * n_parts + 1, dtype=np.int64)
    _whole_numbers(size + n_parts + 1).pack_into(row.data, 0, *numbers, *edges)
    return Call(*_known[key], row)


def _check_arrays() -> None:
    """Check once that arrays are as they are read here: others would be read from anywhere."""
    array = np.zeros((2, 3))
    head = (c_int64 * 4).from_address(id(array) + _HEAD)
    axes = [(c_int64 * 2).from_address(head[k]) for k in (_LENGTHS, _STEPS)]
    found = head[_BEGIN], *map(tuple, axes)
    if found != (array.__array_interface__["data"][0], array.shape, array.strides):
        raise ImportError(
            "NumPy's arrays are not laid out as its binary interface says: got "
            f"{found} for an array of shape {array.shape}. Please report the versions of Python "
            "and NumPy."
        )


_check_arrays()
_BITS, _FLOAT = Struct("q"), Struct("d")


@cache
def _whole_numbers(n: int) -> Struct:
    return Struct(f"{n}q")


def _number(value: Any) -> int:
    if isinstance(value, float):
        return int(_BITS.unpack(_FLOAT.pack(value))[0])
    if isinstance(value, int | np.integer | np.bool_):
        return int(value)
    raise TypeError(f"{type(value).__name__} is no array, float, int or bool")


_known: dict[tuple[Any, ...], tuple[int, bool]] = {}
_libraries: list[Any] = []  # what is compiled is there as long as its library
_names, _compiling = count(), Lock()


@global_compiler_lock
def _made(compiled: Any, given: tuple[Any, ...], n_given: int) -> tuple[int, bool]:
    """Compile what unpacks a row for a compiled loop, some milliseconds' work."""
    compiled.compile(given)
    loop = compiled.overloads[given]
    context, signature, name = loop.target_context, loop.signature, f"grayzone_part_{next(_names)}"
    library, symbol = loop.library, f"{name}_loop"
    binding.add_symbol(symbol, library.get_pointer_to_function(loop.fndesc.llvm_func_name))
    module = context.create_module(name)
    kind = context.call_conv.get_function_type(signature.return_type, signature.args)
    caller = ir.Function(module, ir.FunctionType(ir.VoidType(), [_WORD, _WORD, _WORD]), name)
    address, part, n_parts = caller.args
    builder = ir.IRBuilder(caller.append_basic_block())
    row = builder.inttoptr(address, _WORD.as_pointer())
    kinds = signature.args[:-2]
    arguments = _unpacked(context, builder, row, part, kinds, n_given)
    edges = builder.gep(row, [ir.Constant(_WORD, len(kinds))])
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
) -> list[Any]:
    """Load the arguments of a part of a loop; those beyond the given ones are the part's own."""
    arguments = []
    for number, kind in enumerate(kinds):
        at = builder.gep(row, [ir.Constant(_WORD, number)])
        value = context.get_value_type(kind)
        if isinstance(kind, types.Array):
            own = part if number >= n_given else None
            arguments.append(_array(context, builder, builder.load(at), kind, own))
        elif isinstance(kind, types.Boolean):
            arguments.append(builder.trunc(builder.load(at), value))
        else:
            arguments.append(builder.load(builder.bitcast(at, value.as_pointer())))
    return arguments


def _array(context: Any, builder: Any, address: Any, kind: Any, entry: Any) -> Any:
    """Return an array as numba has it from where it is as an object; an entry, or all of it."""
    head = builder.inttoptr(builder.add(address, ir.Constant(_WORD, _HEAD)), _WORD.as_pointer())

    def of_head(place: int) -> Any:
        return builder.load(builder.gep(head, [ir.Constant(_WORD, place)]))

    begin = of_head(_BEGIN)
    lengths, steps = (builder.inttoptr(of_head(k), _WORD.as_pointer()) for k in (_LENGTHS, _STEPS))
    if entry is not None:
        begin = builder.add(begin, builder.mul(builder.load(steps), entry))
    first = 0 if entry is None else 1
    array, n = context.make_array(kind)(context, builder), ir.Constant(_WORD, 1)
    shape, strides = (ir.Constant(ir.ArrayType(_WORD, kind.ndim), ir.Undefined) for _ in range(2))
    for axis in range(kind.ndim):
        place = [ir.Constant(_WORD, first + axis)]
        length = builder.load(builder.gep(lengths, place))
        shape = builder.insert_value(shape, length, axis)
        strides = builder.insert_value(strides, builder.load(builder.gep(steps, place)), axis)
        n = builder.mul(n, length)
    array.meminfo, array.parent = (
        cgutils.get_null_value(of.type) for of in (array.meminfo, array.parent)
    )
    array.nitems, array.itemsize = n, ir.Constant(_WORD, as_dtype(kind.dtype).itemsize)
    array.data = builder.inttoptr(begin, array.data.type)
    array.shape, array.strides = shape, strides
    return array._getvalue()
