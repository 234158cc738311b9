"""What a report tells beside curves: plain records, made by whoever trains, shown by the page."""

from __future__ import annotations

from dataclasses import dataclass

# What models are compared by.
COST, MISSED = "mean cost", "share of positives missed at the limit"
ALARMED = "share of negatives alarmed at the limit"


@dataclass(frozen=True)
class Verdict:
    """Whether the model is worth using: the first line of page and terminal.

    ``check`` are columns that somebody has to look at before a model that seems worth using is
    deployed: the page shows such a verdict in amber, and ``deploy`` is false.
    """

    deploy: bool
    sentence: str
    check: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rule:
    """A decision that needs no model ("never", "always", "refer everyone"), and its mean cost."""

    name: str
    cost: float


@dataclass(frozen=True)
class Promise:
    """What a decision of the kept model will cost on new rows like these.

    ``low`` and ``high`` bound ``cost`` with a probability of .95, also where few errors were seen
    or none, as ``grayzone.decision.cost_interval`` says. ``error`` is its standard
    error where one error more is counted. ``how`` says in one sentence which rows it was seen on.
    """

    cost: float
    error: float
    low: float
    high: float
    rows: int
    rules: tuple[Rule, ...]
    how: str


@dataclass(frozen=True)
class Limit:
    """A limit that was asked for, and the rate of the rows that set the threshold.

    ``reached`` is that of these rows alone, with its interval of .95; ``how`` counts them. The rate
    of all rows that a model is judged on is another number.
    """

    kind: str  # "max_fpr", "min_recall", "min_precision"
    limit: float
    confidence: float
    reached: float
    low: float
    high: float
    how: str


@dataclass(frozen=True)
class Compared:
    """A model that was compared: the mean of a measure, its standard error, or why not.

    Attributes
    ----------
    name : str
        Name of the model.
    mean : float or None
        Mean of the measure on held-out rows; None where the model was left out.
    error : float or None
        Its standard error.
    seconds : float or None
        What fitting it took; None for what is part of another model, or needs no fit.
    baseline : bool
        Whether it is one of those that every model has to beat.
    chosen : bool
        Whether it is the one that was kept.
    left_out : str
        Why it was not compared; empty where it was.
    measure : str
        What was measured.
    difference : float or None
        Its mean minus that of the kept model on the same rows.
    difference_error : float or None
        Standard error of the paired differences.

    See Also
    --------
    grayzone.train : Compares models on a table.

    Examples
    --------
    >>> from grayzone.reporting import Compared
    >>> line = Compared("tight-bound", 0.31, 0.02, seconds=1.5, baseline=False, chosen=True)
    >>> line.left_out
    ''
    """

    name: str
    mean: float | None
    error: float | None
    seconds: float | None
    baseline: bool
    chosen: bool
    left_out: str = ""
    measure: str = COST
    difference: float | None = None
    difference_error: float | None = None


@dataclass(frozen=True)
class Importance:
    """How much more a decision costs where a column of the table is shuffled, on held-out rows.

    ``together`` are other columns that say nearly the same and were shuffled with it.
    """

    column: str
    cost: float
    error: float
    together: tuple[str, ...] = ()


@dataclass(frozen=True)
class Effect:
    """Mean probability of the positive class where a column has a value, all else as it is.

    ``at`` are numbers (dates as texts) or categories, ``rows`` how many rows are near each. Of more
    than two classes, each has a record of its own, with its ``label``. Of a date, so has each
    ``part`` that models learn from: "hour of the day", "day of the week", "month", "trend".
    """

    column: str
    kind: str  # "number", "date", "text"
    at: tuple[float | str, ...]
    probability: tuple[float, ...]
    rows: tuple[int, ...]
    label: str | None = None
    part: str | None = None


@dataclass(frozen=True)
class Example:
    """How one row is decided, and which of its values moved its log-odds most, in words.

    ``what`` says which row it is, ``label`` which class the probability is of.
    """

    what: str
    decision: str
    label: str
    probability: float
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Segment:
    """Decisions on the rows of one value, or range of values, of a column.

    ``breaks_limit`` says whether a rate breaks the limit that was asked for by more than chance
    explains; None without a limit.
    """

    column: str
    value: str
    rows: int
    base_rate: float | None
    cost: float
    error: float
    alarms: float | None
    recall: float | None
    false_positive_rate: float | None
    undecided: float
    breaks_limit: bool | None = None


@dataclass(frozen=True)
class Finding:
    """Something about the data that a reader should know, with numbers.

    ``serious`` ones stop a strict run. ``caution`` says of a column what a promise stands on, where
    the column may be known only afterwards.
    """

    kind: str  # "leak", "identifier", "constant", "duplicate", "cost", "drift", "empty", "reading"
    columns: tuple[str, ...]
    text: str
    serious: bool = False
    caution: str = ""


@dataclass(frozen=True)
class GrayZone:
    """Rows whose best decision would change if the costs changed by a factor, or within a range.

    ``low`` and ``high`` are probabilities of the positive one of two classes, ``share`` the share
    of rows; ``factor`` is None where a range of costs was given.
    """

    low: float | None
    high: float | None
    share: float
    factor: float | None
