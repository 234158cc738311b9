"""Intervals of mean costs hold on few rows, with rare errors, and are not too wide."""

import numpy as np
import pytest
from scipy.stats import binomtest

from grayzone.decision.cost_interval import cost_interval

CLASSES = np.array([[0.0, 1.0], [1.0, 0.0]])  # cost of each decision, by class


def drawn(rng, n, *, share=0.5, miss=0.02, alarm=0.02, undecided=0.0, costs=(1.0, 1.0), spread=0.0):
    """What was paid for rows, what could have been, their classes, and the mean of all rows."""
    codes = (rng.random(n) < share).astype(int)
    amount = np.exp(spread * rng.normal(size=n))
    possible = np.outer(amount, [1.0, 1.0]) * (CLASSES * np.array(costs)[:, None])[codes]
    wrong, refer = rng.random(n) < np.array([alarm, miss])[codes], rng.random(n) < undecided
    paid = np.where(wrong, possible.max(axis=1), 0.0)
    mean = ((1.0 - share) * alarm * costs[0] + share * miss * costs[1]) * np.exp(spread**2 / 2.0)
    if undecided:
        possible = np.column_stack([possible, np.full(n, 0.1)])
        paid, mean = np.where(refer, 0.1, paid), undecided * 0.1 + (1.0 - undecided) * mean
    return paid, possible, codes, mean


RARE = [
    {"miss": 0.002, "alarm": 0.002},
    {"miss": 0.01, "alarm": 0.0},
    {"miss": 0.03, "alarm": 0.03},
    {"miss": 0.2, "alarm": 0.2},
    {"undecided": 0.2},
    {"costs": (1.0, 5.0)},
    {"costs": (1.0, 20.0), "share": 0.1, "miss": 0.05, "alarm": 0.05},
    {"spread": 1.0},
    {"spread": 1.5, "miss": 0.2, "alarm": 0.2},
]


@pytest.mark.parametrize("n", [60, 250])
@pytest.mark.parametrize("case", RARE, ids=str)
def test_means_are_held(case, n):
    rng = np.random.default_rng(0)
    held = []
    for _ in range(300):
        paid, possible, codes, mean = drawn(rng, n, **case)
        low, high, error = cost_interval(paid, possible, codes, 0.95)
        assert low <= paid.mean() <= high
        assert error > 0.0
        held.append(low <= mean <= high)
    assert np.mean(held) >= 0.93


def test_weighted_rows_and_groups_are_held():
    rng = np.random.default_rng(1)
    weighted, grouped = [], []
    for _ in range(300):
        paid, possible, codes, mean = drawn(rng, 400, share=0.05, miss=0.1, costs=(1.0, 5.0))
        # all of the rare class, one in four of the other, which stand for four
        seen = (codes == 1) | (np.arange(400) % 4 == 0)
        weight = np.where(codes == 1, 1.0, 4.0)
        of = (part[seen] for part in (paid, possible, codes))
        low, high, _ = cost_interval(*of, 0.95, weight=weight[seen])
        weighted.append(low <= mean <= high)
        copies = np.repeat(np.arange(400), rng.integers(1, 6, 400))
        of = (part[copies] for part in (paid, possible, codes))
        low, high, _ = cost_interval(*of, 0.95, groups=copies)
        grouped.append(low <= mean <= high)
    assert min(np.mean(weighted), np.mean(grouped)) >= 0.93


@pytest.mark.parametrize("n", [1, 2, 20, 300])
def test_errors_of_one_cost_have_the_exact_interval_of_their_share(n):
    for k in {0, 1, n // 3, n}:
        wrong = (np.arange(n) < k).astype(float)
        codes = np.arange(n) % 2
        low, high, _ = cost_interval(7.0 * wrong, 7.0 * CLASSES[codes], codes, 0.95)
        assert (low / 7.0, high / 7.0) == pytest.approx(tuple(binomtest(k, n).proportion_ci(0.95)))


def test_many_errors_have_the_interval_of_a_normal_mean():
    paid, possible, codes, _ = drawn(
        np.random.default_rng(2), 20_000, miss=0.2, alarm=0.1, costs=(1.0, 5.0)
    )
    low, high, error = cost_interval(paid, possible, codes, 0.95)
    usual = paid.std() / np.sqrt(len(paid))
    assert error == pytest.approx(usual, rel=0.01)
    assert [low, high] == pytest.approx(paid.mean() + 1.96 * usual * np.array([-1, 1]), rel=0.01)


def test_what_changes_nothing_and_what_does():
    paid, possible, codes, _ = drawn(np.random.default_rng(3), 90, miss=0.1, costs=(1.0, 5.0))
    plain = np.array(cost_interval(paid, possible, codes, 0.95))
    order = np.random.default_rng(4).permutation(90)
    same = [
        cost_interval(paid[order], possible[order], codes[order], 0.95),
        cost_interval(paid, possible, codes, 0.95, weight=np.full(90, 3.0)),
        np.array(cost_interval(1e200 * paid, 1e200 * possible, codes, 0.95)) / 1e200,
        np.add(cost_interval(paid - 2.0, possible - 2.0, codes, 0.95), [2.0, 2.0, 0.0]),
    ]
    copies = np.repeat(np.arange(90), 3)
    repeated = paid[copies], possible[copies], codes[copies]
    same.append(cost_interval(*repeated, 0.95, groups=copies))
    np.testing.assert_allclose(same, np.tile(plain, (5, 1)), rtol=1e-9)
    # rows that are counted three times seem to be more, and errors that do not count lower one end
    assert np.diff(cost_interval(*repeated, 0.95)[:2]) < np.diff(plain[:2])
    lenient = cost_interval(paid, possible, codes, 0.95, forgiven=2.0)
    assert lenient.low < plain[0]
    assert lenient.high == plain[1]
    # where nothing is at stake there is nothing to hold
    assert cost_interval(paid * 0.0, possible * 0.0, codes, 0.95) == (0.0, 0.0, 0.0)
