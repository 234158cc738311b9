"""What goes wrong by no fault of the program: one line for the user, no traceback."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

_SHELL = ContextVar("shell", default=False)  # whether a command line asks
_SHORT = {"ids": "id"}  # options that have another name on the command line
_NEAR = 0.6  # likeness of names: one letter in three may differ


class UserError(ValueError):
    """Input that cannot be used; the message says what was wrong, where, and what is expected."""


@contextmanager
def command_line() -> Iterator[None]:
    """Name options as a command line does while this lasts."""
    token = _SHELL.set(True)
    try:
        yield
    finally:
        _SHELL.reset(token)


def option(name: str, value: str | float | None = None) -> str:
    """Return how to ask for something: from Python or, within a command, on its line.

    Examples
    --------
    >>> from grayzone.tables.errors import command_line, option
    >>> option("time_limit"), option("model", "boosting")
    ('time_limit=…', "model='boosting'")
    >>> with command_line():
    ...     option("time_limit", 60)
    '--time-limit 60'
    """
    if not _SHELL.get():
        return f"{name}=…" if value is None else f"{name}={value!r}"
    return f"--{_SHORT.get(name, name).replace('_', '-')}" + ("" if value is None else f" {value}")


def shortened(names: list[str], most: int = 5) -> str:
    """Some names in quotes, and how many more there are."""
    # plain strings: NumPy's own say what they are
    some = [str(name) for name in names[:most]]
    shown = ", ".join(repr(name if len(name) <= 60 else name[:57] + "…") for name in some)
    return shown + (f" and {len(names) - most:,} more" if len(names) > most else "")


def nearest(name: str, known: Sequence[str]) -> str | None:
    """Return the one of the known names that was probably meant, whatever its case."""
    folded = {other.casefold(): other for other in reversed(known)}
    near = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=_NEAR)
    return folded[near[0]] if near else None


def not_among(unknown: Sequence[str], known: Sequence[str]) -> str:
    """Say what a table does not have, what it has, and what was probably meant.

    Examples
    --------
    >>> from grayzone.tables.errors import not_among
    >>> not_among(["Bad"], ["age", "bad"])
    "the table has no column 'Bad'; did you mean 'bad'? It has 'age', 'bad'."
    """
    near = nearest(unknown[0], known)
    asked = f" did you mean {near!r}? It has" if near else " it has"
    return f"the table has no column {shortened(list(unknown))};{asked} {shortened(list(known))}."
