"""The command line: a table in, a decision model and a report out."""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments; those of the process by default.

    Returns
    -------
    int
        0; 1 where the machine failed, 2 where the input was at fault, 130 when interrupted.

    See Also
    --------
    grayzone.train : What the command ``train`` does, from Python.

    Examples
    --------
    >>> from grayzone.cli import main
    >>> main(["--version"])  # doctest: +ELLIPSIS
    grayzone ...
    0
    """
    try:
        from grayzone.cli._app import run
    except ImportError as error:
        print(
            f"grayzone: the command line needs more packages ({error.name} is missing): "
            "pip install 'grayzone[cli]'",
            file=sys.stderr,
        )
        return 1
    return run(sys.argv[1:] if argv is None else list(argv))
