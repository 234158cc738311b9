"""A decision model with all that is needed to use it, in one file that runs no code on loading."""

from __future__ import annotations

import io
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd

from grayzone.cli._archive import pack, stored, unpack
from grayzone.cli._contents import ForeignTypesError, check_contents, lean
from grayzone.cli._errors import UserError, shortened
from grayzone.cli._note import Note, read_note, write_note
from grayzone.cli._output import set_aside
from grayzone.cli._schema import Schema
from grayzone.cli._soundness import check_soundness
from grayzone.cli._stakes import UNDECIDED, Stakes
from grayzone.decision.limits import Target, cut_at
from grayzone.decision.zones import zone_around
from grayzone.estimators.facts import unwrapped

Array = Any
Table = Any  # a pandas DataFrame

FORMAT = 2
FILE = "model.skops"
ERROR = 0.05  # probability with which new rows may break a limit on the false positive rate
MOST_PACKED = 2**31  # bytes of a file
VERSIONED = ("grayzone", "scikit-learn", "skrub", "numpy", "pandas")


@dataclass(frozen=True)
class DecisionModel:
    """A pipeline from a table to places in the list of classes, and what it was made for.

    Attributes
    ----------
    estimator : Pipeline
        The fitted pipeline.
    schema : Schema
        Columns that it needs.
    stakes : Stakes
        Classes and costs.
    cut : float or None
        Probability of the positive class from which on to decide for it, where a limit on the
        false positive rate set it; None where costs do.
    about : dict
        Name of the model, versions, fingerprint of the data, when it was made.
    """

    estimator: Any
    schema: Schema
    stakes: Stakes
    cut: float | None
    about: dict[str, Any]

    @property
    def threshold(self) -> float | None:
        """Probability from which on the positive one of two classes is decided for."""
        return self.cut if self.cut is not None else self.stakes.threshold

    @property
    def zone(self) -> tuple[float, float] | None:
        """Probabilities around the threshold for which a decision can go either way."""
        own = getattr(self.classifier, "zone_", None)
        if self.threshold is None:
            return None
        if isinstance(own, tuple) and self.cut is None:
            return float(own[0]), float(own[1])
        return zone_around(float(np.clip(self.threshold, 1e-6, 1 - 1e-6)))

    @property
    def classifier(self) -> Any:
        """The fitted classifier itself, out of everything around it."""
        return unwrapped(self.estimator)[0]

    def _features(self, table: Table) -> Any:
        """What the classifier sees of a table."""
        X = self.schema.apply(table)
        with warnings.catch_warnings(), _one_sentence():
            # categories that a model has not seen are none of the known: no reason to warn
            warnings.simplefilter("ignore", UserWarning)
            return self.estimator[:-1].transform(X)

    def _proba(self, features: Any) -> Array:
        with _one_sentence():
            proba = np.asarray(self.estimator[-1].predict_proba(features), dtype=np.float64)
        wide = proba.ndim == 2 and proba.shape[1] == len(self.stakes.classes)
        if not wide or not (proba >= 0.0).all() or not np.allclose(proba.sum(axis=1), 1.0):
            raise UserError("The model gives no probabilities for this table: it is damaged.")
        return proba

    def _labels(self, features: Any, proba: Array | None = None) -> Array:
        if self.cut is not None:
            p = self._proba(features) if proba is None else proba
            places = (p[:, 1] >= self.cut).astype(np.intp)
        else:
            with _one_sentence():
                places = np.asarray(self.estimator[-1].predict(features), dtype=np.intp)
        # -1, the last one, is undecided
        labels = np.array([*self.stakes.classes, UNDECIDED], dtype=object)
        if not np.isin(places, np.arange(-1, len(self.stakes.classes))).all():
            raise UserError("The model decides for what is no class: it is damaged.")
        return labels[places]

    def proba(self, table: Table) -> Array:
        """Probabilities of the classes, in the order of the stakes."""
        return self._proba(self._features(table))

    def predict(self, table: Table) -> Array:
        """Labels, or "undecided"."""
        return self._labels(self._features(table))

    def decide(self, table: Table) -> Table:
        """Decision, probabilities, whether they are in the gray zone, and what actions cost."""
        features = self._features(table)
        proba = self._proba(features)
        out: dict[str, Any] = {"decision": self._labels(features, proba)}
        for k, label in enumerate(self.stakes.classes):
            out[f"probability_{label}"] = proba[:, k]
        if self.zone is not None:
            low, high = self.zone
            out["in_gray_zone"] = (proba[:, 1] >= low) & (proba[:, 1] <= high)
        expected = proba @ self.stakes.action_costs()
        names = [*self.stakes.classes, UNDECIDED][: expected.shape[1]]
        for k, label in enumerate(names):
            out[f"expected_cost_{label}"] = expected[:, k]
        return pd.DataFrame(out, index=table.index)

    def save(self, path: Path) -> None:
        """Write to a file."""
        import skops.io

        note = write_note(Note(self.schema, self.stakes, self.cut, self.about))
        buffer = io.BytesIO()
        skops.io.dump({"grayzone_model": note, "estimator": self.estimator}, buffer)
        with zipfile.ZipFile(buffer) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        path.write_bytes(pack(lean(parts), FORMAT))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read from a file; nothing in it is run.

        Raises
        ------
        UserError
            If it is no model of ours, is damaged, or holds types that are not trusted.
        """
        path = _file(path)
        if not path.is_file():
            raise UserError(f"{path} does not exist; expected a model that `grayzone train` wrote.")
        try:
            return cls._read(path)
        except UserError:
            raise
        except ForeignTypesError as error:
            raise UserError(
                f"{path} holds {shortened(error.names)}, which a model of grayzone has no use for: "
                "it was not loaded."
            ) from error
        except Exception as error:  # whatever a damaged file makes a parser do
            reason = " ".join(str(error).split())[:200]
            raise UserError(f"{path} is no model of grayzone, or is damaged: {reason}") from error

    @classmethod
    def _read(cls, path: Path) -> Self:
        import skops.io

        if path.stat().st_size > MOST_PACKED:
            raise ValueError(f"it has more than {MOST_PACKED / 1e9:.1f} GB")
        version, parts = unpack(path.read_bytes())
        if version != FORMAT:
            shown = shortened([str(version)])[1:-1]
            raise UserError(f"{path} has the format {shown}; this version reads {FORMAT}.")
        held = skops.io.load(stored(parts), trusted=check_contents(parts))
        model = cls(held["estimator"], *read_note(held["grayzone_model"]))
        try:
            check_soundness(model.estimator, model.schema, model.decide)
        except UserError as error:  # of the made-up table, which no user knows
            raise ValueError(str(error)) from error
        return model


@contextmanager
def _one_sentence() -> Iterator[None]:
    """Say what a damaged model makes of a table whose columns are as they should be."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(
            f"The model cannot decide on this table, it is damaged: {reason}"
        ) from error


