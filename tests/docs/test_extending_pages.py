"""The tutorials of docs/extending run, print what they say, and keep what they promise."""

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_array

from grayzone.numerics.designs import as_design
from grayzone.numerics.losses import Logistic
from grayzone.numerics.margins import SignedMargin
from grayzone.solvers import Primal, Problem, Status, solve

PAGES = Path(__file__).resolve().parents[2] / "docs" / "extending"
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.M | re.S)


def blocks_of(page):
    """Code blocks, each with what stands below it as its output."""
    return BLOCK.findall((PAGES / f"{page}.md").read_text(encoding="utf-8"))


def run(page):
    """Run the blocks of a page in one namespace; what they print must be what stands below them."""
    names, blocks = {"__name__": page}, blocks_of(page)
    assert len(blocks) >= 3
    for code, said in blocks:
        with redirect_stdout(StringIO()) as printed:
            exec(compile(code, f"docs/extending/{page}.md", "exec"), names)
        assert printed.getvalue() == said
    return names


def minimum(problem, n_coef):
    """The least value of an objective, by a method that knows neither slopes nor certificates."""

    def value(flat):
        return problem.value(flat.reshape(-1, problem.design.n_coef))

    found = minimize(
        value, np.zeros(n_coef), method="Powell", options={"xtol": 1e-10, "ftol": 1e-14}
    )
    return float(found.fun)


@pytest.fixture(scope="module")
def loss_page():
    return run("loss")


@pytest.fixture(scope="module")
def solver_page():
    return run("solver")


def rows(n_classes, seed=0):
    rng = np.random.default_rng(seed)
    codes = np.arange(60) % n_classes
    X = rng.normal(size=(60, 2)) + 0.8 * codes[:, None]
    return X, codes, rng.uniform(0.5, 2.0, size=60)


def test_a_loss_with_an_intercept_and_weights_reaches_the_optimum(loss_page):
    X, codes, weight = rows(2)
    loss, sign = loss_page["SquaredHinge"].of(60), np.where(codes == 1, 1.0, -1.0)
    problem = Problem(as_design(X), SignedMargin(sign), loss, weight, 0.5)
    found = solve(problem, Primal(), tol=1e-10, max_iter=100)
    assert found.status is Status.CONVERGED
    assert found.certificate.primal == pytest.approx(minimum(problem, 3), rel=1e-8)
    sparse = Problem(as_design(csr_array(X)), SignedMargin(sign), loss, weight, 0.5)
    again = solve(sparse, Primal(), tol=1e-10, max_iter=100)
    np.testing.assert_allclose(again.coef, found.coef, rtol=1e-8)


def test_the_classifier_of_the_page_has_the_gap_that_it_tells(loss_page):
    model = loss_page["plain"]
    assert 0.0 <= model.dual_gap_ <= model.tol
    with pytest.raises(ValueError, match="two classes are expected; got 3"):
        loss_page["SquaredHingeClassifier"]().fit(np.eye(3), [0, 1, 2])


def test_the_strategy_never_goes_uphill(solver_page):
    X, codes, weight = rows(2)
    margins = SignedMargin(np.where(codes == 1, 1.0, -1.0))
    problem = Problem(as_design(csr_array(X)), margins, Logistic(weight), weight, 0.5)
    objectives = []
    found = solve(
        problem,
        solver_page["FixedHessian"](),
        tol=1e-10,
        max_iter=1000,
        start=np.array([[3.0, -2.0, 1.0]]),
        callback=lambda record: objectives.append(record.objective),
    )
    assert found.status is Status.CONVERGED
    assert np.all(np.diff(objectives) <= 1e-12 * objectives[0])
    assert found.certificate.primal == pytest.approx(minimum(problem, 3), rel=1e-8)


@pytest.mark.parametrize("most", [None, 400])
def test_a_source_gives_what_numpy_gives(most, monkeypatch):
    if most is not None:  # rows that stay where they are, read at every step
        monkeypatch.setattr("grayzone.solvers.truncated.streamed.MOST_HELD", most)
    known = run("source")
    model = known["TruncatedLogisticRegression"](costs=known["costs"], tol=1e-12)
    again = model.fit(known["X"], known["y"])
    np.testing.assert_allclose(known["model"].coef_, again.coef_, rtol=1e-6, atol=1e-8)
