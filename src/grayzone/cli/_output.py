"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from grayzone.cli._errors import UserError


@contextmanager
def whole_folder(target: Path, names: tuple[str, ...], overwrite: bool) -> Iterator[Path]:
    """Yield a folder to write to; what is in it moves to the target when all went well.

    Raises
    ------
    UserError
        If the target is no folder, or has such files already and may not be overwritten.
    """
    check_folder(target, names, overwrite)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        yield part
        if not target.exists():
            part.chmod(0o755)
            os.replace(part, target)
            return
        for name in names:
            if (part / name).is_file():
                os.replace(part / name, target / name)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def check_folder(target: Path, names: tuple[str, ...], overwrite: bool) -> None:
    """Refuse a target that cannot, or may not, be written to, before any work is done."""
    for place in (target, *target.parents):
        if place.exists() and not place.is_dir():
            raise UserError(f"--out {target}: {place} is a file; expected a folder.")
    there = [name for name in names if (target / name).exists()]
    if there and not overwrite:
        raise UserError(
            f"{target} holds {', '.join(there)} already; choose another --out, or --overwrite."
        )


def whole_file(target: Path, write: Callable[[Path], None]) -> None:
    """Write a file under another name, and give it its own when it is complete."""
    if target.is_dir():
        raise UserError(f"{target} is a folder; expected a file to write to.")
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(
        prefix=".", suffix="".join(target.suffixes[-2:]), dir=target.parent
    )
    os.close(handle)
    part = Path(name)
    try:
        write(part)
        part.chmod(0o644)
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)
