"""Compiled loops on several threads, which take their parts without asking for the interpreter.

A thread that waits in Python needs the interpreter's lock on its way into a loop and out of it:
sixteen of them queue for half a millisecond, whatever they have to do. Here they wait inside
compiled code. For some two milliseconds after each part they look for the next one, and have it
within a microsecond or two; then, or if they are wanted there, they go back to Python's crew.

Nothing imports this module until a loop is compiled.
"""

from __future__ import annotations

import atexit
import os
import platform
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod
from threading import Lock, get_ident
from typing import Any

import numpy as np
from llvmlite import ir
from numba import extending, types
from numba.core.cgutils import get_or_insert_function

from grayzone.numerics import threads
from grayzone.numerics.compiled import loop, part
from grayzone.numerics.packed import Call, packed

Array = Any

# Numbers of the board, each where no other is in its line of the cache. A ticket is a count of
# loops and of the parts of this one (8 bits). From the last of the places on there is a number for
# each part: the last loop of which somebody has it. Whoever changes it to this loop's has the part,
# which nobody can who still sees an earlier loop, as its parts were all taken when this one began.
_LINE = 8
_TICKET, _DONE, _AWAKE, _CALL, _ROW, _TAKEN = (k * _LINE for k in range(6))
_BITS = 8
_ALL = 2**_BITS - 1
# Rounds without a part before a thread goes, some two milliseconds; pauses of a round, of which
# some processors take fifty nanoseconds each; and rounds after which others may have the processor:
# a call to the system keeps a thread from looking, and the processor from resting.
_PATIENCE, _PAUSES, _TURN = 16_000, 4, 64
_WORD = ir.IntType(64)
_intrinsic: Any = extending.intrinsic
# LLVM's names of an instruction that lets the processor rest for a moment, and its arguments.
_X86: Any = ("llvm.x86.sse2.pause", [])
_ARM: Any = ("llvm.aarch64.hint", [ir.Constant(ir.IntType(32), 1)])
_PAUSE = {"x86_64": _X86, "amd64": _X86, "aarch64": _ARM, "arm64": _ARM}

_give_way: Any = types.ExternalFunction(
    "SwitchToThread" if os.name == "nt" else "sched_yield", types.int32()
)


