"""Pictures of decisions: cost against threshold, reliability in the zone, risk against coverage.

And, for two features, the decisions themselves. Each display follows scikit-learn's convention:
`from_estimator` and `from_predictions` compute and draw, `plot` draws again, and what was drawn is
kept in attributes that end in an underscore. Matplotlib is imported when something is drawn; it
comes with ``pip install grayzone[plot]``.

References
----------
R. Hérault and Y. Grandvalet, "Sparse probabilistic classifiers", ICML 2007.

J. Zhu and T. Hastie, "Support vector machines, kernel logistic regression and boosting", Multiple
Classifier Systems 2002.
"""

from grayzone.displays.cost_curve import CostCurveDisplay
from grayzone.displays.decision_region import DecisionRegionDisplay
from grayzone.displays.risk_coverage import RiskCoverageDisplay
from grayzone.displays.zone_reliability import ZoneReliabilityDisplay

__all__ = [
    "CostCurveDisplay",
    "DecisionRegionDisplay",
    "RiskCoverageDisplay",
    "ZoneReliabilityDisplay",
]
