r"""From costs to decisions: cost matrices, thresholds, gray zones and Bayes' rule.

Everything here follows Bayes' decision rule. With ``cost[i, j]`` the cost of deciding ``j``
when the truth is ``i``, the best decision for a row with class probabilities ``p`` is

.. math:: \arg\min_j \sum_i p_i \, \mathrm{cost}[i, j],

which for two classes is rule (1) of Hérault & Grandvalet (2007): decide for the positive
class if and only if :math:`p \ge C^- / (C^+ + C^-)`. The positive class is ``classes[1]``.
:class:`grayzone.BayesDecisionClassifier` lets any classifier decide so.

The functions on probabilities run on any array library that follows the array API standard
and answer in the library and on the device of the probabilities. Costs and labels are few:
they are NumPy arrays. Costs of each row, :func:`cost_matrices`, are as many as the rows, and stay
where they are.

References
----------
R. Hérault and Y. Grandvalet, "Sparse probabilistic classifiers", ICML 2007.

C. K. Chow, "On optimum recognition error and reject tradeoff", IEEE Transactions on
Information Theory, 1970.
"""

from grayzone.decision.costs import class_prior, cost_matrix, reject_costs, threshold_from_costs
from grayzone.decision.example_costs import cost_matrices, row_stakes, row_thresholds
from grayzone.decision.logs import rewards_from_logs
from grayzone.decision.near import near_range, near_threshold
from grayzone.decision.priors import EstimatedPrior, adjust_prior, estimate_prior
from grayzone.decision.ranges import threshold_range
from grayzone.decision.rules import action_costs, action_labels, bayes_decision
from grayzone.decision.zones import zone_around

__all__ = [
    "EstimatedPrior",
    "action_costs",
    "action_labels",
    "adjust_prior",
    "bayes_decision",
    "class_prior",
    "cost_matrices",
    "cost_matrix",
    "estimate_prior",
    "near_range",
    "near_threshold",
    "reject_costs",
    "rewards_from_logs",
    "row_stakes",
    "row_thresholds",
    "threshold_from_costs",
    "threshold_range",
    "zone_around",
]
