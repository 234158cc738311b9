"""A callback of scikit-learn that writes down what it is told."""


class Recording:
    """Writes down every call.

    At the end of the k-th task of one name it raises, or asks to stop.
    """

    def __init__(self, task="iteration", *, stop_at=None, raise_at=None, error=KeyboardInterrupt):
        self.calls, self.task = [], task
        self.stop_at, self.raise_at, self.error = stop_at, raise_at, error

    def _write(self, kind, context, metadata=None):
        self.calls.append((kind, context.task_name, context.task_id, metadata))

    def setup(self, estimator, context):
        self._write("setup", context)

    def teardown(self, estimator, context):
        self._write("teardown", context)

    def on_fit_task_begin(self, estimator, context, *, metadata=None, **more):
        self._write("begin", context, metadata)

    def on_fit_task_end(self, estimator, context, *, metadata=None, fitted_estimator=None, **more):
        if fitted_estimator is not None:
            metadata = {name.removesuffix("_"): v for name, v in vars(fitted_estimator).items()}
        self._write("end", context, metadata)
        if self.raise_at is not None and len(self.facts) >= self.raise_at:
            raise self.error
        return self.stop_at is not None and len(self.facts) >= self.stop_at

    @property
    def facts(self):
        """What the ends of these tasks told."""
        return [m for kind, task, _, m in self.calls if (kind, task) == ("end", self.task)]

    def kinds(self, task):
        """Kinds of the calls about tasks of a name."""
        return [kind for kind, name, _, _ in self.calls if name == task]