def _atomic(emit: Callable[[Any, Any, list[Any]], Any], n_values: int, result: Any) -> Any:
    """Return what compiled code calls with a board, a place on it and so many numbers."""

    def codegen(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        board = context.make_array(signature.args[0])(context, builder, given[0])
        return emit(builder, builder.gep(board.data, [given[1]]), list(given[2:]))

    # intrinsics have no variable arguments
    if n_values == 0:
        return _intrinsic(lambda context, board, k: (result(board, types.intp), codegen))
    if n_values == 1:
        return _intrinsic(lambda context, board, k, v: (result(board, types.intp, v), codegen))
    return _intrinsic(lambda context, board, k, v, w: (result(board, types.intp, v, w), codegen))


def _emit_store(builder: Any, place: Any, given: list[Any]) -> Any:
    builder.store_atomic(given[0], place, "release", 8)
    return ir.Constant(_WORD, 0)


def _emit_swap(builder: Any, place: Any, given: list[Any]) -> Any:
    return builder.extract_value(builder.cmpxchg(place, *given, "acq_rel", "acquire"), 1)


_load = _atomic(lambda builder, place, _: builder.load_atomic(place, "acquire", 8), 0, types.int64)
_store = _atomic(_emit_store, 1, types.int64)
_add = _atomic(
    lambda builder, place, given: builder.atomic_rmw("add", place, given[0], "acq_rel"),
    1,
    types.int64,
)
_swap = _atomic(_emit_swap, 2, types.boolean)


@_intrinsic
def _run(typing: Any, call: Any, row: Any, part: Any, parts: Any) -> tuple[Any, Any]:
    """Call what is at an address with three numbers."""

    def codegen(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [_WORD] * 3)
        builder.call(builder.inttoptr(given[0], kind.as_pointer()), list(given[1:]))
        return ir.Constant(_WORD, 0)

    return types.int64(*[types.int64] * 4), codegen


@_intrinsic
def _pause(typing: Any) -> tuple[Any, Any]:
    """Let the processor rest for a moment."""

    def codegen(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        known = _PAUSE.get(platform.machine().lower())
        if known:
            name, arguments = known
            kind = ir.FunctionType(ir.VoidType(), [a.type for a in arguments])
            builder.call(get_or_insert_function(builder.module, kind, name), arguments)
        return ir.Constant(_WORD, 0)

    return types.int64(), codegen


@part()
def _take(board: Array, home: int, last: int) -> int:
    """Do parts that nobody has, of another loop than the last; returns the number of the loop.

    A thread begins with a part of its own: the next loop on the same rows finds them in its cache.
    """
    ticket = _load(board, _TICKET)
    count, parts = ticket >> _BITS, ticket & _ALL
    if count == last:
        return last
    call, row = _load(board, _CALL), _load(board, _ROW)
    for k in range(parts):
        number = (home + k) % parts
        taken = _load(board, _TAKEN + number * _LINE)
        if taken < count and _swap(board, _TAKEN + number * _LINE, taken, count):
            _run(call, row, number, parts)
            _add(board, _DONE, 1)
    return count


@loop()
def _wait(board: Array, wanted: Array, home: int) -> None:
    """Do parts as they come, until none has come for a while or Python has work."""
    idle, last = 0, 0
    while idle < _PATIENCE:
        count = _take(board, home, last)
        if count != last:
            idle, last = 0, count
            continue
        if _load(wanted, 0) != 0:
            break
        idle += 1
        for _ in range(_PAUSES):
            _pause()
        if idle % _TURN == 0:
            _give_way()
    _add(board, _AWAKE, -1)


@loop()
def _called(board: Array, hands: int) -> int:
    """Return how many threads have to be called for so many to be awake, and count them so."""
    missing = hands - _load(board, _AWAKE)
    if missing > 0:
        _add(board, _AWAKE, missing)
    return missing


@loop()
def _lead(board: Array, call: int, row: Array, n_parts: int) -> None:
    """Hand out the parts of a loop, do what nobody takes, and wait for the others."""
    _store(board, _DONE, 0)
    _store(board, _CALL, call)
    _store(board, _ROW, row.ctypes.data)
    last = _load(board, _TICKET) >> _BITS
    _store(board, _TICKET, ((last + 1) << _BITS) | n_parts)
    _take(board, 0, last)
    idle = 0
    while _load(board, _DONE) < n_parts:
        idle += 1
        _pause()
        if idle % (_PAUSES * _TURN) == 0:  # whoever has the last part may wait for a processor
            _give_way()


class _Team:
    """Threads of the crew that take parts of one loop at a time."""

    def __init__(self) -> None:
        self._board = np.zeros(_TAKEN + _ALL * _LINE, dtype=np.int64)
        self._homes: dict[int, int] = {}  # the part with which a thread begins
        self._inside: set[int] = set()
        self._is_closed = False
        self.busy = Lock()

    def do(self, call: Call, n_parts: int, hands: int) -> None:
        """Do all parts of a loop, for whoever has the lock, with so many others."""
        crew = threads.crew
        crew.wanted[0] = 0
        missing = _called(self._board, hands)
        if missing > 0:
            crew.help_with(self._wait, missing)
        _lead(self._board, call.address, call.row, n_parts)

    def _wait(self) -> None:
        self._inside.add(get_ident())
        home = self._homes.setdefault(get_ident(), len(self._homes) + 1)
        if not self._is_closed:
            _wait(self._board, threads.crew.wanted, home)
        self._inside.discard(get_ident())

    def close(self) -> None:
        """Call everybody back to Python, for good."""
        self._is_closed = True
        while self._inside:
            threads.crew.wanted[0] = 1
            time.sleep(1e-4)


_team = _Team()


def _start_afresh() -> None:
    """Forget threads that are not here: they do not survive a fork."""
    global _team
    _team = _Team()


def _close() -> None:
    """Leave nobody in compiled code: a thread that comes back once Python has ended aborts."""
    _team.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_afresh)
atexit.register(_close)


def sums(n_parts: int, *shape: int) -> Array:
    """Return zeros for each part to add to, as :func:`share` has them.

    No two parts have some in the same line of the cache: it would go from one to the other each
    time that one of them adds.
    """
    size = prod(shape)
    lines = np.zeros((n_parts, -(-size // _LINE) * _LINE + 2 * _LINE))
    return lines[:, :size].reshape(n_parts, *shape)


def share(
    compiled: Any, given: Sequence[Any], own: Sequence[Array], edges: Sequence[int]
) -> list[Any]:
    """Call a compiled loop for each part of the rows, on as many threads as there are parts.

    Parameters
    ----------
    compiled : loop
        What is called with all arguments given, one entry of each array of ``own``, and the rows to
        start and stop at.
    given : sequence of arrays, numbers and bools
    own : sequence of ndarrays of shape (k, ...)
        What each of the k parts has for itself, C-contiguous: room to work, :func:`sums`.
    edges : sequence of k + 1 ints
        Where parts begin and end.

    Returns
    -------
    found : list of k
        What the loop returns: numbers, or None.
    """
    # who waits in a compiled loop keeps a processor busy: there are no more of them than of these
    n_parts = len(edges) - 1
    hands = min(n_parts, threads.processors()) - 1
    if hands > 0 and n_parts < _ALL and _team.busy.acquire(blocking=False):
        try:
            call = packed(compiled, given, own, edges)
            _team.do(call, n_parts, hands)
        finally:
            _team.busy.release()
        return call.results(n_parts)
    # one part or one processor, or the team works for another thread
    return [
        compiled(*given, *(array[k] for array in own), start, stop)
        for k, (start, stop) in enumerate(pairwise(edges))
    ]
