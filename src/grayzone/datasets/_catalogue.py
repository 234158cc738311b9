"""Which data sets there are: where they come from, what they contain, what errors cost."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Source:
    """Where a set is offered.

    ``kind`` is "covtype" (scikit-learn's own loader), "openml" (a name and a version there) or
    "libsvm" (addresses of its training and its test file).
    """

    kind: str
    where: tuple[str, ...] = ()
    version: int = 1


@dataclass(frozen=True)
class Entry:
    """What is known of a data set.

    ``counts`` are rows by class, as published; ``fingerprint`` is that of the contents, None where
    public copies write the same values differently.
    """

    name: str
    n_features: int
    counts: dict[str, int]
    about: str
    licence: str
    fingerprint: str | None = None
    source: Source | None = None
    n_train: int | None = None
    positive: str | None = None
    costs: dict[str, float] = field(default_factory=dict)
    classes: dict[str, str] = field(default_factory=dict)  # labels of the source, by ours

    @property
    def n_rows(self) -> int:
        """Rows, all parts together."""
        return sum(self.counts.values())


_UCI = "CC BY 4.0 (UCI)"
_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary"
_DIGITS = (6903, 7877, 6990, 7141, 6824, 6313, 6876, 7293, 6825, 6958)
_TREES = (211_840, 283_301, 35_754, 2_747, 9_493, 17_367, 20_510)


def _counts(*numbers: int, first: int = 0) -> dict[str, int]:
    return {str(first + k): n for k, n in enumerate(numbers)}


def _openml(name: str, version: int = 1) -> Source:
    return Source("openml", (name,), version)


_ENTRIES = (
    Entry(
        "covtype",
        54,
        _counts(*_TREES, first=1),
        "Forest cover types (Blackard & Dean), seven classes, original order.",
        _UCI,
        "47f312bf97c390f6b989a23314bc941374c4259740683815e1e088b61b883490",
        Source("covtype"),
    ),
    Entry(
        "mnist",
        784,
        _counts(*_DIGITS),
        "Handwritten digits (LeCun, Cortes & Burges): the first 60,000 rows are for training.",
        "CC BY-SA 3.0, as commonly stated",
        "fdb61f01a6f42c130ae602c6b26c4018641bf841503447c94bbb645360767608",
        _openml("mnist_784"),
        n_train=60_000,
    ),
    Entry(
        "ijcnn1",
        22,
        {"-1": 128_126, "1": 13_565},
        "IJCNN 2001 challenge as transformed by its winners: 49,990 rows for training.",
        "none stated",
        "fe170414f7a382657513fe1537f2f9cf4f5e7207c9419cfebab79e94a47199a7",
        Source("libsvm", (f"{_LIBSVM}/ijcnn1.bz2", f"{_LIBSVM}/ijcnn1.t.bz2")),
        n_train=49_990,
        positive="1",
    ),
    Entry(
        "a9a",
        123,
        {"-1": 37_155, "1": 11_687},
        "UCI Adult as 123 binary features: 32,561 rows for training.",
        _UCI,
        "530f1d00e9d32469e5ce40fa8497c136a709e977cd57aa176ea0856de1561a93",
        Source("libsvm", (f"{_LIBSVM}/a9a", f"{_LIBSVM}/a9a.t")),
        n_train=32_561,
        positive="1",
    ),
    Entry(
        "bank_marketing",
        16,
        _counts(39_922, 5_289),
        "Telephone calls of a bank; 1: the customer subscribed. 7 numbers, 9 categories.",
        _UCI,
        "7fece08f9f082fc55c1687e23c517fb5b0e44bbfe53cfadc876c73de0eb639f3",
        _openml("bank-marketing"),
        positive="1",
        classes={"1": "0", "2": "1"},
    ),
    Entry(
        "german_credit",
        20,
        _counts(700, 300),
        "Statlog German Credit; 1: a bad customer. 7 numbers, 13 categories.",
        _UCI,
        "5060ef6063c1c11c4a2d38b2529bb7f16f1a70d02d9bafa5e4905cbbc561e09a",
        _openml("credit-g"),
        positive="1",
        costs={"0": 1.0, "1": 5.0},
        classes={"good": "0", "bad": "1"},
    ),
    Entry(
        "german_credit_numeric",
        24,
        _counts(700, 300),
        "The same customers by 24 numbers.",
        _UCI,
        "b6c179531e7608909bf853d3e9614f076c08b4eda3c59205ee90039130078895",
        positive="1",
        costs={"0": 1.0, "1": 5.0},
    ),
    Entry(
        "statlog_heart",
        13,
        _counts(150, 120),
        "Statlog Heart; 1: disease present.",
        _UCI,
        "04a42b25cf04aa0a188fc9a4fa8794f0a64895e32e27aac24c20de361a5bb9e2",
        _openml("heart-statlog"),
        positive="1",
        costs={"0": 1.0, "1": 5.0},
        classes={"absent": "0", "present": "1"},
    ),
    Entry(
        "breast_cancer_wisconsin",
        9,
        _counts(458, 241),
        "Breast Cancer Wisconsin (Original); 1: malignant. 16 rows have a missing value.",
        _UCI,
        "57ee9b66c194558dd143d17dcf04702a21ec47919910a38e9b5c2f4626b58946",
        _openml("breast-w"),
        positive="1",
        classes={"benign": "0", "malignant": "1"},
    ),
    Entry(
        "ionosphere",
        34,
        _counts(126, 225),
        "Radar returns from the ionosphere; 1: good.",
        _UCI,
        "a566ad21a6ed4495bbc953135530b69443a45e34ba06c165006e60ab7aa32849",
        _openml("ionosphere"),
        positive="1",
        classes={"b": "0", "g": "1"},
    ),
    Entry(
        "pima_diabetes",
        8,
        _counts(500, 268),
        "Pima Indians Diabetes (NIDDK); 1: positive. Zeros stand for missing in five columns.",
        "CC0, as commonly stated",
        "ff91fa675a8148da70260cda8a2c9f47b77029958fbf235cc46d60b8b88bae63",
        _openml("diabetes"),
        positive="1",
        classes={"tested_negative": "0", "tested_positive": "1"},
    ),
    Entry(
        "sonar",
        60,
        _counts(97, 111),
        "Sonar returns; 1: a mine, 0: a rock.",
        _UCI,
        "e222ac11a084b5cba29d5e85d77fba0a9b4f1bbdc9b625c240296f5cd9f7e87a",
        _openml("sonar"),
        positive="1",
        classes={"Rock": "0", "Mine": "1"},
    ),
    Entry(
        "spambase",
        57,
        _counts(2_788, 1_813),
        "Frequencies of words in e-mails; 1: spam.",
        _UCI,
        "951b729a93459ab41af985b01afe82a523f8482fee631aee4ebf10683a8e71d7",
        _openml("spambase"),
        positive="1",
    ),
    Entry(
        "esl_mixture",
        2,
        _counts(100, 100),
        "The 200 points of the mixture in Hastie, Tibshirani & Friedman (Elements of Statistical "
        "Learning); with its centres and its grid of true probabilities where these are found.",
        "GPL-2+ (package ElemStatLearn)",
        "b210584a3ae019b913d9b3bba5938cce43145c84428c4797a055a47c884bce42",
        positive="1",
    ),
)
CATALOGUE = {entry.name: entry for entry in _ENTRIES}


def list_datasets() -> list[str]:
    """Return the names of all data sets that `load_dataset` knows.

    Returns
    -------
    names : list of str
        In alphabetical order.

    See Also
    --------
    load_dataset : Load one of them.

    Examples
    --------
    >>> from grayzone.datasets import list_datasets
    >>> list_datasets()[:3]
    ['a9a', 'bank_marketing', 'breast_cancer_wisconsin']
    """
    return sorted(CATALOGUE)
