"""Data sets on disk: which file is one, how it is read, and how one is written."""

from __future__ import annotations

import csv
import gzip
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_svmlight_file

from grayzone.datasets._catalogue import Entry
from grayzone.datasets._contents import Contents, whole_numbers

Array = Any

_SUFFIXES = (".npz", ".csv", ".csv.gz", "", ".bz2")
_KEPT = ".sha256"  # beside a downloaded file: the fingerprint of what was downloaded
_EXTRAS = {"means": (20, 2), "grid": (6_831, 4)}


def find(name: str, folders: Iterable[Path]) -> Path | None:
    """First file that holds this set."""
    for folder in folders:
        for suffix in _SUFFIXES:
            path = folder / f"{name}{suffix}"
            if path.is_file():
                return path
    return None


def read(entry: Entry, path: Path) -> Contents:
    """Read a file, whatever its form is."""
    try:
        if path.suffix == ".npz":
            return _read_arrays(path)
        if path.name.endswith((".csv", ".csv.gz")):
            return _read_table(path)
        return _read_libsvm(entry, path)
    except (ImportError, MemoryError):
        raise
    except Exception as error:  # damage has many names, in as many libraries
        raise ValueError(
            f"{path} cannot be read as a data set: {error}. {advice(entry)}"
        ) from error


def advice(entry: Entry) -> str:
    """Say what to do about a file that is not the set."""
    if entry.source is None:
        return "Put the published file in its place."
    return "Delete it, and download it with download=True."


def _read_arrays(path: Path) -> Contents:
    # opened here: NumPy leaves a damaged file open
    with path.open("rb") as file, np.load(file) as arrays:
        if "X" in arrays:
            X, y = arrays["X"], arrays["y"]
        else:
            X, y = (np.concatenate([arrays[f"{key}_train"], arrays[f"{key}_test"]]) for key in "Xy")
    return Contents(X, np.ravel(y), [f"x{j}" for j in range(X.shape[1])])


def _read_table(path: Path) -> Contents:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", newline="", encoding="utf-8") as file:
        table = [row for row in csv.reader(file) if row]
    if len(table) < 2 or len(set(map(len, table))) > 1:
        raise ValueError("it should have a header and rows, all of the same length")
    (*names, _), *rows = table
    *columns, labels = (np.array(column) for column in zip(*rows, strict=True))
    parsed = [_numbers(column) for column in columns]
    if all(column.dtype.kind == "f" for column in parsed):
        return Contents(np.column_stack(parsed), labels, names)
    return Contents(_frame(names, parsed), labels, names)


def _numbers(column: Array) -> Array:
    """Numbers, NaN where there is none; text if anything else is in a column."""
    try:
        return np.where(column == "", "nan", column).astype(np.float64)
    except ValueError:
        return column


def _frame(names: list[str], columns: list[Array]) -> Any:
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(
            "This data set has categories, which need pandas: pip install pandas."
        ) from error
    return pd.DataFrame(
        {
            name: column if column.dtype.kind == "f" else column.astype(object)
            for name, column in zip(names, columns, strict=True)
        }
    )


def _read_libsvm(entry: Entry, path: Path) -> Contents:
    test = path.with_name(path.name.replace(entry.name, f"{entry.name}.t", 1))
    parts = [load_svmlight_file(str(p), n_features=entry.n_features) for p in (path, test)]
    X = np.concatenate([X.toarray() for X, _ in parts])
    y = whole_numbers(np.concatenate([y for _, y in parts]))
    return Contents(X, y, [f"x{j}" for j in range(X.shape[1])])


def write(entry: Entry, contents: Contents, folder: Path) -> Path:
    """Keep a downloaded set: arrays, or a table of text. The file appears whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=f".{entry.name}.") as scratch:
        if isinstance(contents.data, np.ndarray):
            part = Path(scratch) / f"{entry.name}.npz"
            np.savez_compressed(part, X=contents.data, y=contents.target)
        else:
            part = Path(scratch) / f"{entry.name}.csv.gz"
            contents.data.assign(label=contents.target).to_csv(part, index=False)
        note = part.with_name(part.name + _KEPT)
        note.write_text(read(entry, part).fingerprint() + "\n")
        # the file last: without it a note means nothing
        for made in (note, part):
            os.replace(made, folder / made.name)
    return folder / part.name


def kept_fingerprint(path: Path) -> str | None:
    """Fingerprint of what was downloaded into this file, None where it was not."""
    note = path.with_name(path.name + _KEPT)
    return note.read_text().strip() if note.is_file() else None


def mixture_extras(folder: Path) -> dict[str, Array]:
    """Centres of the ESL mixture, and its grid: points, true probabilities, density."""
    found = {}
    for key, shape in _EXTRAS.items():
        path = folder / f"esl_mixture_{key}.csv"
        if path.is_file():
            found[key] = _read_extra(path, shape)
    return found


def _read_extra(path: Path, shape: tuple[int, int]) -> Array:
    wanted = f"{path} should have a header and {shape[0]:,} rows of {shape[1]} numbers or more"
    try:
        with path.open(encoding="utf-8") as file:
            _, *rows = csv.reader(file)
        table = np.array([row[: shape[1]] for row in rows], dtype=np.float64)
    except (OSError, ValueError, csv.Error) as error:
        raise ValueError(f"{wanted}: {error}") from error
    if table.shape != shape:
        raise ValueError(f"{wanted}; found an array of shape {table.shape}")
    return table
