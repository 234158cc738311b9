"""Measurements: the papers' tables and figures, and the solvers beside other libraries."""
