"""Linear models as tables of points, for systems that only take that."""

from __future__ import annotations

from grayzone.scorecards.card import Scorecard, scorecard
from grayzone.scorecards.effects import NoScorecardError

__all__ = ["NoScorecardError", "Scorecard", "scorecard"]
