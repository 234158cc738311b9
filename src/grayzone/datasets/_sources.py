"""Where data sets are downloaded from, once a user has asked for it."""

from __future__ import annotations

import bz2
import http.client
import io
import urllib.request
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import fetch_covtype, fetch_openml, load_svmlight_file

from grayzone.datasets._catalogue import Entry
from grayzone.datasets._contents import Contents, whole_numbers

Array = Any

_SECONDS = 60.0  # without an answer


def from_covtype(entry: Entry) -> Contents:
    """Forest cover types by scikit-learn, which checks what it downloads."""
    found = fetch_covtype()
    return Contents(found.data.astype(np.int16), found.target.astype(np.int8), _names(entry))


def from_openml(entry: Entry) -> Contents:
    """A set of OpenML by scikit-learn, which checks what it downloads."""
    assert entry.source is not None
    found = fetch_openml(entry.source.where[0], version=entry.source.version, as_frame=True)
    target = np.array([entry.classes.get(str(label), str(label)) for label in found.target])
    frame = found.data
    if all(dtype.kind in "fiub" for dtype in frame.dtypes):
        # nullable integers have a missing value of their own
        numbers = frame.to_numpy(dtype=np.float64, na_value=np.nan)
        return Contents(numbers, target, list(frame.columns))
    return Contents(frame.astype(object), target, list(frame.columns))


def from_libsvm(entry: Entry) -> Contents:
    """A training and a test file of the LIBSVM site."""
    assert entry.source is not None
    parts = [_svmlight(address, entry.n_features) for address in entry.source.where]
    X = np.concatenate([X for X, _ in parts]).astype(np.float32)
    return Contents(X, np.concatenate([y for _, y in parts]), _names(entry))


def _svmlight(address: str, n_features: int) -> tuple[Array, Array]:
    try:
        with urllib.request.urlopen(address, timeout=_SECONDS) as answer:
            sent = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise ConnectionError(f"{address} cannot be downloaded: {error!r}") from error
    try:
        text = bz2.decompress(sent) if address.endswith(".bz2") else sent
        X, y = load_svmlight_file(io.BytesIO(text), n_features=n_features)
        return X.toarray(), whole_numbers(y)
    except (OSError, ValueError) as error:
        raise ValueError(f"{address} sent something else than a LIBSVM file: {error}") from error


def _names(entry: Entry) -> list[str]:
    return [f"x{j}" for j in range(entry.n_features)]


FETCH: dict[str, Callable[[Entry], Contents]] = {
    "covtype": from_covtype,
    "openml": from_openml,
    "libsvm": from_libsvm,
}
