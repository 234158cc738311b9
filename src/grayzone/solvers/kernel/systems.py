r"""Newton systems of a kernel, (K + lambda W) a = r, and how one factor serves several of them.

W is the diagonal matrix of :math:`1/(w\omega)`, from the bends of the losses. Where they change
little everywhere, the factor of an earlier W is a preconditioner (:class:`Factor`). Where rows of a
narrow band change much and the others next to nothing, the others are factorised once, and what is
left of the band is a small system of its own (:class:`Bordered`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from array_api_compat import device

from grayzone.numerics.namespace import array_namespace
from grayzone.solvers.kernel.device_matrix import KernelSystem, KernelValues, scaled

Array = Any

_SPREAD = 30.0  # ratio of the weights' changes up to which a factor still serves
_INNER, _PRODUCTS = 1e-3, 16  # accuracy of systems solved with a factor of another, most products
_DRIFT = 0.1  # relative change of the bends up to which rows are not factorised again
_MOST_BORDER = 3.0  # rows of a border for each of the core


class SlopeModel(NamedTuple):
    """Slopes (n,) of all rows, y (c + omega u), and their weights."""

    rise: Array  # y c
    weight: Array  # w omega
    omega: Array

    @property
    def used(self) -> Array:
        """Rows whose slope can change."""
        return self.weight > 0

    def right_hand_sides(self) -> Array:
        """Those of the slopes and of the intercept (n, 2)."""
        xp, used = array_namespace(self.rise), self.used
        first = xp.where(used, self.rise / xp.where(used, self.omega, 1.0), 0.0)
        return xp.stack([first, xp.astype(used, xp.float64)], axis=1)


class Factor:
    """A system that is factorised, and those near it that are solved with its help.

    The quality of a factor as a preconditioner is the ratio of the two matrices W. A product with K
    and a solution cost a hundredth of a factor.
    """

    def __init__(
        self, values: KernelValues, penalty: float, model: SlopeModel, often: bool = False
    ) -> None:
        xp = array_namespace(model.weight)
        self.values, self.penalty, self.weight = values, penalty, model.weight
        self.places = xp.nonzero(model.used)[0]
        self.root = xp.sqrt(xp.take(model.weight, self.places))
        self.system = values.system(self.places, self.root, penalty, often)
        self.per_intercept: Array | None = None

    def _precondition(self, r: Array) -> Array:
        xp = array_namespace(r)
        some = self.root[:, None] * xp.take(r, self.places, axis=0)
        solved = self.root[:, None] * self.system.solve(some)
        return scattered(solved, self.places, r.shape[0])

    def solved(self, model: SlopeModel) -> Array:
        """Solution (n, 2) of the system that was factorised."""
        solved = self._precondition(model.right_hand_sides())
        self.per_intercept = solved[:, 1]
        return solved

    def serves(self, model: SlopeModel) -> bool:
        """Whether the factor is near enough to another system of the same rows."""
        xp = array_namespace(model.weight)
        used = self.weight > 0
        if bool(xp.any(used != model.used)):
            return False
        ratio = xp.where(used, model.weight / xp.where(used, self.weight, 1.0), 1.0)
        return float(xp.max(ratio)) / float(xp.min(ratio)) <= _SPREAD

    def improved(self, model: SlopeModel, coef: Array, intercept: Array) -> Array | None:
        """Solve another system by conjugate gradients; None where that takes too many steps.

        They start where the last step led, to ``coef`` and ``intercept``.
        """
        xp, used = array_namespace(coef), model.used[:, None]
        weight = xp.where(used, model.weight[:, None], 1.0)
        ridge = xp.where(used, self.penalty / weight, 0.0)

        def times(v: Array) -> Array:
            return xp.where(used, self.values.product(v), 0.0) + ridge * v

        slopes = coef + intercept * self.per_intercept
        x = xp.where(used, xp.stack([slopes, self.per_intercept], axis=1), 0.0)
        r = model.right_hand_sides() - times(x)
        z = self._precondition(r)
        p, rz = z, xp.sum(r * z, axis=0)
        goal = _INNER**2 * rz
        for _ in range(_PRODUCTS):
            q = times(p)
            step = rz / xp.clip(xp.sum(p * q, axis=0), min=1e-300)
            x, r = x + step * p, r - step * q
            z = self._precondition(r)
            rz, before = xp.sum(r * z, axis=0), rz
            if bool(xp.all(rz <= goal)):
                self.per_intercept = x[:, 1]
                return x
            p = z + (rz / xp.clip(before, min=1e-300)) * p
        return None


class Bordered:
    r"""Rows that are factorised once, the core, bordered by rows that come and go.

    With :math:`K_{cc} + \lambda W_c = D^{-1}LL'D^{-1}` and :math:`T = L^{-1}DK_{cb}` a system of
    core and border is one of the border alone,

    .. math:: (K_{bb} - T'T + \lambda W_b)\,a_b = r_b - T'L^{-1}D r_c.

    The bends of the core stay as they were: the slopes' model is a line through where they are now,
    not quite a tangent.

    Parameters
    ----------
    values : KernelValues
        The kernel.
    penalty : float
        The penalty lambda.
    model : SlopeModel
        Slopes, of which the core keeps the bends.
    core, border : array of bool of shape (n,)
        Rows, none of them in both.
    """

    def __init__(
        self, values: KernelValues, penalty: float, model: SlopeModel, core: Array, border: Array
    ) -> None:
        xp = array_namespace(model.weight)
        self.penalty, self.core, self.border, self.omega = penalty, core, border, model.omega
        self.inside, self.outside = xp.nonzero(core)[0], xp.nonzero(border)[0]
        self.root = xp.sqrt(xp.take(model.weight, self.inside))
        self.system = values.system(self.inside, self.root, penalty, often=True)
        across = values.between(self.inside, self.outside)
        across *= self.root[:, None]
        self.across = self.system.forward(across)
        self.left = values.between(self.outside, self.outside)
        self.left -= xp.matmul(self.across.T, self.across)

    @staticmethod
    def pays(values: KernelValues, core: Array, border: Array) -> bool:
        """Whether the core is large enough, and what a border takes fits where K would."""
        c, b = (int(array_namespace(m).count_nonzero(m)) for m in (core, border))
        room = (2 if values.kept is not None else 1) * core.shape[0] ** 2
        return 0 < b <= _MOST_BORDER * c and c * c + c * b + 4 * b * b <= room

    def serves(self, model: SlopeModel, log: Array) -> bool:
        """Whether no other rows are used, and the core is still logarithmic and bends as before."""
        xp = array_namespace(log)
        if bool(xp.any((self.core & ~log) | (model.used & ~self.core & ~self.border))):
            return False
        drift = xp.abs(model.omega - self.omega) > _DRIFT * self.omega
        return not bool(xp.any(self.core & drift))

    def solved(self, model: SlopeModel, scores: Array) -> Array:
        """Solution (n, 2) of a system, whose rows have these scores now."""
        xp, n = array_namespace(scores), scores.shape[0]
        rhs = self._through(model, scores).right_hand_sides()
        first = self.system.forward(self.root[:, None] * xp.take(rhs, self.inside, axis=0))
        used = xp.nonzero(xp.take(model.used, self.outside))[0]
        places, across = xp.take(self.outside, used), xp.take(self.across, used, axis=1)
        root = xp.sqrt(xp.take(model.weight, places))
        left = xp.take(rhs, places, axis=0) - xp.matmul(across.T, first)
        found = root[:, None] * self._border(used, root).solve(root[:, None] * left)
        first -= xp.matmul(across, found)
        core = self.root[:, None] * self.system.backward(first)
        return scattered(found, places, n) + scattered(core, self.inside, n)

    def _through(self, model: SlopeModel, scores: Array) -> SlopeModel:
        """Model whose core has the bends that were factorised: y (c + omega u), u = -y scores."""
        xp = array_namespace(scores)
        omega = xp.where(self.core, self.omega, model.omega)
        return model._replace(rise=model.rise - (model.omega - omega) * scores, omega=omega)

    def _border(self, used: Array, root: Array) -> KernelSystem:
        xp = array_namespace(root)
        part = xp.take(xp.take(self.left, used, axis=0), used, axis=1)
        # the system it borders has a factor: only rounding can leave this one without
        return KernelSystem(scaled(part, root, self.penalty), definite=True)


def scattered(values: Array, places: Array, n: int) -> Array:
    """Rows of values (m, k) at places, which ascend, of an array (n, k) of zeros."""
    xp = array_namespace(values)
    m = values.shape[0]
    if m == n:
        return values
    if m == 0:
        return xp.zeros((n, values.shape[1]), dtype=xp.float64, device=device(values))
    every = xp.arange(n, dtype=places.dtype, device=device(places))
    at = xp.clip(xp.searchsorted(places, every), max=m - 1)
    there = xp.take(places, at) == every
    return xp.where(there[:, None], xp.take(values, at, axis=0), 0.0)
