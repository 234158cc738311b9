"""One file an estimator: parameters, and the walk from rows to fitted attributes."""
