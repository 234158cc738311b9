"""What an estimator is, to see whether a call that failed has changed it."""

import numpy as np


def frozen(estimator):
    """Return all an estimator is, arrays copied."""
    return {
        name: value.copy() if isinstance(value, np.ndarray) else value
        for name, value in vars(estimator).items()
    }


def assert_as_before(estimator, before):
    assert vars(estimator).keys() == before.keys()
    for name, value in before.items():
        now = vars(estimator)[name]
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(now, value)
        else:
            assert now is value or now == value
