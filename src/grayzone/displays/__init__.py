"""Pictures of decisions: cost and net benefit against the threshold, reliability, risk.

For two features, the decisions themselves; for minimax machines, their bounds and the weights of
the features. Each display follows scikit-learn's convention: `from_estimator` and, of numbers,
`from_predictions`, `from_paths` or `from_weights` compute and draw, `plot` draws again, and what
was drawn is kept in attributes that end in an underscore. Matplotlib is imported when something is
drawn; it comes with ``pip install grayzone[plot]``.

References
----------
R. Hérault and Y. Grandvalet, "Sparse probabilistic classifiers", ICML 2007.

J. Zhu and T. Hastie, "Support vector machines, kernel logistic regression and boosting", Multiple
Classifier Systems 2002.

T. Strohmann, G. Grudic, A. Belitski and D. DeCoste, "Sparse greedy minimax probability machine
classification", NIPS 16, 2004.
"""

from grayzone.displays.bound_path import BoundPathDisplay
from grayzone.displays.cost_curve import CostCurveDisplay
from grayzone.displays.decision_region import DecisionRegionDisplay
from grayzone.displays.feature_weights import FeatureWeightDisplay
from grayzone.displays.net_benefit import NetBenefitDisplay
from grayzone.displays.risk_coverage import RiskCoverageDisplay
from grayzone.displays.zone_reliability import ZoneReliabilityDisplay

__all__ = [
    "BoundPathDisplay",
    "CostCurveDisplay",
    "DecisionRegionDisplay",
    "FeatureWeightDisplay",
    "NetBenefitDisplay",
    "RiskCoverageDisplay",
    "ZoneReliabilityDisplay",
]