def _file(path: Path) -> Path:
    """Where a model is: in a file, a folder, or what a folder was before a switch was cut off."""
    if path.is_dir():
        return path / FILE
    if not path.exists():
        for folder, name in ((path, FILE), (path.parent, path.name)):
            aside = set_aside(folder)
            if aside is not None:
                return aside / name
    return path


def cut_for(stakes: Stakes, proba: Array, y: Array) -> float | None:
    """Threshold that keeps the limit on new rows, from probabilities of held-out ones."""
    if stakes.max_fpr is None:
        return None
    target = Target("max_fpr", stakes.max_fpr, ERROR)
    return float(cut_at(target, proba[:, 1], y == 1, np.ones(len(y)), fresh=True))


def circumstances(name: str, **more: Any) -> dict[str, Any]:
    """What is told of a model: its name, versions and the time."""
    versions = {}
    for library in VERSIONED:
        try:
            versions[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            continue
    made = datetime.now(UTC).isoformat(timespec="seconds")
    return {"model": name, "versions": versions, "made": made, **more}


def load_model(path: str | Path) -> DecisionModel:
    """Load a model that ``grayzone train`` wrote; nothing in the file is run.

    Parameters
    ----------
    path : path
        ``model.skops``, or the folder that has it.

    Returns
    -------
    model : DecisionModel
        ``predict(table)`` gives labels, ``proba(table)`` probabilities of ``stakes.classes``, and
        ``decide(table)`` both with the expected cost of each action, for a pandas DataFrame.

    Raises
    ------
    UserError
        If it is no model of grayzone, is damaged, or holds types that are not trusted.

    Examples
    --------
    >>> import grayzone
    >>> model = grayzone.load_model("grayzone-demo")  # doctest: +SKIP
    >>> model.decide(table)  # doctest: +SKIP
    """
    return DecisionModel.load(Path(path))
