"""What goes wrong by no fault of the program: one line for the user, no traceback."""

from __future__ import annotations


class UserError(Exception):
    """Input that cannot be used; the message says what was wrong, where, and what is expected."""


def shortened(names: list[str], most: int = 5) -> str:
    """Some names in quotes, and how many more there are."""
    # plain strings: NumPy's own say what they are
    some = [str(name) for name in names[:most]]
    shown = ", ".join(repr(name if len(name) <= 60 else name[:57] + "…") for name in some)
    return shown + (f" and {len(names) - most:,} more" if len(names) > most else "")
