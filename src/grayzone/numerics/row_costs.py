"""Costs of each row, in all the forms they are given in, as one array ``cost[row, true, decided]``.

Rows are many: their costs stay in the array library and on the device where they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from array_api_compat import device, is_array_api_obj
from numpy.typing import ArrayLike

from grayzone.numerics.checks import Array, as_amounts, as_numpy, check_named, listed
from grayzone.numerics.namespace import array_namespace, is_numpy_array


def cost_matrices(
    example_costs: Any,
    classes: ArrayLike,
    n_rows: int | None = None,
    *,
    some_stake: bool = True,
    name: str = "example_costs",
) -> Array:
    """Turn any form of `example_costs` into the array ``cost[row, true, decided]``.

    Parameters
    ----------
    example_costs : array-like of shape (n_samples, n_classes, n_classes) or mapping
        What decisions about each row cost:

        - an array ``cost[row, true, decided]``, classes in the order of `classes`. Right decisions
          can have a price, too;
        - a mapping ``{label: costs}``, naming every class: what it costs to misclassify each row
          if it has that label, an array of shape (n_samples,) or one number for all rows.
    classes : array-like of shape (n_classes,)
        The labels; the positive class of two is ``classes[1]``.
    n_rows : int, default=None
        How many rows there are; None: as many as have costs.
    some_stake : bool, default=True
        Whether it is an error that no decision about any row makes a difference.
    name : str, default="example_costs"
        What errors call them.

    Returns
    -------
    cost : array of shape (n_samples, n_classes, n_classes)
        In double precision, in the library and on the device of what was given.

    See Also
    --------
    cost_matrix : The same for costs that all rows share.
    row_thresholds : The thresholds these costs imply for two classes.

    Examples
    --------
    >>> from grayzone.decision import cost_matrices
    >>> cost_matrices({"bad": [500.0, 80.0], "good": 10.0}, classes=["bad", "good"])
    array([[[  0., 500.],
            [ 10.,   0.]],
    <BLANKLINE>
           [[  0.,  80.],
            [ 10.,   0.]]])
    """
    labels = as_numpy(classes)
    if isinstance(example_costs, Mapping):
        matrices = _of_mapping(example_costs, labels, n_rows, name)
    else:
        matrices = _amounts(example_costs, name)
        if matrices.ndim != 3 or tuple(matrices.shape[1:]) != (len(labels), len(labels)):
            rows = "n_samples" if n_rows is None else n_rows
            raise ValueError(
                f"{name} has shape {tuple(matrices.shape)}; expected ({rows}, {len(labels)}, "
                f"{len(labels)}), cost[row, true, decided] for the classes {listed(labels)}, or a "
                "mapping {label: costs of misclassifying each row}."
            )
        _check_rows(matrices, n_rows, name)
    if some_stake and matrices.shape[0] and len(labels) > 1 and not differ(matrices):
        raise ValueError(
            f"{name} make no difference: for every row, whatever the truth is, all decisions "
            "cost the same."
        )
    return matrices


def action_losses(
    rewards: Any,
    classes: ArrayLike,
    n_rows: int | None = None,
    *,
    beside: int = 0,
    name: str = "rewards",
) -> Array:
    r"""Turn rewards of rows and actions into what each action earns less than the row's best one.

    With :math:`R_{ia}` the reward R(a, x_i) of (4.1) of Le Roux (2017) that is
    :math:`\max_b R_{ib} - R_{ia}`: costs of a row whatever its class is.

    Parameters
    ----------
    rewards : array-like of shape (n_samples, 1, n_actions)
        Finite numbers, negative ones too, in any unit.
    classes : array-like of shape (n_classes,)
        The labels, whose actions come first.
    n_rows : int, default=None
        How many rows there are; None: as many as have rewards.
    beside : int, default=0
        How many actions there are beside the classes.
    name : str, default="rewards"
        What errors call them.

    Returns
    -------
    losses : array of shape (n_samples, 1, n_actions)
        In double precision, in the library and on the device of what was given.

    Examples
    --------
    >>> from grayzone.numerics.row_costs import action_losses
    >>> action_losses([[[1.0, 0.0, 0.8]], [[-2.0, 3.0, 0.8]]], classes=[0, 1], beside=1)
    array([[[0. , 1. , 0.2]],
    <BLANKLINE>
           [[5. , 0. , 2.2]]])
    """
    values, labels = _numbers(rewards, name), as_numpy(classes)
    n_actions = len(labels) + beside
    if values.ndim != 3 or values.shape[1] != 1 or values.shape[2] != n_actions:
        rows = "n_samples" if n_rows is None else n_rows
        last = ", and the undecided action last" if beside else ""
        raise ValueError(
            f"{name} has shape {_of_rows(values)}; expected ({rows}, {n_actions}): one column for "
            f"each of the classes {listed(labels)}{last}."
            + ("" if beside else " An action beside the classes takes an undecided_label.")
        )
    _check_rows(values, n_rows, name, "rewards")
    return array_namespace(values).max(values, axis=2, keepdims=True) - values


def _of_rows(values: Array) -> tuple[int, ...]:
    """Shape of rewards as they were given, without the axis that classes of costs have."""
    return tuple(size for axis, size in enumerate(values.shape) if axis != 1)


def costs_at(example_costs: Any, rows: Any) -> Any:
    """Return the costs of some rows, in the form that those of all are given in.

    Parameters
    ----------
    example_costs : array-like, mapping or None
        As in :func:`cost_matrices`.
    rows : slice or ndarray of ints
        Which rows.

    Returns
    -------
    costs : array, mapping or None
        Numbers that are those of all rows stay so.
    """
    if example_costs is None:
        return None
    if isinstance(example_costs, Mapping):
        return {label: costs_at(costs, rows) for label, costs in example_costs.items()}
    if not hasattr(example_costs, "shape") or hasattr(example_costs, "iloc"):
        example_costs = as_numpy(example_costs)
    return example_costs if example_costs.ndim == 0 else example_costs[rows, ...]


def differ(matrices: Array) -> bool:
    """Whether any decision about any row costs more than another."""
    xp = array_namespace(matrices)
    return bool(xp.any(xp.max(matrices, axis=2) > xp.min(matrices, axis=2)))


def _of_mapping(mapping: Mapping[Any, Any], labels: Any, n_rows: int | None, name: str) -> Array:
    """Spread what errors cost over the off-diagonal of each row's matrix."""
    check_named(mapping, labels, name)
    columns = {}
    for label in labels.tolist():
        own = f"{name}[{label!r}]"
        column = _amounts(mapping[label], own)
        if column.ndim == 2 and column.shape[1] == 1:
            column = column[:, 0]
        if column.ndim > 1:
            raise ValueError(
                f"{own} has shape {tuple(column.shape)}; expected one cost a row, or a number."
            )
        if column.ndim == 1:
            _check_rows(column, n_rows, own)
            n_rows = int(column.shape[0])
        columns[label] = column
    if n_rows is None:
        raise ValueError(
            f"{name} has one number for each class, and says of no row what it costs; give one of "
            "them as an array."
        )
    return _spread(list(columns.values()), n_rows)


