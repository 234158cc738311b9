"""Losses for networks are those of the estimators, and their gradients are right."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_classification

import grayzone
from grayzone.decision.zones import ceilings_of
from grayzone.numerics.losses import Ramp, TruncatedLogistic

torch = pytest.importorskip("torch")

from grayzone.nn import RampLoss, TightBoundLoss, TruncatedLoss  # noqa: E402

DOUBLE = {"dtype": torch.float64}


def problem(seed=0, n=80):
    X, y = make_classification(n, 5, random_state=seed)
    return X, y


def of_model(model, X):
    return torch.as_tensor(model.decision_function(X))


def objective(loss, model, X, y):
    """The criterion of a linear estimator, from a loss that sums."""
    penalty = float(np.sum(np.square(model.coef_))) / (2.0 * model.C)
    return loss(of_model(model, X), torch.as_tensor(y)).item() + penalty


@pytest.mark.parametrize(
    ("zone", "costs"),
    [
        (1.0, None),
        (0.3, {0: 1.0, 1: 5.0}),
        ((0.2, 0.9), None),
        (None, None),
        (1.0, {0: (1, 3), 1: 4}),
    ],
)
def test_truncated_objective_is_that_of_the_estimator(zone, costs):
    X, y = problem()
    model = grayzone.TruncatedLogisticRegression(zone=zone, costs=costs, tails="as-fitted").fit(
        X, y
    )
    loss = TruncatedLoss(zone, costs, reduction="sum")
    assert objective(loss, model, X, y) == pytest.approx(model.objective_, rel=1e-12)


def test_truncated_objective_of_several_classes():
    X, y = load_iris(return_X_y=True)
    caps = {0: 0.7, 1: 0.6, 2: 0.9}
    model = grayzone.TruncatedLogisticRegression(zone=caps, tails="as-fitted").fit(X, y)
    loss = TruncatedLoss(caps, n_classes=3, reduction="sum")
    assert objective(loss, model, X, y) == pytest.approx(model.objective_, rel=1e-12)


def test_ramp_objective_is_that_of_the_estimator():
    X, y = problem(3)
    y = np.where(np.arange(len(y)) < 8, 1 - y, y)  # some to give up
    model = grayzone.TruncatedLogisticRegression(loss="ramp", tails="as-fitted").fit(X, y)
    loss = RampLoss(reduction="sum")
    assert objective(loss, model, X, y) == pytest.approx(model.objective_, rel=1e-12)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_losses_of_rows_with_floors_of_their_own(n_classes):
    rng = np.random.default_rng(0)
    z = rng.normal(size=(30, n_classes)) * 4
    y = rng.integers(n_classes, size=30)
    own = z[np.arange(30), y]
    others = np.array([np.logaddexp.reduce(np.delete(row, k)) for row, k in zip(z, y, strict=True)])
    floors = rng.normal(size=30) - 2.0
    floors[:3] = -np.inf
    expected = TruncatedLogistic(floors).value(others - own)
    loss = TruncatedLoss(None, n_classes=n_classes, reduction="none")
    found = loss(torch.as_tensor(z), torch.as_tensor(y), torch.as_tensor(floors))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)
    ramp = RampLoss(0.8, n_classes=n_classes, reduction="none")
    F = ramp.floors.numpy()
    expected = Ramp(F[y], ceilings_of(F)[y]).value(others - own)
    found = ramp(torch.as_tensor(z), torch.as_tensor(y))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)


def test_one_logit_of_two_classes_is_two():
    z, y = torch.linspace(-9, 9, 21, **DOUBLE), torch.arange(21) % 2
    both = torch.stack([torch.zeros_like(z), z], dim=1)
    for loss in (TruncatedLoss(), RampLoss(), TightBoundLoss({0: 2.0, 1: 3.0})):
        assert loss(z, y).item() == pytest.approx(loss(both, y).item(), rel=1e-14)
        assert loss(z[:, None], y[:, None].double()).item() == loss(z, y).item()


def test_expected_cost_is_that_of_the_estimator():
    X, y = problem(1)
    costs = {0: 1.0, 1: 3.0}
    for reject_cost in (None, 0.4):
        model = grayzone.TightBoundLogisticRegression(costs=costs, reject_cost=reject_cost).fit(
            X, y
        )
        policy = model.policy_proba(X)
        loss = TightBoundLoss(costs, reject_cost, reduction="none")
        rows = loss(torch.as_tensor(np.log(policy)), torch.as_tensor(y))
        paid = loss.action_costs.numpy()[y]
        np.testing.assert_allclose(rows.numpy(), np.sum(policy * paid, axis=1), rtol=1e-12)
        penalty = model.expected_error_path_[-1] - rows.sum().item()
        assert penalty >= -1e-12  # what is left of J is the penalty


def test_a_bound_is_above_and_touches_where_it_was_made():
    rng = torch.Generator().manual_seed(0)
    z = torch.randn(40, 4, generator=rng, **DOUBLE)
    y = torch.randint(3, (40,), generator=rng)
    loss = TightBoundLoss(reject_cost=0.3, n_classes=3, reduction="none")
    earlier = torch.softmax(torch.randn(40, 4, generator=rng, **DOUBLE), dim=1)
    assert bool(torch.all(loss(z, y, earlier) >= loss(z, y)))
    here = z.clone().requires_grad_()
    there = z.clone().requires_grad_()
    touching = loss(there, y, torch.softmax(z, dim=1))
    torch.testing.assert_close(touching, loss(z, y), rtol=1e-12, atol=1e-14)
    touching.sum().backward()
    loss(here, y).sum().backward()
    torch.testing.assert_close(here.grad, there.grad, rtol=1e-10, atol=1e-14)


def test_uniform_bound_is_the_log_loss():
    z, y = torch.linspace(-3, 3, 11, **DOUBLE), torch.arange(11) % 2
    bound = TightBoundLoss(reduction="none")(z, y, torch.full((11, 2), 0.5, **DOUBLE))
    log_loss = torch.nn.functional.binary_cross_entropy_with_logits(z, y.double(), reduction="none")
    torch.testing.assert_close(bound, 0.5 * log_loss + 0.5 * (1 - np.log(2.0)), rtol=1e-12, atol=0)


@pytest.mark.parametrize(
    "loss",
    [
        TruncatedLoss(0.7, n_classes=3),
        RampLoss(0.7, n_classes=3),
        TightBoundLoss(np.array([[0, 1, 2], [3, 0, 1], [1, 5, 0]]), n_classes=3),
        TightBoundLoss(reject_cost=0.2, n_classes=2),
    ],
    ids=["truncated", "ramp", "expected cost", "undecided"],
)
def test_gradients(loss):
    rng = torch.Generator().manual_seed(1)
    z = (2.0 * torch.randn(12, 3, generator=rng, **DOUBLE)).requires_grad_()
    y = torch.randint(loss.n_classes, (12,), generator=rng)
    w = torch.rand(12, generator=rng, **DOUBLE)
    assert torch.autograd.gradcheck(lambda z: loss(z, y, weight=w), z)


def test_weights_are_repetitions():
    z, y = torch.tensor([0.3, -1.0, 2.0]), torch.tensor([0, 1, 1])
    w = torch.tensor([2.0, 1.0, 3.0])
    rows = torch.repeat_interleave(torch.arange(3), w.long())
    for loss in (TruncatedLoss(), RampLoss(), TightBoundLoss()):
        assert loss(z, y, weight=w).item() == pytest.approx(loss(z[rows], y[rows]).item())


def test_finite_at_huge_logits_in_single_precision():
    z = torch.tensor([-3e38, -1e4, 1e4, 3e38], requires_grad=True)
    for loss in (TruncatedLoss(), TruncatedLoss(None), RampLoss(), TightBoundLoss()):
        for label in (0, 1):
            value = loss(z, torch.full((4,), label))
            (gradient,) = torch.autograd.grad(value, z)
            assert value.dtype == torch.float32
            assert torch.isfinite(value)
            assert torch.isfinite(gradient).all()


def test_rows_beyond_the_zone_do_not_pull():
    z = torch.tensor([3.0, -3.0], requires_grad=True)
    TruncatedLoss(1.0)(z, torch.tensor([1, 0])).backward()
    assert not z.grad.any()


def test_a_network_learns_costs():
    """Decisions at the threshold of the costs, by a network, beat the constant ones."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = (X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=400) > 0).astype(int)
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    loss = TruncatedLoss(costs={0: 1.0, 1: 4.0})
    steps = torch.optim.LBFGS(network.parameters(), max_iter=200)
    inputs, labels = torch.as_tensor(X, dtype=torch.float32), torch.as_tensor(y)

    def closure():
        steps.zero_grad()
        value = loss(network(inputs), labels)
        value.backward()
        return value

    steps.step(closure)
    alarms = torch.sigmoid(network(inputs))[:, 0].detach().numpy() >= 0.2
    cost = np.where(y == 1, 4.0 * ~alarms, 1.0 * alarms).mean()
    assert cost < 0.5 * min(np.mean(y == 0), 4.0 * np.mean(y == 1))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TruncatedLoss(n_classes=1), "n_classes must be an integer >= 2"),
        (lambda: TruncatedLoss(reduction="median"), "reduction"),
        (lambda: TruncatedLoss((0.6, 0.4)), "p_min < p_max"),
        (lambda: RampLoss(None), "needs a zone inside"),
        (lambda: TightBoundLoss({0: -1.0, 1: 2.0}), "cost"),
    ],
)
def test_bad_parameters(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((torch.zeros(3, 4), torch.zeros(3)), r"logits must have the shape \(n_rows, 2\)"),
        ((torch.zeros(3), torch.zeros(4)), "one label for each of 3 rows"),
        ((torch.zeros(3), torch.tensor([0, 1, 2])), "labels from 0 to 1"),
        ((torch.zeros(3), torch.tensor([0.0, 0.5, 1.0])), "labels from 0 to 1"),
    ],
)
def test_bad_input(arguments, message):
    for loss in (TruncatedLoss(), RampLoss(), TightBoundLoss()):
        with pytest.raises(ValueError, match=message):
            loss(*arguments)
    with pytest.raises(ValueError, match="weight"):
        TruncatedLoss()(torch.zeros(3), torch.zeros(3), weight=torch.ones(2))
    with pytest.raises(ValueError, match="floors"):
        TruncatedLoss()(torch.zeros(3), torch.zeros(3), torch.ones(2))
    with pytest.raises(ValueError, match="previous"):
        TightBoundLoss()(torch.zeros(3), torch.zeros(3), torch.ones(3))


def test_floors_travel_with_the_state():
    state = TruncatedLoss(0.5).state_dict()
    other = TruncatedLoss(2.0)
    other.load_state_dict(state)
    torch.testing.assert_close(other.floors, TruncatedLoss(0.5).floors)


def test_the_package_does_not_import_torch():
    code = "import grayzone, sys; raise SystemExit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
