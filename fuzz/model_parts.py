"""Model files made quickly, taken apart, and put together again as whoever means harm would."""

import hashlib
import io
import json
import struct
import warnings
import zipfile
import zlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import skops.io

from grayzone.tables.schema import Schema
from grayzone.training import archive, candidates, contents, model, note
from grayzone.training.stakes import Stakes

Parts = dict[str, bytes]


@cache
def small_table(kind: str = "numbers", n: int = 40) -> pd.DataFrame:
    """Return a table of two numbers, or of columns of every kind with gaps."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(np.round(rng.normal(size=(n, 2)), 2), columns=["a", "b"])
    if kind == "mixed":
        table["colour"] = rng.choice(["red", "green", "blue"], n)
        table["two"] = rng.choice(["left", "right"], n)
        table["remark"] = [f"remark {k * k} of {n}" for k in range(n)]
        table["day"] = pd.date_range("2020-01-01", periods=n, freq="11D").strftime("%Y-%m-%d")
        table.loc[::7, ["a", "colour", "day"]] = None
    return table


@cache
def small_model(
    name: str = "logistic-regression", kind: str = "numbers", n_classes: int = 2, **asked: Any
) -> model.DecisionModel:
    """Return a model as ``train`` would make it of a small table, without comparing any."""
    table = small_table(kind)
    schema = Schema.of(table)
    X = schema.apply(table)
    y = np.argsort(np.argsort(table["b"].to_numpy())) * n_classes // len(table)
    stakes = Stakes(("no", "yes", "maybe")[:n_classes], 1.0 - np.eye(n_classes), **asked)
    with (
        warnings.catch_warnings(),
        patch.multiple(candidates, CS=(1.0,), ZONES=(1.0,), KERNEL_CS=(1.0,), BASES=3),
    ):
        warnings.simplefilter("ignore")
        # rows are too few for a limit, which is set by hand
        fitted = candidates.pipeline(name, stakes.without_limits(), 0).fit(X, y)
    fitted[-1].forget_rows()
    about = note.circumstances(
        name, target="y", rows=len(y), data="t.csv", sha256=hashlib.sha256().hexdigest(), seed=0
    )
    cut = 0.5 if stakes.max_fpr is not None else None
    return model.DecisionModel(fitted, schema, stakes, cut, about)


def parts_of(path: Path) -> Parts:
    """Return the parts of a model file, or of that in a folder, by name."""
    path = path / model.FILE if path.is_dir() else path
    return archive.unpack(path.read_bytes())[1]


def held_in(path: Path) -> dict[str, Any]:
    """Return what a model file holds: a note and an estimator."""
    parts = parts_of(path)
    held = skops.io.load(archive.stored(parts), trusted=contents.check_contents(parts))
    return dict(held)


def seal(parts: Mapping[str, bytes], path: Path, version: Any = model.FORMAT) -> None:
    """Write parts with a manifest that fits them."""
    path.write_bytes(archive.pack(parts, version))


def forge(held: Any, path: Path, version: Any = model.FORMAT) -> None:
    """Write anything at all as a model file."""
    with zipfile.ZipFile(io.BytesIO(skops.io.dumps(held))) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    seal(contents.lean(parts), path, version)


def with_note(held: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """Return what a file holds, with other fields in its note."""
    note = json.loads(held["grayzone_model"]) | changes
    return {**held, "grayzone_model": json.dumps(note)}


def array(values: Any) -> bytes:
    """Return an array as the part of a file."""
    buffer = io.BytesIO()
    np.save(buffer, values, allow_pickle=False)
    return buffer.getvalue()


def one_chain(n_inner: int, n_trees: int) -> dict[str, Any]:
    """Return arrays of a chain of nodes at whose first one so many trees begin.

    A row that has no value goes all the way.
    """
    places = np.arange(2 * n_inner + 1)
    inner = (places % 2 == 0) & (places < 2 * n_inner)
    return {
        "feature_": np.where(inner, 0, -1).astype(np.int32),
        "threshold_": np.zeros(len(places)),
        "left_": np.where(inner, places + 2, 0).astype(np.int32),
        "right_": np.where(inner, places + 1, 0).astype(np.int32),
        "gap_left_": inner,
        "category_": np.full(len(places), -1, dtype=np.int32),
        "roots_": np.zeros(n_trees, dtype=np.int32),
        "columns_": np.zeros(n_trees, dtype=np.int32),
    }


def bomb(unpacked: int, claimed: int | None = None, name: str = "schema.json") -> bytes:
    """Return a zip of one part that unpacks to about so many zeros, whatever size it claims."""
    block = 2**20
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    once = packer.compress(bytes(block)) + packer.flush(zlib.Z_FULL_FLUSH)
    data = once * (unpacked // block) + packer.flush(zlib.Z_FINISH)
    size, label = claimed or unpacked // block * block, name.encode()
    common = struct.pack("<5H3L2H", 20, 0, 8, 0, 33, 0, len(data), size, len(label), 0)
    local = b"PK\3\4" + common + label + data
    listed = b"PK\1\2" + struct.pack("<H", 20) + common + struct.pack("<3H2L", 0, 0, 0, 0, 0)
    listed += label
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, len(listed), len(local), 0)
    return local + listed + end
