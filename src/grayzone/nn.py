r"""Losses for networks: the truncated likelihood, the ramp and expected costs, for PyTorch.

What the estimators minimise over linear functions and kernels, as modules over any logits
(Hérault & Grandvalet (2007, §6) propose the truncated likelihood for networks; the bounds are those
of Le Roux (2017)). Two classes have one logit, or two; K classes have K. Labels are 0 to K − 1.

A row's margin is the log-odds against its own class, :math:`u = \log((1 - p_y) / p_y)`.

References
----------
R. Hérault and Y. Grandvalet, "Sparse probabilistic classifiers", ICML 2007.

N. Le Roux, "Tighter bounds lead to improved classifiers", ICLR 2017.
"""

from __future__ import annotations

from typing import Any

import numpy as np

try:
    import torch
except ImportError as error:
    raise ImportError("grayzone.nn needs PyTorch: pip install 'grayzone[torch]'.") from error
from torch import Tensor, nn

from grayzone.decision.costs import cost_matrix, reject_costs
from grayzone.decision.ranges import cuts_of
from grayzone.decision.zones import binary_floors, binary_zone, ceilings_of, class_caps, floor_of
from grayzone.numerics.checks import check_choice, check_integer, is_real

__all__ = ["RampLoss", "TightBoundLoss", "TruncatedLoss"]

_REDUCTIONS = ("mean", "sum", "none")


