"""The multinomial log-loss, put together from margins and pointwise losses: what laws are about."""

from array_api_compat import array_namespace

from grayzone.numerics.losses import TruncatedLogistic, xlogx
from grayzone.numerics.margins import SoftmaxMargin, output_pairs


class Multinomial:
    r"""Multinomial log-loss with a cap on each class: :math:`\max(-\log p_y, -\log c_y)`.

    Rows whose own class already has probability ``c_y`` or more are content. For two classes it is
    the truncated logistic loss with caps ``p_max`` and ``1 - p_min``. It is convex: the
    composition of :class:`TruncatedLogistic` with the convex margin of the softmax.

    Parameters
    ----------
    own : boolean array of shape (n, K)
        The own class of each row.
    floor : array of shape (n,)
        ``-logit(c_y)`` of each row.

    """

    def __init__(self, own, floor) -> None:
        self.margin = SoftmaxMargin(own)
        self.pointwise = TruncatedLogistic(floor)

    def value(self, scores):
        """Loss of each row of scores."""
        return self.pointwise.value(self.margin.margin(scores))

    def slope(self, scores):
        """Gradient in the scores, (n, K)."""
        return self.margin.pull(scores, self.pointwise.slope(self.margin.margin(scores)))

    def curvature(self, scores):
        """Hessian in the scores, (n, K, K), away from the kink."""
        xp = array_namespace(scores)
        u = self.margin.margin(scores)
        weights = self.margin.second_order(
            scores, self.pointwise.curvature(u), self.pointwise.slope(u)
        )
        outputs = range(self.margin.n_outputs)
        by_pair = {pair: weights[:, i] for i, pair in enumerate(output_pairs(len(outputs)))}
        rows = [
            xp.stack([by_pair[max(k, m), min(k, m)] for m in outputs], axis=-1) for k in outputs
        ]
        return xp.stack(rows, axis=-2)

    def conjugate(self, duals):
        r"""Conjugate at duals that sum to zero, with only the own class negative.

        With mass a on the other classes, :math:`h^*(a) + \sum_{k \ne y} \alpha_k \log(\alpha_k/a)`.
        """
        xp = array_namespace(duals)
        given = xp.where(self.margin.own, 0.0, duals)
        a = xp.sum(given, axis=1)
        value = self.pointwise.conjugate(a) + xp.sum(xlogx(given), axis=1) - xlogx(a)
        balance = xp.sum(duals, axis=1)
        inside = xp.all(given >= 0, axis=1) & (xp.abs(balance) <= 1e-12 * (1.0 + a))
        return xp.where(inside, value, xp.inf)

    def fenchel_young(self, scores, duals):
        """Fenchel-Young loss of each row."""
        return self.margin.fenchel_young(self.pointwise, scores, duals)
