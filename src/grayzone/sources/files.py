"""Files that must stay as they are while a fit reads them again and again."""

from __future__ import annotations

import os
from typing import NamedTuple


class Stamp(NamedTuple):
    """What tells whether a file is still the one that was opened."""

    path: str
    size: int
    modified: int  # nanoseconds

    def check(self) -> None:
        """Raise an error if the file is another one by now."""
        now = stamp(self.path)
        if now == self:
            return
        changed = "was written to again"
        if now.size != self.size:
            changed = f"had {self.size} bytes and has {now.size} now"
        raise RuntimeError(
            f"{self.path} has changed since it was opened: it {changed}. All readings must see "
            "the same rows; open it again and fit anew."
        )


def stamp(path: str) -> Stamp:
    """Look at a file."""
    found = os.stat(path)
    return Stamp(path, found.st_size, found.st_mtime_ns)
