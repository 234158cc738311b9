"""A data set by name: found in a folder, downloaded when asked, and checked."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from grayzone.datasets import _files, _sources
from grayzone.datasets._catalogue import CATALOGUE, Entry
from grayzone.datasets._contents import Contents
from grayzone.numerics.checks import check_choice

Array = Any

_VARIABLE = "GRAYZONE_DATA"


def load_dataset(
    name: str,
    *,
    folder: str | os.PathLike[str] | None = None,
    download: bool = False,
    return_X_y: bool = False,
) -> Any:
    """Load a public data set, from a folder or, if asked, from the network.

    It is looked for in ``folder``, in the folder that the environment variable ``GRAYZONE_DATA``
    names, and in ``grayzone`` inside scikit-learn's data home: as ``NAME.npz`` (arrays ``X`` and
    ``y``, or ``X_train``, ``y_train``, ``X_test`` and ``y_test``), ``NAME.csv`` or ``NAME.csv.gz``
    (a header, the label in the last column), or LIBSVM files ``NAME`` and ``NAME.t`` (also
    ``.bz2``). What is downloaded is kept in the first of these folders.

    Parameters
    ----------
    name : str
        One of :func:`list_datasets`.
    folder : path, default=None
        Where to look first.
    download : bool, default=False
        Whether to fetch the set where no folder has it: covertype by scikit-learn's own loader,
        others from OpenML or the LIBSVM site. Never without being asked.
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` alone.

    Returns
    -------
    bunch : :class:`~sklearn.utils.Bunch`
        ``data`` (an array, or a pandas DataFrame where columns are categories), ``target``,
        ``feature_names``, ``n_train`` (how many of the first rows are published for training, or
        None), ``positive`` (label of the positive class, or None), ``costs`` (published costs of
        errors by class, or None), ``DESCR`` and ``path``.

    Raises
    ------
    FileNotFoundError
        If no folder has it and ``download`` is false, or there is nowhere to download it from.
    ValueError
        If the file, or what was downloaded, is damaged or not the published set.
    ConnectionError
        If a download from the LIBSVM site fails.

    See Also
    --------
    list_datasets : The names that it knows.

    Examples
    --------
    >>> from grayzone.datasets import load_dataset
    >>> sonar = load_dataset("sonar", download=True)  # doctest: +SKIP
    >>> load_dataset("iris")
    Traceback (most recent call last):
    ValueError: name must be one of 'a9a', 'bank_marketing', ...; got 'iris'.
    """
    check_choice("name", name, tuple(sorted(CATALOGUE)))
    entry, folders = CATALOGUE[name], _folders(folder)
    path = _files.find(name, folders)
    if path is None:
        path = _fetched(entry, folders, download)
    contents = _files.read(entry, path)
    _check(entry, contents, path)
    target = _labels(contents.target)
    if return_X_y:
        return contents.data, target
    extras = _files.mixture_extras(path.parent) if name == "esl_mixture" else {}
    return Bunch(
        data=contents.data,
        target=target,
        feature_names=contents.feature_names,
        n_train=entry.n_train,
        positive=None if entry.positive is None else _labels(np.array([entry.positive]))[0],
        costs={_labels(np.array([k]))[0]: v for k, v in entry.costs.items()} or None,
        DESCR=f"{entry.about} Licence: {entry.licence}.",
        path=path,
        **extras,
    )


def _folders(folder: str | os.PathLike[str] | None) -> list[Path]:
    """Where to look, in this order."""
    named = [folder] if folder is not None else []
    if os.environ.get(_VARIABLE):
        named.append(os.environ[_VARIABLE])
    # scikit-learn's data home, by its rule: its own function would create the folder
    home = os.environ.get("SCIKIT_LEARN_DATA", os.path.join("~", "scikit_learn_data"))
    return [Path(os.path.expanduser(path)) for path in (*named, os.path.join(home, "grayzone"))]


def _fetched(entry: Entry, folders: list[Path], download: bool) -> Path:
    """Download a set into the first folder, checked before it is kept."""
    looked = ", ".join(map(str, folders))
    if entry.source is None:
        raise FileNotFoundError(
            f"Data set {entry.name!r} is in none of these folders: {looked}. It is not offered for "
            f"download; put it there, or let {_VARIABLE} name the folder that has it."
        )
    if not download:
        raise FileNotFoundError(
            f"Data set {entry.name!r} is in none of these folders: {looked}. Let {_VARIABLE} name "
            "the folder that has it, or download it with download=True."
        )
    fetch: Callable[[Entry], Contents] = _sources.FETCH[entry.source.kind]
    contents = fetch(entry)
    where = f"what {entry.source.kind} sent"
    _check_counts(entry, contents, where)
    # OpenML writes some values differently; scikit-learn checks what it downloads from there
    exact = entry.source.kind != "openml" and entry.fingerprint is not None
    if exact and contents.fingerprint() != entry.fingerprint:
        raise ValueError(f"{where}: not the published data set {entry.name!r}; nothing was kept.")
    return _files.write(entry, contents, folders[0])


def _check(entry: Entry, contents: Contents, path: Path) -> None:
    """Compare the contents with what was published, or with what was downloaded."""
    _check_counts(entry, contents, str(path), _files.advice(entry))
    found, known = contents.fingerprint(), {entry.fingerprint, _files.kept_fingerprint(path)}
    if found not in known:
        raise ValueError(
            f"{path} is damaged, or not the published data set {entry.name!r}: its contents have "
            f"the fingerprint {found[:16]}…. {_files.advice(entry)}"
        )


def _check_counts(entry: Entry, contents: Contents, where: str, advice: str = "") -> None:
    labels, counts = np.unique(contents.target.astype(str), return_counts=True)
    found = dict(zip(labels.tolist(), counts.tolist(), strict=True))
    shape, expected = np.shape(contents.data), (entry.n_rows, entry.n_features)
    if shape != expected or found != entry.counts:
        raise ValueError(
            f"{where}: data set {entry.name!r} should have {expected[0]:,} rows, {expected[1]} "
            f"features and the classes {entry.counts}; found {shape[0]:,} rows, "
            f"{shape[1] if len(shape) > 1 else 0} features and {_few(found)}. {advice}".rstrip()
        )


def _few(found: dict[str, int]) -> str:
    shown = dict(list(found.items())[:12])
    return f"{shown}" + ", …" * (len(found) > len(shown))


def _labels(target: Array) -> Array:
    """Labels as integers where they are."""
    text = np.asarray(target).astype(str)
    return text.astype(np.int64)
