r"""The kink of the truncated loss by the method of multipliers.

The loss is smooth but for a hinge, :math:`h(u) = r(u) + s (u - F)_+` with :math:`s = \sigma(F)` and
r of slope :math:`\sigma(\max(u, F)) - s`. The hinge is the largest of alpha (u - F) over alpha in
[0, s]; with a proximal term around known multipliers m,

.. math:: \max_{0 \le \alpha \le s}\ \alpha (u - F) - \tfrac{\rho}{2} (\alpha - m)^2,
          \qquad \alpha = \mathrm{clip}(m + (u - F) / \rho, 0, s),

it has a continuous slope, and its minimum gives the next m (Rockafellar's proximal method of
multipliers). Whatever rho is the multipliers tend to those of the kink; with rho ever smaller they
do so faster than any geometric series, and a minimiser of the smooth problem satisfies the
conditions of the dual exactly: what is left of the gap is in the hinges alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from grayzone.numerics.losses import TruncatedLogistic, sigmoid, softplus

Array = Any


@dataclass(frozen=True)
class Hinged:
    """The truncated loss around multipliers of its hinges; rows without a kink are as they are.

    Attributes
    ----------
    exact : TruncatedLogistic
        The loss.
    known : array of shape (n,)
        Multipliers of the hinges, in [0, s].
    width : float
        The weight rho of the proximal term, in units of margins.
    """

    exact: TruncatedLogistic
    known: Array
    width: float

    def hinge(self, u: Array) -> Array:
        """Multipliers of the hinges at margins u."""
        exact = self.exact
        raw = self.known + (u - exact.finite_floor) / self.width
        return np.clip(raw, 0.0, exact.slope_at_floor)

    def value(self, u: Array) -> Array:
        """Loss of each margin."""
        exact = self.exact
        above, rise = np.maximum(u, exact.floor), u - exact.finite_floor
        a, s = self.hinge(u), exact.slope_at_floor
        rest = softplus(above) - s * np.maximum(rise, 0.0)
        return rest + a * rise - 0.5 * self.width * (a - self.known) ** 2

    def slopes(self, u: Array) -> tuple[Array, Array]:
        """Slope and curvature."""
        exact = self.exact
        s = exact.slope_at_floor
        raw = self.known + (u - exact.finite_floor) / self.width
        slope = sigmoid(np.maximum(u, exact.floor)) - s + np.clip(raw, 0.0, s)
        bend = exact.slopes(u)[1] + ((raw > 0.0) & (raw < s)) / self.width
        return np.maximum(slope, 0.0), bend

    def left(self, u: Array) -> Array:
        """What each hinge adds to a duality gap."""
        rise = u - self.exact.finite_floor
        return self.exact.slope_at_floor * np.maximum(rise, 0.0) - self.hinge(u) * rise
