"""Compressed files, unpacked within bounds: what a few bytes blow up to is refused in time."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from grayzone.tables.errors import UserError, shortened

MOST_BYTES = 2**32  # of an unpacked file
MOST_TIMES = 500  # that a file may be larger unpacked than packed; text is some 3 to 50 times
_GRANTED = 2**26  # bytes that any file may have
_PIECE = 2**22
_OF_SYSTEMS = ("__MACOSX/", ".DS_Store")  # what archives of some systems have beside the file


def packing(path: Path) -> str:
    """Return the ending that says how a file is compressed; "" if it is not."""
    suffix = path.suffix.lower()
    return suffix if suffix in _OPENERS else ""


def unpacked_name(path: Path) -> str:
    """Return the name of what is in a file, compressed or not.

    Raises
    ------
    UserError
        If it is an archive of several files, or of none.
    """
    if packing(path) != ".zip":
        return path.stem if packing(path) else path.name
    with _said(path), zipfile.ZipFile(path) as archive:
        return _member(path, archive).filename


def unpacked(path: Path) -> bytes:
    """Return what is in a file, compressed or not.

    Raises
    ------
    UserError
        If it is damaged, is locked, or grows beyond bounds.
    """
    with _said(path), _OPENERS.get(path.suffix.lower(), open)(path, "rb") as file:
        packed = path.stat().st_size
        most = min(MOST_BYTES, max(_GRANTED, MOST_TIMES * packed)) if packing(path) else None
        pieces, size = [], 0
        while piece := file.read(_PIECE):
            size += len(piece)
            if most is not None and size > most:
                raise UserError(
                    f"{path} has {packed:,} bytes and more than {most:,} unpacked: that is no "
                    "ordinary table. Unpack it first, if it is meant."
                )
            pieces.append(piece)
        return b"".join(pieces)


@contextmanager
def _said(path: Path) -> Iterator[None]:
    """Say in one line that a file is damaged."""
    try:
        yield
    except UserError:
        raise
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError, zipfile.BadZipFile) as error:
        raise UserError(f"{path} cannot be read: {' '.join(str(error).split())[:300]}") from error
    except (RuntimeError, NotImplementedError) as error:  # a password, an unknown way to pack
        raise UserError(f"{path} cannot be unpacked: {' '.join(str(error).split())}") from error


def _member(path: Path, archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    members = [
        member
        for member in archive.infolist()
        if not member.is_dir() and not any(part in member.filename for part in _OF_SYSTEMS)
    ]
    if len(members) != 1:
        names = shortened([member.filename for member in members]) or "none"
        raise UserError(f"{path} should hold one file; it holds {len(members)}: {names}.")
    return members[0]


@contextmanager
def _open_zip(path: Path, mode: str) -> Iterator[Any]:
    with zipfile.ZipFile(path) as archive, archive.open(_member(path, archive)) as file:
        yield file


@contextmanager
def _open_zst(path: Path, mode: str) -> Iterator[Any]:
    try:
        import pyarrow as pa
    except ImportError as error:
        raise UserError(f"{path}: .zst needs pyarrow: pip install pyarrow.") from error
    with pa.input_stream(str(path), compression="zstd") as file:
        yield file


_OPENERS: dict[str, Callable[[Path, str], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zip": _open_zip,
    ".zst": _open_zst,
}
PACKINGS = tuple(_OPENERS)
