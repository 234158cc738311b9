"""The table of the demonstration, which scikit-learn carries along."""

from __future__ import annotations

from pathlib import Path

from sklearn.datasets import load_breast_cancer

from grayzone.cli._errors import UserError
from grayzone.cli._output import whole_file

NAME = "tumours.csv"


def write_table(folder: Path) -> Path:
    """Write the table into a folder, and return its path."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--out {folder} is a file; expected a folder.")
    frame = load_breast_cancer(as_frame=True).frame
    frame["diagnosis"] = frame.pop("target").map({0: "malignant", 1: "benign"})
    path = folder / NAME
    folder.mkdir(exist_ok=True)
    whole_file(path, lambda part: frame.to_csv(part, index=False))
    return path
