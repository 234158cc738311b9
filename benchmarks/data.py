"""Data for the benchmarks: real sets and mixtures from disk, and generated problems."""

import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import brentq
from scipy.special import expit, logsumexp, softmax
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import normalize

from grayzone.datasets import load_dataset, make_four_clusters, make_mixture, make_twonorm

LARGE_ROWS = 581_012
SMALL_ROWS = 23_235
# Share of Krummholz among Krummholz and Spruce/Fir, the positive class of the paper.
KRUMMHOLZ_SHARE = 20_510 / 232_350
HELD_OUT_ROWS = 10_000
TWONORM_FEATURES = 20  # that tell something
MIXTURE_ROWS = 100_000  # training rows that are drawn at once, so that smaller subsets are nested
# Corners of an equilateral triangle, the first two being the book's.
CLASS_MEANS = np.array([[1.0, 0.0], [0.0, 1.0], [(1 - 3**0.5) / 2, (1 - 3**0.5) / 2]])


class Plane(NamedTuple):
    """Four clusters of a plane, two of class 0 and two of class 1: places, shares, deviation."""

    centres: np.ndarray
    shares: np.ndarray
    scale: float


# Lines that suit different costs have different directions here.
UNEVEN_PLANE = Plane(
    np.array([[-3.0, 1.0], [4.0, 2.0], [2.0, 3.0], [3.0, -3.0]]),
    np.array([0.1, 0.4, 0.25, 0.25]),
    0.8,
)


class Mixture(NamedTuple):
    """A sample with its labels, 0 or 1, and the true probabilities of class 1.

    Of more than two classes, the labels are 0 to K − 1 and the probabilities have K columns.
    """

    X: np.ndarray
    y: np.ndarray
    p: np.ndarray


class PlaneGrid(NamedTuple):
    """Points of a plane, the true probabilities of class 1 there, and the share of each point."""

    X: np.ndarray
    p: np.ndarray
    share: np.ndarray


class Split(NamedTuple):
    """A training part and a test part; the labels are 0 and 1."""

    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


class Parts(NamedTuple):
    """A training, a validation and a test part without common rows; the labels are 0 and 1."""

    X_train: np.ndarray
    y_train: np.ndarray
    X_valid: np.ndarray
    y_valid: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def data_folder() -> Path:
    """Return where data files are: ``$GRAYZONE_DATA``, or ``../shared/data`` beside the clone."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(os.environ.get("GRAYZONE_DATA", default))


@functools.cache
def dataset(name: str) -> Any:
    """Load a data set by name; see `grayzone.datasets.load_dataset`."""
    return load_dataset(name, folder=data_folder())


@functools.cache
def covtype() -> tuple[np.ndarray, np.ndarray]:
    """Load covertype as stored: 54 integer features, classes 1 to 7."""
    found = dataset("covtype")
    return found.data, found.target


def covtype_binary(n_rows: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Class 2 against the rest, standardised.

    Parameters
    ----------
    n_rows : int, optional
        Size of a stratified subset; smaller subsets are contained in larger ones. All rows by
        default.

    Returns
    -------
    X : ndarray of shape (n_rows, 54)
        C-contiguous float64, standardised over all rows.
    y : ndarray of shape (n_rows,)
        0 or 1.
    """
    raw, classes = covtype()
    y = (classes == 2).astype(np.int64)
    X = raw.astype(np.float64, order="C")
    X -= X.mean(axis=0)
    X /= np.sqrt(np.einsum("ij,ij->j", X, X) / len(X))
    if n_rows is None or n_rows >= len(y):
        return X, y
    rows = stratified_rows(y, n_rows)
    return X[rows], y[rows]


def covtype_parts(n_rows: int) -> Parts:
    """Class 2 against the rest, standardised: training rows, and 10,000 others twice.

    Parameters
    ----------
    n_rows : int
        Training rows, a stratified subset; smaller subsets are contained in larger ones. The
        validation and the test part do not depend on it.
    """
    X, y = covtype_binary()
    valid, test = _held_out(y)
    rest = np.setdiff1d(np.arange(len(y)), np.concatenate([valid, test]), assume_unique=True)
    train = rest[stratified_rows(y[rest], min(n_rows, len(rest)))]
    return Parts(X[train], y[train], X[valid], y[valid], X[test], y[test])


def ijcnn1_parts(n_rows: int) -> Parts:
    """IJCNN 2001, as scaled by LIBSVM: rows of its training file, and of its test file twice.

    Parameters
    ----------
    n_rows : int
        Training rows, a stratified subset of the 49,990; smaller subsets are contained in larger
        ones. The validation and the test part, 10,000 rows each, do not depend on it.
    """
    found = dataset("ijcnn1")
    X, X_other = np.split(found.data.astype(np.float64, order="C"), [found.n_train])
    y, y_other = np.split((found.target == 1).astype(np.int64), [found.n_train])
    train = stratified_rows(y, min(n_rows, len(y)))
    valid, test = _held_out(y_other)
    return Parts(X[train], y[train], X_other[valid], y_other[valid], X_other[test], y_other[test])


