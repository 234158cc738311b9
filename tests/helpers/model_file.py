"""A model file in the folder of a test, and whether it is refused."""

from pathlib import Path

import pytest

import grayzone
from fuzz.model_parts import held_in, small_model
from grayzone.tables.errors import UserError

FILE = Path("model.skops")


def saved(name="logistic-regression", kind="numbers", n_classes=2, **asked):
    """Write a small model, and return what its file holds."""
    small_model(name, kind, n_classes, **asked).save(FILE)
    return held_in(FILE)


def refused(match):
    """Check that the file is refused, in one line."""
    with pytest.raises(UserError, match=match) as caught:
        grayzone.load_model(FILE)
    assert len(str(caught.value)) < 500
    assert "\n" not in str(caught.value)


def classifier(held):
    """Return the classifier of the first member."""
    member = next(iter(held["estimator"][-1].members_.values()))
    return member.steps[-1][1] if hasattr(member, "steps") else member
