"""Files and folders that appear whole or not at all, whatever the moment a run is killed at.

A folder is prepared beside its place, synced to disk, and exchanged with what is there in one step
of the file system. Where there is no such step the old folder is set aside first; a reader who
finds neither takes that one (:func:`set_aside`), and the next run puts it back. What killed
runs have left is swept away by the next one, unless the run that holds it is still alive.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from grayzone.tables.errors import UserError, option

try:
    import fcntl
except ImportError:  # there are no such locks on Windows
    fcntl = None  # type: ignore[assignment]

_DAY = 86_400.0  # seconds after which a leftover that cannot be locked is nobody's
_PROBE = 1_024  # bytes that are written to see whether that works
_HERE, _EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux
_PART = re.compile(r"\..+\.[0-9a-f]{8}\.part")  # names of what is not written whole yet
_CANNOT_EXCHANGE = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)


@contextmanager
def whole_folder(
    target: Path, names: tuple[str, ...], overwrite: bool, room: int = 0
) -> Iterator[Path]:
    """Yield a folder to write to; when all went well it takes the target's place, as one.

    Other files and folders of the target stay. Whether there is room, and whether the target can
    be written and replaced, is seen on entering: before the work, not after it.

    Parameters
    ----------
    target : path
        A folder, or where one is to be.
    names : tuple of str
        Files that are going to be written.
    overwrite : bool
        Whether such files may be there.
    room : int, default=0
        Bytes that they may well take.

    Raises
    ------
    UserError
        If the target is no folder, cannot be replaced, or has such files already and may not be
        overwritten, or there is less room than needed.
    """
    check_folder(target, names, overwrite)
    target = Path(os.path.realpath(target))
    _sweep(target, names)
    with _part_of(target, folder=True) as part:
        _check_room(part / names[0], room)
        yield part
        check_folder(target, names, overwrite)  # another run may have been faster
        _switch(part, target, names)


def check_folder(target: Path, names: tuple[str, ...], overwrite: bool) -> None:
    """Refuse a target that cannot, or may not, be replaced."""
    for place in (target, *target.parents):
        if place.exists() and not place.is_dir():
            raise UserError(f"{_out(target)}: {place} is a file; expected a folder.")
    there = [name for name in names if (target / name).exists()]
    if there and not overwrite:
        raise UserError(
            f"{target} holds {', '.join(there)} already; choose another {option('out')}, or "
            f"{option('overwrite')}."
        )
    odd = [name for name in there if not (target / name).is_file()]
    if odd:
        raise UserError(f"{_out(target)}: {odd[0]} is a folder there; expected a file.")
    obstacle = _obstacle(Path(os.path.realpath(target)))
    if obstacle:
        raise UserError(f"{_out(target)}: {obstacle}; choose another folder.")


def _out(target: Path) -> str:
    return option("out", str(target))


def _obstacle(target: Path) -> str:
    """Return why a folder cannot be made or replaced; "" if it can."""
    if not target.parent.exists():
        return f"{target.parent} does not exist"
    if not target.exists():
        return "it is a link that leads nowhere" if target.is_symlink() else ""
    if os.path.ismount(target):
        return "a file system is mounted there, which cannot be replaced (a folder in it can)"
    if Path.cwd().is_relative_to(target):
        return "you are in it, so that it cannot be replaced (a folder in it can)"
    if not os.access(target, os.W_OK | os.X_OK):
        return "it may not be written to"
    parent = target.parent.stat()
    if hasattr(os, "geteuid") and parent.st_mode & stat.S_ISVTX:
        owners = (0, parent.st_uid, target.stat().st_uid)
        return "" if os.geteuid() in owners else "it belongs to someone else"
    return ""


def _check_room(probe: Path, room: int) -> None:
    """See whether a file can be written, and whether there is room."""
    probe.write_bytes(b"\0" * _PROBE)
    _sync(probe)
    probe.unlink()
    free = shutil.disk_usage(probe.parent).free
    if free < room:
        raise UserError(
            f"{probe.parent.parent} has {free / 1e6:,.0f} MB left; a model and its report may well "
            f"take {room / 1e6:,.0f} MB."
        )


@contextmanager
def _part_of(target: Path, folder: bool) -> Iterator[Path]:
    """Yield a new file or folder beside the target, locked; what is left of it is removed."""
    while True:
        part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
        if folder:
            part.mkdir()
        else:
            part.touch(mode=0o644, exist_ok=False)
        own, lock = part.stat().st_ino, _Lock(part)
        if part.exists():
            break
        lock.release()  # another run swept it away before it was locked
    try:
        yield part
    finally:
        # an exchange may have brought another folder here, with files of the user
        if part.exists() and part.stat().st_ino == own:
            shutil.rmtree(part, ignore_errors=True) if folder else part.unlink()
        lock.release()


class _Lock:
    """A lock on a file or folder that ends with the process at the latest.

    Attributes
    ----------
    taken : bool or None
        Whether it was free; None where the system cannot say.
    """

    def __init__(self, path: Path) -> None:
        self.taken: bool | None = None
        self._handle: int | None = None
        if fcntl is None:
            return
        self._handle = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.taken = True
        except BlockingIOError:
            self.taken = False
        except OSError:  # not all file systems can
            self.taken = None

    def release(self) -> None:
        """Give it back."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def _switch(part: Path, target: Path, names: tuple[str, ...]) -> None:
    """Put a prepared folder in the target's place; the old one is removed afterwards."""
    if not target.exists():
        part.chmod(0o755)
        _sync_all(part, names)
        os.replace(part, target)
        _sync(target.parent)
        return
    for entry in target.iterdir():
        if entry.name not in names and (entry.is_symlink() or not entry.is_dir()):
            _link(entry, part / entry.name)
    shutil.copymode(target, part)
    _sync_all(part, names)
    if _exchanged(part, target):
        old = part
    else:
        old = part.with_suffix(".old")
        lock = _Lock(target)  # so that no other run puts it back in between
        os.replace(target, old)
        try:
            os.replace(part, target)
        except OSError:
            os.replace(old, target)
            raise
        finally:
            lock.release()
    _sync(target.parent)
    _discard(old, target, names)


