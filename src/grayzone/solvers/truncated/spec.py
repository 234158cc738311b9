"""Criterion (8) without its rows: what turns any of them into their part of the problem."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import device

from grayzone.numerics.backend import moved
from grayzone.numerics.centred_design import CentredDesign, CentreMap, are_dear
from grayzone.numerics.columns import by_code
from grayzone.numerics.designs import Design
from grayzone.numerics.kernel_design import KernelDesign
from grayzone.numerics.kernels import Kernel
from grayzone.numerics.losses import TruncatedLogistic, sigmoid
from grayzone.numerics.margins import Margins, SignedMargin, SoftmaxMargin
from grayzone.numerics.namespace import array_namespace, is_numpy_array
from grayzone.solvers.kernel.device_design import DeviceKernelDesign
from grayzone.solvers.kernel.device_matrix import free_memory, is_on_gpu
from grayzone.solvers.problem import Problem, prior_coef
from grayzone.sources.labelled import Rows

Array = Any


@dataclass(frozen=True)
class TruncatedSpec:
    """Floors of the classes, penalty, intercept and kernel; small, for it travels with every task.

    Attributes
    ----------
    floors : ndarray of shape (K,)
        Margins below which the losses of each class are flat.
    penalty : float
        The penalty lambda.
    fit_intercept : bool
        Whether there is an unpenalised intercept.
    kernel : Kernel or None
        None is linear.
    cache_bytes : float
        What kernel values may take in NumPy's memory.
    several_fits : bool
        Whether several fits to the same rows will follow, which then share kernel values.
    by_rows : bool
        Whether rows have floors of their own, of both classes; those above are then typical ones.
    l1_ratio : float
        Share of the penalty that is an l1 norm of the coefficients, of features or of the rows that
        span a function; 0 is the squared norm alone.
    features : CentreMap or None
        Features of the rows that functions are linear in; None are the rows themselves. With them
        there is no kernel: it is in the map.
    coarse : bool
        Whether large Gram matrices of features may be in single precision.

    See Also
    --------
    Problem : What it makes of rows.
    minimise : Minimises it on rows anywhere.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.solvers import TruncatedSpec
    >>> spec = TruncatedSpec(np.array([-1.0, -1.0]), penalty=0.5, fit_intercept=True)
    >>> spec.n_outputs, spec.has_kinks
    (1, True)
    """

    floors: Array
    penalty: float
    fit_intercept: bool
    kernel: Kernel | None = None
    cache_bytes: float = 1e9
    several_fits: bool = False
    by_rows: bool = False
    l1_ratio: float = 0.0
    features: CentreMap | None = None
    coarse: bool = True

    @property
    def linear(self) -> TruncatedSpec:
        """The same losses and penalty of linear functions of the rows themselves."""
        return replace(self, kernel=None, features=None)

    @property
    def exactly(self) -> TruncatedSpec:
        """The same with Gram matrices in double precision throughout."""
        return replace(self, coarse=False)

    def n_slopes(self, n_features: int) -> int:
        """Return how many coefficients a score has, the intercept left out.

        Parameters
        ----------
        n_features : int
            Of the rows.

        Returns
        -------
        n_slopes : int
            As many, or as many as there are centres.
        """
        return n_features if self.features is None else self.features.n_centres

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.floors.shape[0])

    @property
    def n_outputs(self) -> int:
        """Scores per row."""
        return 1 if self.n_classes == 2 else self.n_classes

    @property
    def kind(self) -> type[Margins]:
        """Map from scores to margins."""
        return SignedMargin if self.n_classes == 2 else SoftmaxMargin

    @property
    def has_kinks(self) -> bool:
        """Whether any class has a floor."""
        return bool(np.any(np.isfinite(self.floors)))

    @property
    def is_uniform(self) -> bool:
        """Whether all classes have a floor, or none has."""
        return bool(np.all(np.isfinite(self.floors))) or not self.has_kinks

    def problem(self, rows: Rows) -> Problem:
        """Return the part of the problem that these rows are.

        Parameters
        ----------
        rows : Rows
            Rows with their codes and weights.

        Returns
        -------
        Problem
            The problem.
        """
        design = self.design(rows)
        loss = TruncatedLogistic(self.floors_of(rows), design.is_loaded)
        margins = self._margins(rows, design.is_loaded)
        return Problem(design, margins, loss, rows.weight, self.penalty)

    def floors_of(self, rows: Rows) -> Array:
        """Return the floor of each row's loss: that of its class, or its own.

        Parameters
        ----------
        rows : Rows
            Rows with their codes and weights.

        Returns
        -------
        array of shape (n,)
            The floors.
        """
        if not self.by_rows or rows.own is None:
            return self.per_row(self.floors, rows)
        return array_namespace(rows.codes).where(rows.codes == 1, rows.own[:, 1], rows.own[:, 0])

    def slopes_at_floors(self, rows: Rows) -> Array:
        """Return the slope of each row's loss just above its floor.

        Parameters
        ----------
        rows : Rows
            Rows with their codes and weights.

        Returns
        -------
        array of shape (n,)
            The slopes.
        """
        if not self.by_rows:
            return self.per_row(sigmoid(self.floors), rows)
        return sigmoid(self.floors_of(rows))

    def ceilings_of(self, ceilings: Array, rows: Rows) -> Array:
        """Return the ceiling of each row's ramp: of its class, or the end of its own zone.

        Parameters
        ----------
        ceilings : array of shape (K,)
            Ceilings of the classes.
        rows : Rows
            Rows with their codes and weights.

        Returns
        -------
        array of shape (n,)
            The ceilings.
        """
        if not self.by_rows:
            return self.per_row(ceilings, rows)
        other = replace(rows, codes=1 - rows.codes)
        return -self.floors_of(other)

    @staticmethod
    def per_row(of_classes: Array, rows: Rows) -> Array:
        """Return values of the classes, for each row.

        Parameters
        ----------
        of_classes : array of shape (K,)
            The values.
        rows : Rows
            Rows with their codes and weights.

        Returns
        -------
        array of shape (n,)
            The values.
        """
        return by_code(moved(of_classes, rows.weight), rows.codes)

    def design(self, rows: Rows) -> Design:
        """Return what scores of these rows are linear in.

        Parameters
        ----------
        rows : Rows
            Rows with their codes and weights.

        Returns
        -------
        Design
            The design.
        """
        if self.features is not None:
            few = self._asks_for_few(rows)
            name = "features of few" if few else "features"
            known = rows.state(name, self.features, lambda: self._mapped(rows, few))
            return known.precisely(self.coarse)
        if self.kernel is None:
            return rows.design(self.fit_intercept)
        return rows.state("kernel design", self.kernel, lambda: self._kernel_design(rows))

    def _asks_for_few(self, rows: Rows) -> bool:
        """Whether the one fit to come takes features of few rows, if of any, and there are none.

        Conjugate gradients do. Of many fits every one would pay for a Hessian that is less good.
        """
        assert self.features is not None
        if self.has_kinks or self.n_outputs > 1 or self.several_fits:
            return False
        if not is_numpy_array(rows.weight):  # devices multiply faster than they read
            return False
        known = None if rows.memory is None else rows.memory.get("features")
        there = known is not None and known[0] is self.features
        return not there and are_dear(rows.n_rows, self.features.n_centres)

    def _mapped(self, rows: Rows, few: bool) -> CentredDesign:
        assert self.features is not None
        budget, intercept = self.cache_bytes, self.fit_intercept
        if is_on_gpu(rows.weight):  # of its own memory half of what is free, if that is more
            budget = max(budget, 0.5 * free_memory(rows.weight))
        options: dict[str, Any] = {"budget": budget, "coarse": self.coarse, "few": few}
        return CentredDesign(rows.X, self.features, intercept, **options)

    def _kernel_design(self, rows: Rows) -> Design:
        assert self.kernel is not None
        X = rows.X
        if self.kernel.name == "precomputed" and X.shape[1] > rows.n_rows:
            # values with rows that have no weight: nothing is spanned by these
            X = array_namespace(X).take(X, rows.places(), axis=1)
        if not is_numpy_array(rows.weight):
            return DeviceKernelDesign(self.kernel, X, self.fit_intercept)
        budget, share = self.cache_bytes, self.several_fits
        return KernelDesign(self.kernel, X, self.fit_intercept, budget=budget, share=share)

    def _margins(self, rows: Rows, is_loaded: bool) -> Margins:
        name = self.kind.__name__
        made: Margins = rows.state(name, rows.codes, lambda: self._made_margins(rows, is_loaded))
        return made

    def _made_margins(self, rows: Rows, is_loaded: bool) -> Margins:
        xp = array_namespace(rows.codes)
        if self.n_classes == 2:
            signs = moved(np.array([-1.0, 1.0]), rows.weight)
            return SignedMargin(by_code(signs, rows.codes, is_loaded), is_loaded)
        known = xp.arange(self.n_classes, device=device(rows.codes))
        return self.kind(rows.codes[:, None] == known[None, :])

    def prior_coef(self, mass: Array, n_features: int, like: Array) -> Array:
        """Return zero slopes, and the intercepts that give back the class priors.

        Parameters
        ----------
        mass : ndarray of shape (K,)
            What the rows of each class weigh.
        n_features : int
            Number of features.
        like : array
            An array of the kind that is wanted.

        Returns
        -------
        array of shape (Q, p)
            Coefficients.
        """
        return prior_coef(self.kind, mass, n_features, self.fit_intercept, like)
