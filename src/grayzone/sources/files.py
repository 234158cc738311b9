"""Files that must stay as they are while a fit reads them again and again."""

from __future__ import annotations

import os
from typing import NamedTuple


class Stamp(NamedTuple):
    """What tells whether a file is still the one that was opened."""

    path: str
    size: int
    modified: int  # nanoseconds
    changed: int  # nanoseconds; unlike the time before, no program can set it back
    inode: int

    def check(self) -> None:
        """Raise an error if the file is another one by now."""
        now = stamp(self.path)
        if now == self:
            return
        if now.size != self.size:
            what = f"it had {self.size} bytes and has {now.size} now"
        elif now.inode != self.inode:
            what = "another file has taken its place"
        elif now.modified != self.modified:
            what = "it was written to again"
        else:
            what = "it was written to and its time set back, or its name or permissions changed"
        raise RuntimeError(
            f"{self.path} has changed since it was opened: {what}. All readings must see "
            "the same rows; open it again and fit anew."
        )


def stamp(path: str) -> Stamp:
    """Look at a file."""
    found = os.stat(path)
    return Stamp(path, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
