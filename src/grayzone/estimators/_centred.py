"""Functions that few centres span: their parameters, and what a fit exposes of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import is_array_api_obj

from grayzone.estimators._draws import random_state_of
from grayzone.numerics.backend import moved
from grayzone.numerics.centred_design import CentreMap
from grayzone.numerics.checks import as_numpy, check_choice, check_integer, is_real
from grayzone.numerics.namespace import array_namespace
from grayzone.solvers import Solution, TruncatedSpec
from grayzone.solvers.kernel.centres import SELECTIONS, Centres, find_centres
from grayzone.solvers.kernel.choose import kernel_for
from grayzone.solvers.kernel.restriction import restriction_cost
from grayzone.sources.labelled import Labelled

Array = Any


def check_centres(settings: Any) -> None:
    """Check ``centres`` and ``centre_selection``, and what does not go with them."""
    check_choice("centre_selection", settings.centre_selection, SELECTIONS)
    centres = settings.centres
    if centres is None:
        return
    if is_real(centres) or isinstance(centres, bool):
        check_integer("centres", centres, least=1)
    else:
        _check_array(centres)
    if isinstance(settings.kernel, str) and settings.kernel in ("linear", "precomputed"):
        raise ValueError(
            f"centres are rows that span a function of a kernel that is computed; got "
            f"kernel={settings.kernel!r}. Leave centres=None, or take another kernel."
        )
    for name, wanted in (("penalty", "l2"), ("solver", "auto")):
        given = getattr(settings, name)
        if given != wanted:
            raise ValueError(f"centres are for {name}={wanted!r}; got {name}={given!r}.")


def _check_array(centres: Any) -> None:
    """Check that centres that are given are rows of finite numbers."""
    known = is_array_api_obj(centres) or sp.issparse(centres)
    try:
        values = centres if known else np.asarray(centres)
    except ValueError:
        values = np.empty(0)
    shape = tuple(values.shape)
    if len(shape) != 2 or min(shape) < 1:
        raise ValueError(
            "centres must be None, an integer >= 1 or an array of rows of two dimensions; got "
            f"{type(centres).__name__} of shape {shape}."
        )
    stored: Any = values.data if sp.issparse(values) else as_numpy(values)
    if stored.dtype.kind not in "biuf" or not np.all(np.isfinite(stored)):
        raise ValueError("centres must be finite numbers; NaN, infinity or other values are there.")


class Centred:
    """An estimator with the parameters ``centres`` and ``centre_selection``."""

    centres: Any
    centre_selection: str
    random_state: Any
    n_features_in_: int
    dual_coef_: Array

    def _on_centres(self, labelled: Labelled, spec: TruncatedSpec) -> TruncatedSpec:
        """Return the same problem on functions that the centres span."""
        found = self._centres_of(labelled)
        self.__dict__.pop("centre_indices_", None)
        if found.numbers is not None:
            self.centre_indices_ = moved(found.numbers, labelled.like)
        self.n_centres_dropped_ = found.n_dropped
        return replace(spec, features=found.features)

    def _centres_of(self, labelled: Labelled) -> Centres:
        """Return the centres of rows; those that are held keep theirs."""
        if labelled.held is None:
            return self._found(labelled)
        return labelled.held.state("centres", None, lambda: self._found(labelled))

    def _found(self, labelled: Labelled) -> Centres:
        centres = self.centres
        if is_real(centres):
            centres = int(centres)
        elif int(np.shape(centres)[1]) != labelled.n_features:
            raise ValueError(
                f"centres must have as many features as X, {labelled.n_features}; got "
                f"{int(np.shape(centres)[1])}."
            )
        seed = int(random_state_of(self.random_state).randint(2**31 - 1))
        kernel = kernel_for(self, labelled)
        return find_centres(labelled, kernel, centres, self.centre_selection, seed)

    def _expose_centres(self, features: CentreMap, slopes: Array) -> None:
        """Set what predictions need."""
        xp = array_namespace(slopes)
        self.dual_coef_ = xp.asarray(features.expansion(slopes), copy=True)
        self._kernel, self._vectors, self._right = features.kernel, features.rows, features.right

    def _bound_restriction(
        self, labelled: Labelled, spec: TruncatedSpec, solution: Solution, skip: bool
    ) -> None:
        """Set what the restriction to centres costs at most, where all rows are at hand."""
        for name in ("restriction_cost_", "restriction_cost_is_bound_"):
            self.__dict__.pop(name, None)
        rows = labelled.held
        if skip or spec.features is None or rows is None or solution.certificate.duals is None:
            return
        found = restriction_cost(rows, spec, solution)
        self.restriction_cost_, self.restriction_cost_is_bound_ = found

    @property
    def centres_(self) -> Array:
        """Rows that span the function, where ``centres`` are few."""
        if self.centres is None or "_vectors" not in vars(self):
            raise AttributeError(
                "centres_ are there where a fit was restricted to them: with the parameter centres."
            )
        return self._vectors
