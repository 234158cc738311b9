"""A pipeline that knows the truth: probabilities are a function of the table."""

import numpy as np
from scipy.special import expit


class Knowing:
    """Asked like a fitted pipeline; counts the rows that it is asked of."""

    def __init__(self, log_odds):
        self.log_odds, self.asked = log_odds, 0

    def predict_proba(self, table):
        self.asked += len(table)
        scores = np.asarray(self.log_odds(table), dtype=float)
        if scores.ndim == 1:
            return np.column_stack([expit(-scores), expit(scores)])
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)
