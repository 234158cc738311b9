"""Searches for C on blocks and on arrays of other libraries.

That they find the models of NumPy arrays is in tests/laws/test_carriers.py. Here: their folds are
those of scikit-learn, their scores those of its scorers, and what they do not take is said.
"""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import KFold, StratifiedKFold
from test_import_vector_blocks import Listed, some_weights, three_classes, two_classes

from grayzone import ImportVectorMachineCV
from grayzone.estimators._search import folds_of
from grayzone.metrics import expected_cost
from grayzone.sources import from_batches
from grayzone.sources.labelled import label

torch = pytest.importorskip("torch")


def search_of(**parameters):
    return ImportVectorMachineCV(
        **{"Cs": [0.1, 10.0], "max_import_points": 3, "random_state": 0, **parameters}
    )


class Numbers:
    """Numbers of the rows that have a weight."""

    def __call__(self, rows):
        return {"numbers": [rows.places()[rows.weight > 0]], "mass": float(rows.weight.sum())}


# ------------------------------------------------------------------------------------------ folds


@pytest.mark.parametrize("n_folds", [2, 3, 7])
@pytest.mark.parametrize("n_blocks", [1, 4, 60])
@pytest.mark.parametrize("seed", [0, 1])
def test_folds_of_blocks_are_those_of_scikit_learn(n_folds, n_blocks, seed):
    rng = np.random.default_rng(seed)
    y = rng.choice([5, 1, 3], size=120, p=[0.1, 0.3, 0.6])
    X, weight = rng.normal(size=(120, 2)), rng.choice([0.0, 0.5, 2.0], size=120)
    labelled = label(Listed(X, y, weight, n_blocks), "balanced")
    expected = StratifiedKFold(n_folds).split(X, y)
    for fold, sides in zip(folds_of(labelled, n_folds), expected, strict=True):
        for side, rows in zip((fold.train(), fold.out()), sides, strict=True):
            own = side.weighed_by("balanced")
            found = own.plain.reduce(Numbers())
            heavy = rows[weight[rows] > 0]
            np.testing.assert_array_equal(np.concatenate(found["numbers"]), heavy)
            assert found["mass"] == pytest.approx(weight[rows].sum(), rel=1e-13)
            codes = np.searchsorted([1, 3, 5], y[heavy])
            np.testing.assert_array_equal(own.counts, np.bincount(codes, minlength=3))
            mass = np.bincount(codes, weight[heavy], minlength=3)
            np.testing.assert_allclose(own.mass, mass, rtol=1e-13)
            balanced = np.where(mass > 0, mass.sum() / 3, 0.0)
            np.testing.assert_allclose(own.factors * mass, balanced, rtol=1e-12)


def test_rows_are_drawn_once_and_by_their_numbers():
    X, y = two_classes()
    searches = [search_of(validation_fraction=0.3).fit(Listed(X, y, None, n)) for n in (2, 9)]
    np.testing.assert_allclose(searches[0].scores_, searches[1].scores_, rtol=1e-9)
    other = search_of(validation_fraction=0.3, random_state=1).fit(Listed(X, y, None, 2))
    assert np.any(other.scores_ != searches[0].scores_)


# ----------------------------------------------------------------------------------------- scores

COSTS = [[0.0, 2.0, 1.0], [1.0, 0.0, 4.0], [3.0, 1.0, 0.0]]


def minus_cost(model, X, y, weight):
    return -expected_cost(y, model.predict(X), costs=COSTS, labels=[0, 1, 2], sample_weight=weight)


SCORES = {
    None: minus_cost,
    "accuracy": lambda model, X, y, weight: accuracy_score(
        y, model.predict(X), sample_weight=weight
    ),
    "neg_log_loss": lambda model, X, y, weight: (
        -log_loss(y, model.predict_proba(X), sample_weight=weight)
    ),
}