def _spread(columns: list[Array], n_rows: int) -> Array:
    # numbers are NumPy's: an array of another library says where all are to be
    like = next((c for c in columns if not is_numpy_array(c)), columns[0])
    xp = array_namespace(*(c for c in columns if is_numpy_array(c) == is_numpy_array(like)))
    place, none = device(like), xp.zeros(n_rows, dtype=xp.float64, device=device(like))
    filled = []
    for column in columns:
        if not is_numpy_array(like) and is_numpy_array(column):
            column = xp.asarray(column, device=place)
        filled.append(none + column)
    return xp.stack(
        [
            xp.stack([none if j == k else column for j in range(len(filled))], axis=1)
            for k, column in enumerate(filled)
        ],
        axis=1,
    )


def _amounts(values: Any, name: str) -> Array:
    """Check finite numbers, none of them negative, and return them in double precision."""
    values = _doubles(values, name)
    xp = array_namespace(values)
    if not bool(xp.all((values >= 0.0) & (values < xp.inf))):
        as_amounts(values, name)  # which says where
    return values


def _numbers(values: Any, name: str) -> Array:
    """Check finite numbers, and return them in double precision."""
    values = _doubles(values, name)
    xp = array_namespace(values)
    if not bool(xp.all(xp.isfinite(values))):
        as_amounts(xp.abs(values), name)  # which says where
    return values


def _doubles(values: Any, name: str) -> Array:
    """Return numbers in double precision, wherever they are."""
    if not is_array_api_obj(values):
        values = as_numpy(values)
    if is_numpy_array(values) and values.dtype.kind not in "biuf":
        try:
            return values.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name} must be made of numbers; got {values!r}.") from error
    xp = array_namespace(values)
    return xp.astype(values, xp.float64, copy=False)


def _check_rows(values: Array, n_rows: int | None, name: str, what: str = "costs") -> None:
    if n_rows is not None and values.shape[0] != n_rows:
        raise ValueError(f"{name} has {what} of {values.shape[0]} rows; expected {n_rows}.")
