r"""What the two worst-case accuracies are to be, and how far the moments may be off.

A direction with the standard deviations :math:`\sigma_x, \sigma_y` gives both classes a share of
the distance of their means, :math:`\tilde\kappa_x\sigma_x + \tilde\kappa_y\sigma_y = 1`. The aim
says which share: the same bound for both, the least expected cost in the worst case, or a bound
that one class is given.

**Moments that are estimated.** Lanckriet et al. (2002, section 5) let the true moments of a class
be anywhere in

.. math:: (\mu - \bar x)'\Sigma^{-1}(\mu - \bar x) \le \nu^2,
          \qquad \|\Sigma - \Sigma_x\|_F \le \rho.

Along a direction a the largest variance is :math:`a'\Sigma a = a'(\Sigma_x + \rho I)a`, attained by
:math:`\Sigma = \Sigma_x + \rho\,aa'/\|a\|^2` (Cauchy-Schwarz:
:math:`a'\Delta a = \langle \Delta, aa'\rangle \le \|\Delta\|_F\|a\|^2`). The mean is then at worst
:math:`\nu\sqrt{a'\Sigma a}` nearer to the threshold: with :math:`\mu = \bar x - \nu\,\Sigma a /
\sqrt{a'\Sigma a}` the least of :math:`a'\mu` over the ellipsoid. A threshold that is
:math:`\tilde\kappa` robust standard deviations :math:`\sigma = \sqrt{a'(\Sigma_x + \rho I)a}` from
the estimated mean is therefore :math:`\kappa = \tilde\kappa - \nu` of them from the worst one, and
Marshall & Olkin's inequality, applied to the worst moments, bounds the class by
:math:`\kappa^2/(1+\kappa^2)`, or by 0 where :math:`\kappa \le 0`. So the best direction is that of
the covariances :math:`\Sigma + \rho I`; :math:`\nu` alone moves no direction where it is the same
for both classes, and only lowers the bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar

from grayzone.numerics.checks import check_number
from grayzone.solvers.minimax.direction import bound_of

Pair = tuple[float, float]

_RATIOS = np.linspace(-24.0, 24.0, 49)  # logarithms of kappa_x / kappa_y that are looked at first
_CLOSER = np.linspace(-1.0, 1.0, 7)  # around the best of them
_FARTHEST = 40.0  # logarithm of a ratio that leaves one class nothing
_MISSED = 1e-9  # of a required bound, by which rounding may miss it


class Tradeable(Protocol):
    """Pairs of kappas of the classes y and x, by their ratio kappa_x / kappa_y."""

    @property
    def separable(self) -> bool:
        """Whether the classes are apart whatever the ratio is."""

    def kappas(self, ratio: float) -> Pair:
        """Return what the classes y and x are bounded by."""


class Required(NamedTuple):
    """A bound that a class is given."""

    place: int
    bound: float
    given: Any  # as the user wrote it


@dataclass(frozen=True)
class Aim:
    """How worst-case accuracies are traded; of the classes y and x, in this order.

    Attributes
    ----------
    errors : pair of floats
        How many standard deviations each mean may be off, nu.
    loose : pair of floats
        What each covariance may be off by, rho, relative.
    stakes : pair of floats or None
        What errors cost; None treats the classes alike.
    required : Required or None
        A bound that one class is given.

    Examples
    --------
    >>> from grayzone.solvers.minimax.aims import Aim
    >>> Aim(errors=(0.5, 0.5)).bounds((2.5, 1.5))
    (0.8, 0.5)
    """

    errors: Pair = (0.0, 0.0)
    loose: Pair = (0.0, 0.0)
    stakes: Pair | None = None
    required: Required | None = None

    @property
    def is_even(self) -> bool:
        """Whether both classes are as many standard deviations from the threshold."""
        alike = self.errors[0] == self.errors[1]
        return alike and self.stakes is None and self.required is None

    def bounds(self, kappas: Pair) -> Pair:
        """Worst-case accuracies of the classes y and x, whatever moments of the set are true."""
        return bound_of(kappas[0] - self.errors[0]), bound_of(kappas[1] - self.errors[1])

    def ratio(self, frontier: Tradeable, prior: Any) -> float:
        """kappa_x / kappa_y, where on a frontier to be.

        A requirement that cannot be met gets as near as the frontier allows; see :meth:`missed`.
        """
        if self.is_even or frontier.separable:
            return 1.0
        if self.required is not None:
            return self._ratio_required(frontier, self.required)
        if self.stakes is None:
            return _root(lambda ratio: self._lead(frontier.kappas(ratio)))
        return self._cheapest(frontier, prior)

    def missed(self, bounds: Pair) -> bool:
        """Whether these bounds fall short of the requirement."""
        short = self.required is not None and self.required.bound - bounds[self.required.place]
        return bool(short > _MISSED)

    def worth(self, bounds: Pair, prior: Any) -> float:
        """How good two bounds are: what is to be large, up to a constant."""
        if self.required is not None:
            place, asked, _ = self.required
            return min(bounds[place], asked) + bounds[1 - place]
        if self.stakes is None:
            return min(bounds)
        return float(self._prices(prior) @ bounds)

    def _prices(self, prior: Any) -> NDArray[np.float64]:
        assert self.stakes is not None
        return np.asarray(prior) * (np.asarray(self.stakes) / max(self.stakes))

    def _lead(self, kappas: Pair) -> float:
        """What class x has more standard deviations of than class y."""
        if min(kappas) == inf:
            return 0.0
        return (kappas[1] - self.errors[1]) - (kappas[0] - self.errors[0])

    def _ratio_required(self, frontier: Tradeable, required: Required) -> float:
        place, asked, _ = required
        kappa = np.sqrt(asked / (1.0 - asked)) + self.errors[place]
        # the bound of class x rises with the ratio, that of class y falls
        sign = 1.0 if place == 1 else -1.0
        return _root(lambda ratio: sign * (frontier.kappas(ratio)[place] - kappa))

    def _cheapest(self, frontier: Tradeable, prior: Any) -> float:
        price = self._prices(prior)

        def cost(log_ratio: float) -> float:
            return -float(price @ self.bounds(frontier.kappas(float(np.exp(log_ratio)))))

        looked_at = _RATIOS
        for _ in range(2):
            best = looked_at[int(np.argmin([cost(t) for t in looked_at]))]
            step = looked_at[1] - looked_at[0]
            looked_at = best + _CLOSER
        around = best - step, best + step
        return float(np.exp(minimize_scalar(cost, bounds=around, method="bounded").x))


def _root(rising: Any) -> float:
    """Ratio at which a rising function is zero, or the one that is nearest."""

    def value(log_ratio: float) -> float:
        return float(rising(float(np.exp(log_ratio))))

    if value(-_FARTHEST) >= 0.0:
        return float(np.exp(-_FARTHEST))
    if value(_FARTHEST) <= 0.0:
        return float(np.exp(_FARTHEST))
    return float(np.exp(brentq(value, -_FARTHEST, _FARTHEST, xtol=1e-12)))


def required_of(given: Any, known: list[Any]) -> Required | None:
    """Check a required bound, ``{label: bound}`` or None, of the classes that there are."""
    if given is None:
        return None
    if not (isinstance(given, Mapping) and len(given) == 1 and next(iter(given)) in known):
        raise ValueError(
            f"required_bound must be a mapping of one of the classes {known} to a number; got "
            f"{given!r}."
        )
    label, value = next(iter(given.items()))
    if not 0.0 < check_number("required_bound", value) < 1.0:
        raise ValueError(f"required_bound must be between 0 and 1; got {value!r}.")
    return Required(known.index(label), float(value), given)


def moment_errors(given: Any, known: list[Any]) -> tuple[Pair, Pair]:
    """Check errors of moments; return those of the means and of the covariances, by class.

    Examples
    --------
    >>> from grayzone.solvers.minimax.aims import moment_errors
    >>> moment_errors({"no": 0.1, "yes": (0.2, 0.5)}, ["no", "yes"])
    ((0.1, 0.2), (0.0, 0.5))
    """
    if isinstance(given, Mapping):
        if len(known) != 2 or set(given) != set(known):
            raise ValueError(
                "moment_error is one for all classes, or a mapping of both classes of two; the "
                f"classes are {known}, got {given!r}."
            )
        pairs = [_one_error(given[label]) for label in known]
    else:
        pairs = [_one_error(given)] * 2
    return (pairs[0][0], pairs[1][0]), (pairs[0][1], pairs[1][1])


def check_moment_error(given: Any) -> None:
    """Check errors of moments as far as that can be without knowing the classes."""
    for value in given.values() if isinstance(given, Mapping) else [given]:
        _one_error(value)


def _one_error(value: Any) -> Pair:
    if value is None:
        return 0.0, 0.0
    parts = value if isinstance(value, (tuple, list, np.ndarray)) else (value, 0.0)
    if len(parts) != 2:
        raise ValueError(
            "moment_error is how far a mean may be off, or a pair of that and of how far the "
            f"covariance may be; got {value!r}."
        )
    mean, covariance = (check_number("moment_error", part) for part in parts)
    if min(mean, covariance) < 0.0:
        raise ValueError(f"moment_error must be >= 0; got {value!r}.")
    return mean, covariance