class _Loss(nn.Module):
    """A loss of each row, weighed and reduced."""

    def __init__(self, n_classes: int, reduction: str) -> None:
        super().__init__()
        check_integer("n_classes", n_classes, least=2)
        check_choice("reduction", reduction, _REDUCTIONS)
        self.n_classes, self.reduction = int(n_classes), reduction

    def _reduced(self, losses: Tensor, weight: Tensor | None) -> Tensor:
        if weight is not None:
            if weight.shape != losses.shape:
                raise ValueError(
                    f"weight must have one entry for each of {len(losses)} rows; got the shape "
                    f"{tuple(weight.shape)}."
                )
            losses = losses * weight
        if self.reduction == "none":
            return losses
        if self.reduction == "sum" or weight is None:
            return losses.sum() if self.reduction == "sum" else losses.mean()
        return losses.sum() / weight.sum()

    def _labels(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the labels as places among classes."""
        if target.ndim == 2 and target.shape[1] == 1:
            target = target[:, 0]
        if target.shape != logits.shape[:1]:
            raise ValueError(
                f"target must have one label for each of {len(logits)} rows; got the shape "
                f"{tuple(target.shape)}."
            )
        labels = target.long()
        if len(labels) and not (
            bool(torch.all(labels == target))
            and int(labels.min()) >= 0
            and int(labels.max()) < self.n_classes
        ):
            raise ValueError(f"target must hold labels from 0 to {self.n_classes - 1}.")
        return labels


def _scores(logits: Tensor, n_columns: int) -> Tensor:
    """Return logits of each class, (n, n_columns); one of two is that of the second."""
    if logits.ndim == 1:
        logits = logits[:, None]
    if logits.ndim == 2 and logits.shape[1] == 1 and n_columns == 2:
        return torch.cat([torch.zeros_like(logits), logits], dim=1)
    if logits.ndim != 2 or logits.shape[1] != n_columns:
        one = " or (n_rows,)" * (n_columns == 2)
        raise ValueError(
            f"logits must have the shape (n_rows, {n_columns}){one}; got {tuple(logits.shape)}."
        )
    return logits


def _softplus(u: Tensor) -> Tensor:
    # torch's own is linear from 20 on, which is wrong by 2e-9
    return torch.logaddexp(u, torch.zeros_like(u))


class _ZoneLoss(_Loss):
    """A loss with floors; beyond its floor a row is certain enough and pulls no more."""

    floors: Tensor

    def __init__(self, zone: Any, costs: Any, n_classes: int, prior: Any, reduction: str) -> None:
        super().__init__(n_classes, reduction)
        classes = np.arange(self.n_classes)
        if self.n_classes == 2:
            cuts: Any = 0.5
            if is_real(zone):
                cuts = cuts_of(costs, classes, cost_matrix(costs, classes, prior))
            floors = binary_floors(*binary_zone(zone, cuts))
        else:
            floors = floor_of(class_caps(zone, classes))
        self.register_buffer("floors", torch.as_tensor(floors, dtype=torch.float64))

    def _margins(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the log-odds against each row's own class."""
        if self.n_classes == 2 and (logits.ndim == 1 or logits.shape[1] == 1):
            score = _scores(logits, 2)[:, 1]
            return torch.where(labels == 1, -score, score)
        scores = _scores(logits, self.n_classes)
        own = nn.functional.one_hot(labels, self.n_classes).bool()
        others = scores.masked_fill(own, -torch.inf).logsumexp(dim=1)
        return others - scores[own]

    def _row_floors(self, floors: Tensor | None, labels: Tensor, margins: Tensor) -> Tensor:
        if floors is None:
            return self.floors.to(margins)[labels]
        if floors.shape != margins.shape:
            raise ValueError(
                f"floors must have one entry for each of {len(margins)} rows; got the shape "
                f"{tuple(floors.shape)}."
            )
        return floors.to(margins)


class TruncatedLoss(_ZoneLoss):
    r"""The truncated logistic loss :math:`\log(1 + e^{\max(u, F_y)})`, Hérault & Grandvalet (8).

    The likelihood where decisions are made: a row whose class is more certain than its end of the
    gray zone pulls no more, so that a network spends its capacity on the others. Probabilities
    are faithful inside the zone and say only "beyond" outside it.

    Parameters
    ----------
    zone : float, pair, mapping, array-like or None, default=1.0
        As in :class:`grayzone.TruncatedLogisticRegression`: a half-width in log-odds around the
        threshold, ``(p_min, p_max)``, or a cap for each of K > 2 classes; None is the log-loss.
    costs : None, "balanced", mapping or array-like of shape (n_classes, n_classes), default=None
        What errors cost, which is where the threshold comes from; labels are 0 to K − 1.
    n_classes : int, default=2
        Number of classes.
    prior : array-like of shape (n_classes,), default=None
        Class frequencies, for ``costs="balanced"``.
    reduction : {"mean", "sum", "none"}, default="mean"
        What is returned of the losses of rows.

    Attributes
    ----------
    floors : tensor of shape (n_classes,)
        Floors F of each class, a buffer.

    See Also
    --------
    RampLoss : Rows beyond the far end of the zone are given up as well.
    grayzone.TruncatedLogisticRegression : Linear and kernel models of the same loss.

    References
    ----------
    R. Hérault and Y. Grandvalet, "Sparse probabilistic classifiers", ICML 2007.

    Examples
    --------
    >>> import torch
    >>> from grayzone.nn import TruncatedLoss
    >>> loss = TruncatedLoss(zone=1.0, reduction="none")
    >>> loss(torch.tensor([5.0, 0.0, -2.0]), torch.tensor([1, 1, 1])).round(decimals=4)
    tensor([0.3133, 0.6931, 2.1269])
    """

    def __init__(
        self,
        zone: Any = 1.0,
        costs: Any = None,
        n_classes: int = 2,
        prior: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(zone, costs, n_classes, prior, reduction)

    def forward(
        self,
        logits: Tensor,
        target: Tensor,
        floors: Tensor | None = None,
        weight: Tensor | None = None,
    ) -> Tensor:
        """Return the loss.

        Parameters
        ----------
        logits : tensor of shape (n_rows,), (n_rows, 1) or (n_rows, n_classes)
            Scores; one for two classes is the log-odds of class 1.
        target : tensor of shape (n_rows,)
            Labels, 0 to K − 1.
        floors : tensor of shape (n_rows,), optional
            Floors of rows whose costs, and so whose zones, are their own.
        weight : tensor of shape (n_rows,), optional
            Weights of rows.

        Returns
        -------
        tensor
            One number, or one for each row where nothing is reduced.
        """
        labels = self._labels(logits, target)
        margins = self._margins(logits, labels)
        floor = self._row_floors(floors, labels, margins)
        return self._reduced(_softplus(torch.maximum(margins, floor)), weight)


class RampLoss(_ZoneLoss):
    r"""The loss saturated on both sides, Hérault & Grandvalet (2007), §3.3.

    .. math:: \log(1 + e^{\min(\max(u, F_y), G_y)})

    Rows beyond the far end of the zone are given up: outliers pull no more. For two classes it is
    :math:`-\log \mathrm{clip}(p_y)` to the zone, the proper score of "the threshold lies in this
    range", and not convex: start from weights that were trained with :class:`TruncatedLoss`.

    Parameters
    ----------
    zone : float, pair, mapping or array-like, default=1.0
        As in :class:`TruncatedLoss`; it must lie inside (0, 1).
    costs : None, "balanced", mapping or array-like of shape (n_classes, n_classes), default=None
        What errors cost, which is where the threshold comes from; labels are 0 to K − 1.
    n_classes : int, default=2
        Number of classes.
    prior : array-like of shape (n_classes,), default=None
        Class frequencies, for ``costs="balanced"``.
    reduction : {"mean", "sum", "none"}, default="mean"
        What is returned of the losses of rows.

    Attributes
    ----------
    floors, ceilings : tensors of shape (n_classes,)
        F and G of each class, buffers.

    See Also
    --------
    TruncatedLoss : The convex loss to start from.
    grayzone.TruncatedLogisticRegression : Linear and kernel models, ``loss="ramp"``.

    References
    ----------
    R. Hérault and Y. Grandvalet, "Sparse probabilistic classifiers", ICML 2007.

    Examples
    --------
    >>> import torch
    >>> from grayzone.nn import RampLoss
    >>> loss = RampLoss(zone=1.0, reduction="none")
    >>> loss(torch.tensor([5.0, 0.0, -50.0]), torch.tensor([1, 1, 1])).round(decimals=4)
    tensor([0.3133, 0.6931, 1.3133])
    """

    ceilings: Tensor

    def __init__(
        self,
        zone: Any = 1.0,
        costs: Any = None,
        n_classes: int = 2,
        prior: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(zone, costs, n_classes, prior, reduction)
        ceilings = ceilings_of(self.floors.numpy())
        if not np.all(np.isfinite(ceilings)):
            raise ValueError(
                f"RampLoss saturates both sides and needs a zone inside (0, 1); got zone={zone!r}."
            )
        self.register_buffer("ceilings", torch.as_tensor(ceilings))

    def forward(
        self,
        logits: Tensor,
        target: Tensor,
        floors: Tensor | None = None,
        ceilings: Tensor | None = None,
        weight: Tensor | None = None,
    ) -> Tensor:
        """Return the loss; see :meth:`TruncatedLoss.forward`.

        Parameters
        ----------
        logits : tensor of shape (n_rows,), (n_rows, 1) or (n_rows, n_classes)
            Scores.
        target : tensor of shape (n_rows,)
            Labels, 0 to K − 1.
        floors, ceilings : tensors of shape (n_rows,), optional
            F and G of rows whose zones are their own.
        weight : tensor of shape (n_rows,), optional
            Weights of rows.

        Returns
        -------
        tensor
            One number, or one for each row where nothing is reduced.
        """
        labels = self._labels(logits, target)
        margins = self._margins(logits, labels)
        floor = self._row_floors(floors, labels, margins)
        ceiling = self.ceilings.to(margins)[labels] if ceilings is None else ceilings.to(margins)
        if ceiling.shape != margins.shape or not bool(torch.all(floor < ceiling)):
            raise ValueError("ceilings must have one entry for each row, above its floor.")
        return self._reduced(_softplus(torch.clamp(margins, floor, ceiling)), weight)


class TightBoundLoss(_Loss):
    r"""The expected cost of drawing decisions from the network's probabilities, and bounds of it.

    With probabilities :math:`p_a` of actions, costs :math:`c_{ya}` and rewards
    :math:`R_a = \max_b c_{yb} - c_{ya}`, the expected cost is
    :math:`J = \sum_a p_a c_{ya}`; given the probabilities :math:`\nu` of an earlier network it is
    bounded by

    .. math:: \max_b c_{yb} - \sum_a R_a \nu_a (1 + \log p_a - \log \nu_a) \ge J,

    with equality, and the same gradient, at :math:`p = \nu`: Algorithm 1 of Le Roux. For uniform
    :math:`\nu` it is the (cost-weighted) log-loss, up to a constant. Train with that first: from
    random weights J alone is flat.

    Parameters
    ----------
    costs : None, "balanced", mapping or array-like of shape (n_classes, n_classes), default=None
        What errors cost; labels are 0 to K − 1.
    reject_cost : float, mapping or array-like of shape (n_classes,), default=None
        Cost of the further action "undecided", whose logit is the last one; None: there is none.
    n_classes : int, default=2
        Number of classes.
    prior : array-like of shape (n_classes,), default=None
        Class frequencies, for ``costs="balanced"``.
    reduction : {"mean", "sum", "none"}, default="mean"
        What is returned of the losses of rows.

    Attributes
    ----------
    action_costs : tensor of shape (n_classes, n_actions)
        What each action costs, given the class; a buffer.

    See Also
    --------
    grayzone.TightBoundLogisticRegression : Linear models that minimise the same.
    TruncatedLoss : A likelihood where decisions are made.

    References
    ----------
    N. Le Roux, "Tighter bounds lead to improved classifiers", ICLR 2017.

    Examples
    --------
    >>> import torch
    >>> from grayzone.nn import TightBoundLoss
    >>> loss = TightBoundLoss(costs={0: 1.0, 1: 5.0})
    >>> logits, target = torch.tensor([0.0, 2.0]), torch.tensor([0, 1])
    >>> round(loss(logits, target).item(), 4)
    0.548
    >>> uniform = torch.full((2, 2), 0.5)
    >>> bool(loss(logits, target, previous=uniform) > loss(logits, target))
    True
    """

    action_costs: Tensor

    def __init__(
        self,
        costs: Any = None,
        reject_cost: Any = None,
        n_classes: int = 2,
        prior: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(n_classes, reduction)
        classes = np.arange(self.n_classes)
        paid = cost_matrix(costs, classes, prior)
        if reject_cost is not None:
            paid = np.column_stack([paid, reject_costs(reject_cost, classes)])
        self.register_buffer("action_costs", torch.as_tensor(paid, dtype=torch.float64))

    def forward(
        self,
        logits: Tensor,
        target: Tensor,
        previous: Tensor | None = None,
        example_costs: Tensor | None = None,
        weight: Tensor | None = None,
    ) -> Tensor:
        """Return the expected cost, or its bound.

        Parameters
        ----------
        logits : tensor of shape (n_rows,), (n_rows, 1) or (n_rows, n_actions)
            Scores of actions; one for two of them is the log-odds of class 1.
        target : tensor of shape (n_rows,)
            Labels, 0 to K − 1.
        previous : tensor of shape (n_rows, n_actions), optional
            Probabilities of the actions by an earlier network: the bound that is tight there.
        example_costs : tensor of shape (n_rows, n_actions), optional
            What each action costs for each row, whose class is known.
        weight : tensor of shape (n_rows,), optional
            Weights of rows.

        Returns
        -------
        tensor
            One number, or one for each row where nothing is reduced.
        """
        labels = self._labels(logits, target)
        log_p = torch.log_softmax(_scores(logits, self.action_costs.shape[1]), dim=1)
        paid = self.action_costs.to(log_p)[labels] if example_costs is None else example_costs
        _check_actions("example_costs", paid, log_p)
        if previous is None:
            return self._reduced((log_p.exp() * paid).sum(dim=1), weight)
        _check_actions("previous", previous, log_p)
        nu = previous.detach().to(log_p)
        most = paid.max(dim=1, keepdim=True).values
        # an action that had no chance has no part in the bound
        ratio = torch.where(nu > 0.0, log_p - torch.where(nu > 0.0, nu, 1.0).log(), 0.0)
        bound = most[:, 0] - ((most - paid) * nu * (1.0 + ratio)).sum(dim=1)
        return self._reduced(bound, weight)


def _check_actions(name: str, values: Tensor, log_p: Tensor) -> None:
    if values.shape != log_p.shape:
        raise ValueError(
            f"{name} must have the shape {tuple(log_p.shape)}, rows and actions; got "
            f"{tuple(values.shape)}."
        )
