"""Whose an exception or a warning is: said by this package, or by something it stands on."""

import dis
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NamedTuple, TextIO

import sklearn
from sklearn.exceptions import ConvergenceWarning

import grayzone

_NAME = f"{grayzone.__name__}."
_HERE = str(Path(grayzone.__file__).parent)
_SKLEARN = str(Path(sklearn.__file__).parent)
# What scikit-learn says of the data of any estimator, in its own or in NumPy's words.
_CHECKS = (f"{_SKLEARN}/utils", f"{_SKLEARN}/base.py")
# Classifiers of scikit-learn, which wrappers are fitted around: theirs is not ours.
_INNER = (f"{_SKLEARN}/linear_model",)
_SHORTEST = 15  # letters of a sentence
_RAISE = dis.opmap["RAISE_VARARGS"]


class Said(NamedTuple):
    """An exception or a warning that nobody should see.

    Attributes
    ----------
    name : str
        Its type.
    where : str
        The innermost place in the package.
    text : str
        What it says.
    trace : str
        How it came about.
    """

    name: str
    where: str
    text: str
    trace: str = ""


def place_of(frames: Iterable[traceback.FrameSummary]) -> str:
    """Return the innermost place in the package, of frames that go inwards."""
    own = [frame for frame in frames if frame.filename.startswith(_HERE)]
    if not own:
        return "outside"
    return f"{Path(own[-1].filename).relative_to(_HERE)}:{own[-1].name}"


def is_refusal(error: BaseException) -> bool:
    """Whether an exception is a sentence for the user: ours, or one of scikit-learn's checks.

    That is a ValueError or a TypeError, none of their subclasses but its own, which the package
    raises itself: one that NumPy raises in a line of the package is foreign.
    """
    plain = type(error) in (ValueError, TypeError)
    own = isinstance(error, (ValueError, TypeError)) and type(error).__module__.startswith(_NAME)
    if not (plain or own) or error.__traceback__ is None:
        return False
    last = _innermost(error.__traceback__)
    file, code = last.tb_frame.f_code.co_filename, last.tb_frame.f_code.co_code
    said = len(str(error)) >= _SHORTEST and " " in str(error)
    raised = code[last.tb_lasti] == _RAISE
    ours = raised and file.startswith((_HERE, _SKLEARN))
    return said and (ours or file.startswith(_CHECKS))


def is_inner(error: BaseException) -> bool:
    """Whether an exception is that of a classifier which a wrapper was given."""
    return any(f.filename.startswith(_INNER) for f in traceback.extract_tb(error.__traceback__))


def said_by(error: BaseException) -> Said:
    """Return what a foreign exception is."""
    frames = traceback.extract_tb(error.__traceback__)
    trace = "".join(traceback.format_exception(error))
    return Said(type(error).__name__, place_of(frames), str(error), trace)


def _innermost(link: TracebackType) -> TracebackType:
    while link.tb_next is not None:
        link = link.tb_next
    return link


class Ears:
    """Hear warnings: whether a fit was said to fall short, and what should not be heard at all."""

    def __init__(self) -> None:
        self.converged = True
        self.told: list[str] = []
        self.foreign: list[Said] = []

    def __enter__(self) -> "Ears":
        self._before = warnings.catch_warnings()
        self._before.__enter__()
        warnings.simplefilter("always")
        hook: Callable[..., None] = self._hear
        warnings.showwarning = hook
        return self

    def __exit__(self, *raised: Any) -> None:
        self._before.__exit__(*raised)

    def _hear(
        self,
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        frames = traceback.extract_stack(_speaker(sys._getframe(1)))
        known = [f.filename for f in frames if f.filename.startswith((_HERE, _SKLEARN))]
        checks = category is RuntimeWarning and bool(known) and known[-1].startswith(_CHECKS)
        if checks or any(name.startswith(_INNER) for name in known):
            return
        if issubclass(category, ConvergenceWarning):
            self.converged = False
        elif category is UserWarning and frames[-1].filename in known:
            self.told.append(str(message))
        else:
            trace = "".join(traceback.format_list(frames[-8:]))
            self.foreign.append(Said(category.__name__, place_of(frames), str(message), trace))


def _speaker(frame: FrameType | None) -> FrameType | None:
    """Return the frame that warns, not those of the library of warnings."""
    while frame is not None and Path(frame.f_code.co_filename).name == "warnings.py":
        frame = frame.f_back
    return frame
