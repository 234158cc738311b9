"""Progress of a fit, told to scikit-learn's callbacks; what depends on its version."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from grayzone.numerics.checks import Given, Result

# Frames between a method called by a decorated ``fit`` and the caller of ``fit``, for warnings.
FIT_DEPTH = 6

try:
    from sklearn.callback import FitCallback
    from sklearn.callback import with_callbacks as _with_callbacks
except ImportError:  # before scikit-learn 1.9 there is nobody to report to
    FIT_DEPTH = 5
    FitCallback = _with_callbacks = None

if FitCallback is not None and not TYPE_CHECKING:
    from sklearn.callback import CallbackSupportMixin
else:  # scikit-learn has no types, and ``set_callbacks`` is to keep that of the estimator

    class CallbackSupportMixin:
        """An estimator that callbacks may listen to."""

        if TYPE_CHECKING:

            def set_callbacks(self, *callbacks: Any) -> Self:
                """Set callbacks for the estimator."""


__all__ = ["FIT_DEPTH", "CallbackSupportMixin", "Report", "fit_progress", "with_callbacks"]

Report = Callable[..., bool]


def with_callbacks(method: Callable[Given, Result]) -> Callable[Given, Result]:
    """Tear callbacks down after a fit, where scikit-learn has any; types stay as they are."""
    decorated: Callable[Given, Result] = method
    if _with_callbacks is not None:
        decorated = _with_callbacks(method)
    return decorated


@contextmanager
def fit_progress(
    estimator: Any, task: str, n_tasks: int | None = None, *, X: Any = None, y: Any = None
) -> Iterator[Report | None]:
    """Report to scikit-learn's callbacks how a fit goes on; None where nobody listens.

    Parameters
    ----------
    estimator : estimator
        One whose ``fit`` is decorated by ``with_callbacks``.
    task : str
        What each subtask is called.
    n_tasks : int, optional
        How many there will be, where known.
    X, y : objects
        What the fit was given; callbacks may ask for them.

    Yields
    ------
    report : callable or None
        To be called at the end of each subtask with a function that returns the fitted attributes
        by which the estimator would predict by now, and with facts (keywords), which callbacks find
        as attributes of that estimator, as ``dual_gap_``; true if the fit should stop.
    """
    if FitCallback is None:
        yield None
        return
    # scikit-learn documents this method, for all its underscore, for estimators to call
    root = estimator._init_callback_context(max_subtasks=n_tasks)
    if not _has_listeners(estimator):
        yield None
        return
    data = {"estimator": estimator, "X": X, "y": y}
    root.call_on_fit_task_begin(**data)

    def report(attributes: Callable[[], dict[str, Any]] | None = None, **facts: Any) -> bool:
        context = root.subcontext(task_name=task)
        context.call_on_fit_task_begin(**data)
        if attributes is None:
            return bool(context.call_on_fit_task_end(**data, metadata=facts))
        # not as metadata, which scikit-learn's scorers take for that of the rows
        told = {f"{name}_": value for name, value in facts.items()}
        return bool(
            context.call_on_fit_task_end(
                **data, reconstruction_attributes=lambda: attributes() | told
            )
        )

    yield report
    root.call_on_fit_task_end(**data)


def _has_listeners(estimator: Any) -> bool:
    """Whether callbacks are set; no public name tells, but they are a list of the estimator's."""
    lists = (value for value in vars(estimator).values() if isinstance(value, list))
    return any(isinstance(some, FitCallback) for values in lists for some in values[:1])