def _exchanged(one: Path, other: Path) -> bool:
    """Exchange two folders in one step; False where the system has no such step."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    if rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT_EXCHANGE:
        return False
    raise OSError(number, os.strerror(number), str(other))


def _link(source: Path, copy: Path) -> None:
    try:
        os.link(source, copy, follow_symlinks=False)
    except (OSError, NotImplementedError):  # not all file systems can
        shutil.copy2(source, copy, follow_symlinks=False)


def _discard(old: Path, target: Path, names: tuple[str, ...]) -> None:
    """Remove a folder that has been replaced; what is in it alone moves to the new one."""
    try:
        for entry in old.iterdir():
            unfinished = _PART.fullmatch(entry.name)
            if entry.name in names or unfinished or os.path.lexists(target / entry.name):
                entry.unlink()
            else:
                os.replace(entry, target / entry.name)
        old.rmdir()
    except OSError:
        return  # the next run tries again


def _sweep(target: Path, names: tuple[str, ...]) -> None:
    """Remove what killed runs left beside the target, and put back what was set aside."""
    aside = set_aside(target)
    if aside is not None and not _alive(aside):
        os.replace(aside, target)
    for place in _leftovers(target):
        if _alive(place):
            continue
        if place.is_dir():
            _discard(place, target, names)
        else:
            place.unlink(missing_ok=True)


def _leftovers(target: Path) -> list[Path]:
    ours = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{8}}\.(part|old)")
    try:
        return [place for place in target.parent.iterdir() if ours.fullmatch(place.name)]
    except OSError:
        return []


def _alive(place: Path) -> bool:
    """Whether the run that made a leftover may still need it."""
    try:
        lock = _Lock(place)
        lock.release()
        if lock.taken is None:
            return time.time() - place.stat().st_mtime < _DAY
        return not lock.taken
    except OSError:  # it went while we looked
        return True


def set_aside(folder: Path) -> Path | None:
    """Return what is left of a folder where a switch was cut off between its two renames."""
    if folder.exists():
        return None
    folder = Path(os.path.realpath(folder))
    old = [place for place in _leftovers(folder) if place.suffix == ".old"]
    return max(old, key=lambda place: place.stat().st_mtime, default=None)


def _sync(path: Path) -> None:
    """Wait until a file or folder is on the disk."""
    if path.is_dir() and os.name == "nt":
        return  # folders cannot be opened there
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some cannot sync a folder
            raise
    finally:
        os.close(handle)


def _sync_all(folder: Path, names: tuple[str, ...]) -> None:
    for name in names:
        if (folder / name).is_file():
            _sync(folder / name)
    _sync(folder)


def check_file(target: Path) -> None:
    """Refuse a file that cannot be written to where it is asked for."""
    if target.is_dir():
        raise UserError(f"{target} is a folder; expected a file to write to.")
    if not target.parent.exists():
        raise UserError(f"{target.parent} does not exist; expected a folder to write to.")


def whole_file(target: Path, write: Callable[[Path], None]) -> None:
    """Write a file under another name, and give it its own when it is complete.

    Raises
    ------
    UserError
        If there is no folder for it, or it is a folder itself.
    """
    check_file(target)
    _sweep(target, ())
    with _part_of(target, folder=False) as part:
        write(part)
        part.chmod(0o644)
        _sync(part)
        os.replace(part, target)
        _sync(target.parent)