def covtype_ordered() -> Split:
    """Class 2 against the rest, in the original order: the first 90 %, and the last 10 %.

    Features are standardised on the first part.
    """
    raw, classes = covtype()
    return _standardised(_in_order(raw.astype(np.float64), (classes == 2).astype(np.int64), 0.9))


def ijcnn1_ordered(repeated: bool = False) -> Split:
    """IJCNN 2001, as scaled by LIBSVM, its training file before its test file: 80 %, and 20 %.

    Parameters
    ----------
    repeated : bool, default=False
        Whether the two parts of the training file, which LIBSVM offers as files of their own,
        follow: the 191,681 rows of Le Roux (2017), of which 49,990 occur twice.
    """
    found = dataset("ijcnn1")
    X, y = found.data, found.target
    if repeated:
        # its parts one after the other are the training file itself
        X, y = (np.concatenate([a, a[: found.n_train]]) for a in (X, y))
    return _in_order(X.astype(np.float64), (y == 1).astype(np.int64), 0.8)


def mnist() -> Split:
    """Load the digits, 60,000 and 10,000: pixels between 0 and 1 in single precision."""
    found = dataset("mnist")
    X_train, X_test = np.split(found.data / np.float32(255), [found.n_train])
    y_train, y_test = np.split(found.target, [found.n_train])
    return Split(X_train, y_train, X_test, y_test)


def _in_order(X: np.ndarray, y: np.ndarray, share: float) -> Split:
    """Divide rows into the first ones, this share of them, and the others."""
    n = round(share * len(y))
    return Split(X[:n], y[:n], X[n:], y[n:])


def mixture_parts(n_rows: int) -> Parts:
    """Samples of the ESL mixture.

    Parameters
    ----------
    n_rows : int
        Training rows; smaller samples are contained in larger ones, up to 100,000. The validation
        and the test part, 10,000 rows each, do not depend on it.
    """
    sizes = (max(n_rows, MIXTURE_ROWS), HELD_OUT_ROWS, HELD_OUT_ROWS)
    train, valid, test = (esl_mixture(n, seed=(1, part)) for part, n in enumerate(sizes))
    X, y, _ = train
    return Parts(X[:n_rows], y[:n_rows], valid.X, valid.y, test.X, test.y)


