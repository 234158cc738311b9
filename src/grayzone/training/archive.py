"""A model file: a zip of parts, bounded before it is unpacked, with the SHA-256 of each part."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path

from grayzone.tables.output import set_aside

MANIFEST = "manifest.json"
MOST_PARTS = 50_000
MOST_BYTES = 2**32
# unpacked bytes: any number up to the first, and for each packed one as many as the second
FREE, RATIO = 2**24, 50

# the end of a zip: signature, numbers of disks, parts here and in all, size and place of the list
# of parts, length of a comment
_END = struct.Struct("<4s4H2LH")
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def pack(parts: Mapping[str, bytes], version: int) -> bytes:
    """Return a zip of named parts with a manifest of them."""
    sums = {name: hashlib.sha256(part).hexdigest() for name, part in parts.items()}
    manifest = json.dumps({"format": version, "parts": sums}).encode()
    return _zipped({MANIFEST: manifest, **parts}, zipfile.ZIP_DEFLATED)


def stored(parts: Mapping[str, bytes]) -> io.BytesIO:
    """Return a zip of parts as they are: nothing is left in it to unpack."""
    return io.BytesIO(_zipped(parts, zipfile.ZIP_STORED))


def _zipped(parts: Mapping[str, bytes], method: int) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression=method) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return buffer.getvalue()


def unpack(raw: bytes) -> tuple[object, dict[str, bytes]]:
    """Return the format that the manifest of a zip names, and its parts.

    Raises
    ------
    ValueError
        If there are too many parts, or too large ones, or not those of the manifest.
    """
    _check_end(raw)
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        infos = archive.infolist()
        _check_infos(infos, len(raw))
        parts = {info.filename: _read(archive, info) for info in infos}
    if MANIFEST not in parts:
        raise ValueError(f"it has no {MANIFEST}")
    manifest = json.loads(parts.pop(MANIFEST))
    if not isinstance(manifest, dict) or not {"format", "parts"} <= set(manifest):
        raise ValueError(f"{MANIFEST} says nothing of its format and parts")
    sums = {name: hashlib.sha256(part).hexdigest() for name, part in parts.items()}
    if manifest["parts"] != sums:
        raise ValueError(f"its parts are not those of {MANIFEST}")
    return manifest["format"], parts


def _check_end(raw: bytes) -> None:
    """Check the number of parts before a list of them is made."""
    if len(raw) < _END.size or raw[:2] != b"PK":
        raise ValueError("it is no zip file")
    signature, disk, first, here, n_parts, size, place, comment = _END.unpack(raw[-_END.size :])
    if signature != b"PK\5\6" or comment or disk or first or here != n_parts:
        raise ValueError("it is no whole zip file")
    if place + size + _END.size != len(raw):
        raise ValueError("its list of parts is not where it should be")
    if n_parts > MOST_PARTS:
        raise ValueError(f"it has {n_parts:,} parts; at most {MOST_PARTS:,} are read")


def _check_infos(infos: list[zipfile.ZipInfo], packed: int) -> None:
    if len({info.filename for info in infos}) < len(infos):
        raise ValueError("two of its parts have the same name")
    if any(info.compress_type not in _METHODS or info.flag_bits & 1 for info in infos):
        raise ValueError("a part is encrypted, or packed in an unusual way")
    unpacked = sum(info.file_size for info in infos)
    if unpacked > min(FREE + RATIO * packed, MOST_BYTES):
        raise ValueError(f"its {packed / 1e6:,.1f} MB unpack to {unpacked / 1e6:,.0f} MB")


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    # as many bytes as the list of parts says: reading all would unpack those beyond, too
    with archive.open(info) as part:
        data = part.read(info.file_size)
    if len(data) != info.file_size:
        raise ValueError(f"{info.filename[:60]!r} is cut off")
    return data


def file_at(path: Path, file: str) -> Path:
    """Return where a model is: a file, in a folder, or in what that was before a cut-off switch."""
    if path.is_dir():
        return path / file
    if not path.exists():
        for folder, name in ((path, file), (path.parent, path.name)):
            aside = set_aside(folder)
            if aside is not None:
                return aside / name
    return path
