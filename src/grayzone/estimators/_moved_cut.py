"""The threshold of two classes moved to where decisions of held-out rows cost the least.

Hérault & Grandvalet (2007, §5.1) choose it together with the penalty, "to correct for the bias in
estimated probabilities". Probabilities stay what they are; only the cut moves. The cut that is the
cheapest on some rows flatters itself there, so what a model costs with a moved cut is measured with
cuts that the rows of the other folds have chosen.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from grayzone.decision.costs import threshold_of
from grayzone.decision.zones import floor_of
from grayzone.estimators._gate import Yardstick
from grayzone.numerics.losses import sigmoid
from grayzone.sources.labelled import Labelled

Array = Any
Range = tuple[float, float]

# Log-odds between which a cut may lie.
ANYWHERE: Range = (-np.inf, np.inf)
# Sums of the same costs in another order differ by less than this share of them.
_ROUNDING = 1e-12


class Deciding(NamedTuple):
    """How rows that were held out are decided, and what that costs.

    Attributes
    ----------
    yardstick : Yardstick
        What the rows cost.
    rows : array of shape (m,)
        Their numbers, fold after fold; some may come several times.
    folds : array of shape (m,)
        Number of the fold that each belongs to.
    usual : float or None
        Log-odds of the threshold that the costs imply, from where cuts are moved; None where they
        are not.
    """

    yardstick: Yardstick
    rows: Array
    folds: Array
    usual: float | None = None

    @classmethod
    def of(cls, yardstick: Yardstick, held_out: list[Array]) -> Deciding:
        """Return decisions by Bayes' rule of rows that were held out in each fold."""
        folds = np.repeat(np.arange(len(held_out)), [rows.size for rows in held_out])
        return cls(yardstick, np.concatenate(held_out), folds)

    def with_cuts(self) -> Deciding:
        """Return decisions by moved cuts."""
        threshold = threshold_of(self.yardstick.costs)
        if not 0.0 < threshold < 1.0:
            raise ValueError(
                "tune_threshold=True needs costs of both kinds of error; these put the threshold "
                f"at {threshold:g}."
            )
        return self._replace(usual=-float(floor_of(threshold)))

    def paid(self, scores: Array, within: Range = ANYWHERE) -> Array:
        """Cost of each row: by Bayes' rule, or by a cut within some range of log-odds."""
        if self.usual is None:
            actions = self.yardstick.decided(self.rows, scores)
        else:
            actions, _ = self._crossed(scores, within)
        return self.yardstick.paid(self.rows, actions)

    def tuning(self, scores: Array, within: Range) -> dict[str, Any]:
        """Return where the cut of one model goes, and what that saves, for people to read."""
        assert self.usual is not None
        actions, cuts = self._crossed(scores, within)
        usual = (scores[:, 0] >= self.usual).astype(np.intp)
        before, after = (self.yardstick.paid(self.rows, taken) for taken in (usual, actions))
        verdict = self.yardstick.compare(self.rows, before, after, 0.0)
        chosen = self.best_cut(scores, within, np.ones(self.rows.size, dtype=bool))
        return {
            "threshold": float(sigmoid(np.array(chosen))),
            "threshold_of_costs": threshold_of(self.yardstick.costs),
            "fold_thresholds": sigmoid(cuts).tolist(),
            "gain": verdict.gain,
            "standard_error": verdict.standard_error,
        }

    def best_cut(self, scores: Array, within: Range, use: Array) -> float:
        """Return the cut of least cost of the rows in a mask; without any the usual one.

        Of several the one nearest to the usual cut, which is one of them.
        """
        assert self.usual is not None
        if not np.any(use):
            return self.usual
        values, prices = scores[use, 0], self._prices(self.rows[use])
        cuts, order = _cuts(values, self.usual, within), np.argsort(values)
        # what it costs more to decide for the positive class from the k-th value on
        more = np.append(np.cumsum(prices[order][::-1])[::-1], 0.0)
        more = more[np.searchsorted(values[order], cuts)]
        slack = _ROUNDING * float(np.sum(np.abs(prices)))
        good = cuts[more <= more.min() + slack]
        return float(good[np.argmin(np.abs(good - self.usual))])

    def _crossed(self, scores: Array, within: Range) -> tuple[Array, Array]:
        """Actions of all rows by cuts that the rows of other folds have chosen, and these cuts."""
        actions, cuts = np.empty(self.rows.size, dtype=np.intp), []
        for fold in range(int(self.folds[-1]) + 1):
            mine = self.folds == fold
            # a row of this fold may be in others, too
            others = ~np.isin(self.rows, self.rows[mine])
            cuts.append(self.best_cut(scores, within, others))
            actions[mine] = scores[mine, 0] >= cuts[-1]
        return actions, np.array(cuts)

    def _prices(self, rows: Array) -> Array:
        """Weighted costs of deciding for the positive class, less those of the negative one."""
        codes, costs = self.yardstick.codes[rows], self.yardstick.costs
        dearest = float(np.max(np.abs(costs)))  # no sum overflows
        return self.yardstick.weight[rows] * (costs[codes, 1] / dearest - costs[codes, 0] / dearest)


def range_of(caps: tuple[float, ...]) -> Range:
    """Return the log-odds between which two classes with these caps have their zone."""
    if len(caps) > 2:
        return ANYWHERE
    low, high = (-floor_of(cap) for cap in caps)
    return -float(low), float(high)


def check_tuning(search: Any, labelled: Labelled, n_folds: int) -> None:
    """Raise an error where there is no threshold to be moved, or nothing to choose it by."""
    reason = None
    if search.scoring is not None:
        reason = f"scoring=None, as it is the costs that choose; got scoring={search.scoring!r}"
    elif search.reject_cost is not None:
        reason = f"reject_cost=None, as it moves one threshold; got {search.reject_cost!r}"
    elif len(labelled.classes) != 2:
        reason = f"two classes; y has {len(labelled.classes)}"
    elif labelled.priced:
        reason = "costs that all rows share; example_costs give each a threshold of its own"
    elif n_folds < 2:
        reason = f"two folds or more, one to choose by and another to judge by; cv has {n_folds}"
    if reason is not None:
        raise ValueError(f"tune_threshold=True needs {reason}.")


def _cuts(values: Array, usual: float, within: Range) -> Array:
    """Return cuts within a range that tell values apart, its ends, and the usual one."""
    known = np.unique(values)
    between = known[:-1] + 0.5 * np.diff(known)
    ends = [end for end in within if np.isfinite(end)]
    all_and_none = [known[0], np.nextafter(known[-1], np.inf)]
    cuts = np.concatenate([between, all_and_none, ends])
    return np.append(cuts[(cuts >= within[0]) & (cuts <= within[1])], usual)
