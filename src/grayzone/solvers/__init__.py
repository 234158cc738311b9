"""Solvers against design x loss: one loop, one certificate, a step strategy a file."""

from grayzone.solvers.certificate import Certificate, State, certify
from grayzone.solvers.choose import choose, minimise, minimise_problem, minimise_streamed
from grayzone.solvers.loop import Record, Solution, Solver, Status, solve
from grayzone.solvers.problem import Problem
from grayzone.solvers.truncated.active_set import ActiveSet
from grayzone.solvers.truncated.ascent import Ascent
from grayzone.solvers.truncated.decomposed import Decomposed
from grayzone.solvers.truncated.interior_point import Quadratic, interior_point
from grayzone.solvers.truncated.primal import Primal
from grayzone.solvers.truncated.spec import TruncatedSpec

__all__ = [
    "ActiveSet",
    "Ascent",
    "Certificate",
    "Decomposed",
    "Primal",
    "Problem",
    "Quadratic",
    "Record",
    "Solution",
    "Solver",
    "State",
    "Status",
    "TruncatedSpec",
    "certify",
    "choose",
    "interior_point",
    "minimise",
    "minimise_problem",
    "minimise_streamed",
    "solve",
]
