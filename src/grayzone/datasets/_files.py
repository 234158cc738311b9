"""Data sets on disk: which file is one, how it is read, and how one is written."""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_svmlight_file

from grayzone.datasets._catalogue import Entry
from grayzone.datasets._contents import Contents

Array = Any

_SUFFIXES = (".npz", ".csv", ".csv.gz", "", ".bz2")
_KEPT = ".sha256"  # beside a downloaded file: the fingerprint of what was downloaded


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
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise ValueError(f"{path} cannot be read as a data set: {error}") from error


def _read_arrays(path: Path) -> Contents:
    with np.load(path) as arrays:
        if "X" in arrays:
            X, y = arrays["X"], arrays["y"]
        else:
            X, y = (np.concatenate([arrays[f"{key}_train"], arrays[f"{key}_test"]]) for key in "Xy")
    return Contents(X, y, [f"x{j}" for j in range(X.shape[1])])


def _read_table(path: Path) -> Contents:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    *columns, labels = (np.array(column) for column in zip(*rows, strict=True))
    *names, _ = header
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
    y = np.concatenate([y for _, y in parts]).astype(np.int64)
    return Contents(X, y, [f"x{j}" for j in range(X.shape[1])])


def write(entry: Entry, contents: Contents, folder: Path) -> Path:
    """Keep a downloaded set: arrays, or a table of text. The file appears whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(contents.data, np.ndarray):
        path = folder / f"{entry.name}.npz"
        part = folder / f".{entry.name}.part.npz"
        np.savez_compressed(part, X=contents.data, y=contents.target)
    else:
        path = folder / f"{entry.name}.csv.gz"
        part = folder / f".{entry.name}.part.csv.gz"
        contents.data.assign(label=contents.target).to_csv(part, index=False)
    note = folder / f"{path.name}{_KEPT}"
    note.write_text(read(entry, part).fingerprint() + "\n")
    os.replace(part, path)
    return path


def kept_fingerprint(path: Path) -> str | None:
    """Fingerprint of what was downloaded into this file, None where it was not."""
    note = path.with_name(path.name + _KEPT)
    return note.read_text().strip() if note.is_file() else None


def mixture_extras(folder: Path) -> dict[str, Array]:
    """Centres of the ESL mixture, and its grid: points, true probabilities, density."""
    found = {}
    for key, n_columns in (("means", 2), ("grid", 4)):
        path = folder / f"esl_mixture_{key}.csv"
        if path.is_file():
            found[key] = np.loadtxt(path, delimiter=",", skiprows=1)[:, :n_columns]
    return found
