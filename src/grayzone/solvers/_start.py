"""Where solvers start when they are given nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from grayzone.solvers._problem import Problem

Array = Any


def prior_coef(problem: Problem) -> Array:
    """Zero slopes, and the intercepts that give back the class priors."""
    coef = np.zeros((problem.n_outputs, problem.design.n_coef))
    if not problem.design.fit_intercept:
        return coef
    mass = np.bincount(problem.margins.codes, problem.weight)
    log_mass = np.log(mass)
    coef[:, -1] = log_mass[1] - log_mass[0] if problem.n_outputs == 1 else log_mass - log_mass.mean()
    return coef