def _held_out(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Choose two stratified sets of rows without a common row."""
    both = stratified_rows(y, 2 * HELD_OUT_ROWS, seed=1)
    first = stratified_rows(y[both], HELD_OUT_ROWS, seed=2)
    return both[first], np.delete(both, first)


def stratified_rows(y: np.ndarray, n_rows: int, seed: int = 0) -> np.ndarray:
    """Choose rows at random with the class shares of `y`, in their original order."""
    rng = np.random.default_rng(seed)
    chosen = []
    for label in np.unique(y):
        members = rng.permutation(np.flatnonzero(y == label))
        chosen.append(members[: max(1, round(n_rows * len(members) / len(y)))])
    return np.sort(np.concatenate(chosen))


def krummholz(split: int, n_splits: int = 10, seed: int = 0) -> Split:
    """Section 5.1 of Hérault & Grandvalet: Krummholz (7) against Spruce/Fir (1).

    Each tenth of the data is the training part once and the remaining nine are the test part;
    the shares of the classes are the same in all. Features are standardised on the training part.

    Parameters
    ----------
    split : int
        Which tenth to train on.
    n_splits : int, default=10
        Number of parts.
    seed : int, default=0
        Seed of the partition.
    """
    raw, classes = covtype()
    rows = np.flatnonzero((classes == 7) | (classes == 1))
    y = (classes[rows] == 7).astype(np.int64)
    folds = StratifiedKFold(n_splits, shuffle=True, random_state=seed).split(rows, y)
    # The fold that cross-validation would test on is the one to train on.
    rest, part = list(folds)[split]
    X_train = raw[rows[part]].astype(np.float64, order="C")
    X_test = raw[rows[rest]].astype(np.float64, order="C")
    return _standardised(Split(X_train, y[part], X_test, y[rest]))


def _standardised(split: Split) -> Split:
    """Standardise the features on the training part."""
    mean, scale = split.X_train.mean(axis=0), split.X_train.std(axis=0)
    scale[scale == 0] = 1.0  # some soil types do not occur in the two classes of `krummholz`
    X_train, X_test = ((X - mean) / scale for X in (split.X_train, split.X_test))
    return split._replace(X_train=X_train, X_test=X_test)


def krummholz_train(split: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Training part of one split of the paper's problem: 23,235 rows."""
    X, y, _, _ = krummholz(split)
    return X, y


@functools.cache
def labelled_table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Load a table of numbers with the labels 0 and 1.

    Parameters
    ----------
    name : str
        Name of the data set. Rows with a missing value are left out.
    """
    found = dataset(name)
    whole = ~np.isnan(found.data).any(axis=1)
    return found.data[whole], found.target[whole]


@functools.cache
def bank_marketing() -> tuple[np.ndarray, np.ndarray]:
    """Load the bank's calls: 7 numbers, then a column of 0 and 1 for each value of 9 others."""
    found = dataset("bank_marketing")
    numbers, indicators = [], []
    for name in found.feature_names:
        column = found.data[name].to_numpy()
        if column.dtype.kind == "f":
            numbers.append(column)
        else:
            indicators += [(column == value).astype(np.float64) for value in np.unique(column)]
    return np.column_stack(numbers + indicators), found.target


def thinned(
    X: np.ndarray, y: np.ndarray, n_negatives: int, ratio: int, seed: int | Sequence[int] = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Draw an unbalanced subset: so many negatives, and a positive for each `ratio` of them."""
    rng = np.random.default_rng(seed)
    counts = (n_negatives, n_negatives // ratio)
    drawn = [rng.permutation(np.flatnonzero(y == k))[:n] for k, n in enumerate(counts)]
    rows = np.sort(np.concatenate(drawn))
    return X[rows], y[rows]


def random_plane(seed: int | Sequence[int] = 0) -> Plane:
    """Draw places of clusters, how each class is divided between its two, and the deviation."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(-4.0, 4.0, size=(4, 2))
    first, second = rng.uniform(0.2, 0.8, size=2)
    shares = np.array([first, 1.0 - first, second, 1.0 - second]) / 2
    return Plane(centres, shares, rng.uniform(0.6, 1.0))


def plane_sample(
    n: int, plane: Plane, seed: int | Sequence[int] = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows of four normal clusters."""
    drawn = make_four_clusters(
        n,
        centres=plane.centres,
        shares=plane.shares,
        scale=plane.scale,
        random_state=np.random.RandomState(seed),
    )
    return drawn.X, drawn.y


def random_split(
    X: np.ndarray, y: np.ndarray, n_train: int, seed: int | Sequence[int] = 0
) -> Split:
    """Divide rows at random, whatever their class; features are standardised on the first part.

    Parameters
    ----------
    X, y : ndarray
        Features and labels.
    n_train : int
        Rows of the training part.
    seed : int or sequence of int, default=0
        Seed of the generator.
    """
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[:n_train], order[n_train:]
    return _standardised(Split(X[train], y[train], X[test], y[test]))


def twonorm(
    n: int, n_noise: int = 0, seed: int | Sequence[int] = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Draw Breiman's Twonorm; see `grayzone.datasets.make_twonorm`."""
    return make_twonorm(n, n_noise=n_noise, random_state=np.random.RandomState(seed))


def two_normals(n: int, n_features: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Draw two equally likely normal classes, each with a covariance of its own."""
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(2, n_features, n_features)) / np.sqrt(n_features)
    apart = rng.normal(size=n_features) / np.sqrt(n_features)
    y = rng.integers(2, size=n)
    X = rng.normal(size=(n, n_features))
    for label, root in enumerate(roots):
        X[y == label] = X[y == label] @ root
    return X + y[:, None] * apart, y


@functools.cache
def esl_centres() -> np.ndarray:
    """Load the centres of the ESL mixture: ten of class 0, then ten of class 1."""
    return dataset("esl_mixture").means


def esl_mixture(n: int, seed: int | Sequence[int] = 0) -> Mixture:
    """Draw from the mixture of Hastie, Tibshirani & Friedman (Elements of Statistical Learning).

    The classes are equally likely, and each is a mixture of ten normal distributions with
    covariance I/5, equally likely too.

    Parameters
    ----------
    n : int
        Number of points.
    seed : int or sequence of int, default=0
        Seed of the generator.
    """
    drawn = make_mixture(n, centres=esl_centres(), random_state=np.random.RandomState(seed))
    return Mixture(drawn.X, drawn.y, drawn.proba[:, 1])


def esl_probability(X: np.ndarray) -> np.ndarray:
    """Return the true probability of class 1 of the ESL mixture at each row."""
    of_class = _log_densities(X, esl_centres(), n_classes=2)
    return expit(of_class[:, 1] - of_class[:, 0])


def _log_densities(X: np.ndarray, centres: np.ndarray, n_classes: int) -> np.ndarray:
    """Log densities (n, K) of the classes, each a mixture of as many centres, up to a constant."""
    distances = ((X[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
    return logsumexp(-2.5 * distances.reshape(len(X), n_classes, -1), axis=2)


def esl_sample() -> tuple[np.ndarray, np.ndarray]:
    """Load the 200 points of the ESL mixture that the book shows."""
    found = dataset("esl_mixture")
    return found.data, found.target


def esl_grid() -> PlaneGrid:
    """Load the grid published with the ESL mixture: 69 columns, 99 rows, which vary slowest."""
    table = dataset("esl_mixture").grid
    return PlaneGrid(table[:, :2], table[:, 2], table[:, 3] / table[:, 3].sum())


def class_centres(seed: int | Sequence[int] = 0) -> np.ndarray:
    """Draw the centres (30, 2) of three classes by the recipe of the ESL mixture.

    Ten of each class are normal around its mean, with covariance I.
    """
    rng = np.random.default_rng(seed)
    return np.repeat(CLASS_MEANS, 10, axis=0) + rng.normal(size=(10 * len(CLASS_MEANS), 2))


def class_mixture(n_each: int, centres: np.ndarray, seed: int | Sequence[int] = 0) -> Mixture:
    """Draw three classes, by class: normal around one of its centres, with covariance I/5.

    Parameters
    ----------
    n_each : int
        Points of each class.
    centres : ndarray of shape (30, 2)
        Ten of each class.
    seed : int or sequence of int, default=0
        Seed of the generator.
    """
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(CLASS_MEANS)), n_each)
    component = 10 * y + rng.integers(10, size=y.size)
    X = centres[component] + rng.normal(scale=np.sqrt(1 / 5), size=(y.size, 2))
    return Mixture(X, y, class_probabilities(X, centres))


def class_probabilities(X: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Return the true probabilities (n, 3) of the classes with these centres at each row."""
    return softmax(_log_densities(X, centres, n_classes=len(CLASS_MEANS)), axis=1)


def a9a() -> tuple[sparse.csr_matrix, np.ndarray]:
    """Load 48,842 adults, 14 of 123 indicators each.

    Returns
    -------
    X : csr_matrix of shape (48842, 123)
        Zeros and ones.
    y : ndarray of shape (48842,)
        1: earns more than 50,000 dollars, 0: less.
    """
    found = dataset("a9a")
    y = found.target
    return sparse.csr_matrix(found.data, dtype=np.float64), (y == y.max()).astype(np.int64)


def texts(
    n_rows: int = 47_000, n_words: int = 100_000, seed: int = 0
) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Generate tf-idf vectors of texts about one of two subjects.

    Words follow Zipf's law, a text has about 75 different ones, and 1 % of the words speak for one
    of the subjects. The label is drawn from the logistic model that they define.

    Parameters
    ----------
    n_rows, n_words : int
        Shape of the matrix.
    seed : int, default=0
        Seed of the generator.

    Returns
    -------
    X : csr_matrix of shape (n_rows, n_words)
        Rows of length one.
    y : ndarray of shape (n_rows,)
        0 or 1.
    """
    rng = np.random.default_rng(seed)
    # Zipf-Mandelbrot; frequent words repeat within a text, so 85 words make about 75 different.
    cumulative = np.cumsum(1.0 / (np.arange(n_words) + 2.7))
    lengths = rng.gamma(shape=4.0, scale=80 / 4.0, size=n_rows).astype(np.int64) + 5
    words = np.searchsorted(cumulative, rng.random(lengths.sum()) * cumulative[-1])
    words = np.minimum(words, n_words - 1)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    X = sparse.csr_matrix((np.ones(len(words)), words, starts), shape=(n_rows, n_words))
    X.sum_duplicates()
    frequency = np.bincount(X.indices, minlength=n_words)
    X.data = (1 + np.log(X.data)) * np.log((1 + n_rows) / (1 + frequency))[X.indices]
    X = normalize(X, copy=False)
    speaking = rng.choice(n_words, size=n_words // 100, replace=False)
    weights = np.zeros(n_words)
    weights[speaking] = rng.normal(size=len(speaking))
    scores = X @ weights
    scores *= 3.0 / scores.std()
    return X, (rng.random(n_rows) < expit(scores)).astype(np.int64)


def rare_positives(
    n_rows: int = 150_000, n_features: int = 30, share: float = 0.002, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Generate a logistic model in which positives are rare.

    Parameters
    ----------
    n_rows, n_features : int
        Shape of the data.
    share : float, default=0.002
        Expected share of positives.
    seed : int, default=0
        Seed of the generator.

    Returns
    -------
    X : ndarray of shape (n_rows, n_features)
        Standard normal features.
    y : ndarray of shape (n_rows,)
        0 or 1.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    scores = X @ rng.normal(size=n_features)
    scores *= 2.0 / scores.std()
    intercept = brentq(lambda b: expit(scores + b).mean() - share, -50.0, 50.0)
    return X, (rng.random(n_rows) < expit(scores + intercept)).astype(np.int64)
