"""Numbers, labels and weights as callers give them: what is taken and what is refused."""

import math
import re

import numpy as np
import pytest

from grayzone.numerics.checks import (
    as_amounts,
    as_labels,
    check_integer,
    check_number,
    check_weights,
    encode_labels,
)


@pytest.mark.parametrize("value", [1, 2.5, np.float32(0.5), np.int64(3)])
def test_numbers_of_every_kind(value):
    got = check_number("C", value, above=0.0)
    assert isinstance(got, float)
    assert got == value


@pytest.mark.parametrize("value", [0.0, -1, math.nan, math.inf, 10**400, True, "1", None, [1.0]])
def test_what_is_no_finite_number_above_zero(value):
    message = re.escape(f"C must be a finite number > 0; got {value!r}")
    with pytest.raises(ValueError, match=message):
        check_number("C", value, above=0.0)


@pytest.mark.parametrize("value", [1, np.int32(7), 10**400])
def test_whole_numbers(value):
    got = check_integer("max_iter", value, least=1)
    assert isinstance(got, int)
    assert got == value


@pytest.mark.parametrize("value", [0, 2.5, 2.0, math.inf, True, None])
def test_what_is_no_positive_whole_number(value):
    message = re.escape(f"max_iter must be an integer >= 1; got {value}")
    with pytest.raises(ValueError, match=message):
        check_integer("max_iter", value, least=1)


def test_labels_of_python_objects_become_one_kind():
    assert as_labels(np.asarray(["a", "bcd"], dtype=object), "y").dtype == "<U3"
    assert as_labels(np.asarray([1, 2.5], dtype=object), "y").dtype == np.float64
    assert as_labels([[1], [2]], "y").tolist() == [1, 2]
    with pytest.raises(ValueError, match=r"y must be one-dimensional; got shape \(1, 2\)"):
        as_labels([[1, 2]], "y")


def test_labels_are_found_in_any_order():
    found = encode_labels(np.asarray([3, 1, 2, 3]), np.asarray([3, 1, 2]), "y")
    assert found.tolist() == [0, 1, 2, 0]
    with pytest.raises(ValueError, match=r"y contains \[0, 9\], not among the labels \[3, 1, 2\]"):
        encode_labels(np.asarray([3, 9, 0]), np.asarray([3, 1, 2]), "y")
    with pytest.raises(ValueError, match=r"y holds strings but the labels \[3\] are numbers"):
        encode_labels(np.asarray(["3"]), np.asarray([3]), "y")


@pytest.mark.parametrize(
    ("values", "owners", "message"),
    [
        (-0.5, None, r"costs must not be negative; got -0.5\."),
        ([[0, 1], [0, -1]], None, r"costs must not be negative; got -1 in row 1\."),
        ([1, math.inf], ["a", "b"], r"costs must be finite; got inf for 'b'\."),
        (["dear"], None, r"costs must be made of numbers; got \['dear'\]"),
        ([[0, 1], [1]], None, r"costs must be made of numbers"),
    ],
)
def test_amounts_that_are_refused_are_named(values, owners, message):
    with pytest.raises(ValueError, match=message):
        as_amounts(values, "costs", owners)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], r"sample_weight must have shape \(2,\), one weight a row; got shape \(1,\)"),
        ([1.0, -1.0], r"sample_weight must not be negative; got -1 in row 1"),
        ([1.0, math.nan], r"sample_weight must be finite; got nan in row 1"),
        ([1.0, "heavy"], r"sample_weight must be made of numbers"),
        ([0.0, 0.0], r"sample_weight must have a positive entry; all are zero"),
    ],
)
def test_errors_of_weights(weights, message):
    with pytest.raises(ValueError, match=message):
        check_weights(weights, 2)


def test_one_weight_for_all():
    np.testing.assert_array_equal(check_weights(2.0, 3), [2, 2, 2])
    np.testing.assert_array_equal(check_weights(None, 2), [1, 1])