# accuracy beside costs is said to be a mistake; here it is one of three scores
@pytest.mark.filterwarnings("ignore:scoring='accuracy'")
@pytest.mark.parametrize("scoring", SCORES, ids=str)
@pytest.mark.parametrize("where", ["blocks", "PyTorch"])
def test_scores_are_means_over_rows_as_scikit_learn_has_them(scoring, where):
    X, y = three_classes()
    weight = some_weights(y)
    search = search_of(scoring=scoring, cv=2, costs=COSTS, Cs=[3.0])
    if where == "blocks":
        search.fit(Listed(X, y, weight))
    else:
        with config_context(array_api_dispatch=True):
            search.fit(*(torch.asarray(a) for a in (X, y, weight)))
    for fold, (train, out) in enumerate(StratifiedKFold(2).split(X, y)):
        model = search_of(cv=2, costs=COSTS, Cs=[3.0]).fit(X[train], y[train], weight[train])
        wanted = SCORES[scoring](model, X[out], y[out], weight[out])
        assert float(search.scores_[0, fold]) == pytest.approx(wanted, rel=1e-7)


def test_a_scorer_of_all_rows_is_told_scores_on_a_device():
    X, y = two_classes()
    given, search = (X, y, some_weights(y)), search_of(scoring="roc_auc", cv=KFold(3))
    expected = search.fit(*given)
    with config_context(array_api_dispatch=True):
        found = clone(search).fit(*(torch.asarray(a) for a in given))
    assert isinstance(found.scores_, torch.Tensor)
    np.testing.assert_allclose(found.scores_.numpy(), expected.scores_, rtol=1e-9)
    assert found.C_ == expected.C_


# ----------------------------------------------------------------------------------------- errors


def unreadable():
    raise AssertionError("a block was read")


def nothing_read():
    """Return a source that is read by nobody."""
    source = from_batches(lambda: iter([(np.zeros((2, 1)), np.array([0, 1]))]))
    source.blocks = source.reduce = unreadable
    return source


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"scoring": "roc_auc"}, "scoring='roc_auc' wants all held-out rows at once"),
        ({"scoring": lambda *_: 1.0}, "wants all held-out rows at once.*None, 'accuracy'"),
        ({"scoring": "no such"}, "no such"),
        ({"cv": KFold(2)}, "Beside blocks cv must be a number of folds, or None.*KFold"),
        ({"cv": [([0, 1], [2, 3])]}, "Beside blocks cv must be a number of folds"),
        ({"cv": 1}, "cv must be an integer >= 2"),
        ({"cv": 2.5}, "cv must be an integer >= 2"),
        ({"kernel": "precomputed"}, "needs the kernel values of all pairs of rows at once"),
    ],
)
def test_what_blocks_cannot_be_searched_by(parameters, match):
    search = search_of(**parameters)
    before = dict(vars(search))
    with pytest.raises(ValueError, match=match):
        search.fit(nothing_read())
    assert vars(search) == before


@pytest.mark.filterwarnings("ignore:The least populated class")
def test_folds_that_cannot_be_fitted():
    X, y = two_classes()
    X, y = X[:40], np.arange(40) % 2
    with pytest.raises(ValueError, match="cv=21 folds are more than any class has rows: 20"):
        search_of(cv=21).fit(Listed(X, y))
    rare, light = np.where(np.arange(40) == 7, 1, 0), np.where(np.arange(40) < 20, 0.0, 1.0)
    for labels, weight, match in (
        (rare, None, r"Fold \d of cv leaves the classes \[1\] without a training row"),
        (y, light, "Fold 0 of cv holds out no row with a positive weight"),
    ):
        said = []
        for given in ((Listed(X, labels, weight),), (X, labels, weight)):
            with pytest.raises(ValueError, match=match) as error:
                search_of(cv=2).fit(*given)
            said.append(str(error.value))
        assert said[0] == said[1]
    three = np.where(y == 0, 0, 1 + np.arange(40) // 2 % 2)
    with pytest.raises(ValueError, match="'gacv' is for two classes; y has 3"):
        search_of(scoring="gacv").fit(Listed(X, three))
    with pytest.raises(ValueError, match="'gacv' needs losses that are smooth"):
        search_of(scoring="gacv", zone=1.0).fit(Listed(X, y))
