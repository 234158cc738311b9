"""What decisions cost, and how far probabilities can be trusted inside the gray zone.

`expected_cost` and `selective_risk` judge decisions, "undecided" included; `net_benefit` counts
them in true positives, as decision curves do; `zone_log_loss`, `zone_brier` and
`zone_calibration_error` judge probabilities where they matter, around the decision threshold;
`cost_curve`, `net_benefit_curve` and `risk_coverage_curve` are the curves behind the displays
of the same names.

Labels and costs are handled in NumPy; probabilities may come from any array library that
follows the array API standard. All results are Python floats or NumPy arrays.

References
----------
R. Hérault and Y. Grandvalet, "Sparse probabilistic classifiers", ICML 2007.
"""

from grayzone.metrics.curves import CostCurve, RiskCoverageCurve, cost_curve, risk_coverage_curve
from grayzone.metrics.net_benefit import NetBenefitCurve, net_benefit, net_benefit_curve
from grayzone.metrics.proper_scores import zone_brier
from grayzone.metrics.scorer import CostScorer, make_cost_scorer
from grayzone.metrics.scores import (
    SelectiveRisk,
    expected_cost,
    savings_score,
    selective_risk,
    zone_calibration_error,
    zone_log_loss,
)

__all__ = [
    "CostCurve",
    "CostScorer",
    "NetBenefitCurve",
    "RiskCoverageCurve",
    "SelectiveRisk",
    "cost_curve",
    "expected_cost",
    "make_cost_scorer",
    "net_benefit",
    "net_benefit_curve",
    "risk_coverage_curve",
    "savings_score",
    "selective_risk",
    "zone_brier",
    "zone_calibration_error",
    "zone_log_loss",
]
