"""Tests of many small cases that are one test: what each takes is less than a test costs."""

import functools
import inspect


def every(names, values):
    """Run a test with each of several values, as `pytest.mark.parametrize` does in as many tests.

    For cases of microseconds that need no fixture of their own; the first that fails ends the test,
    and is named in its traceback.
    """
    names = [names] if isinstance(names, str) else list(names)
    values = [value if len(names) > 1 else (value,) for value in values]

    def decorate(test):
        @functools.wraps(test)
        def with_each(**fixtures):
            for case in values:
                test(**dict(zip(names, case, strict=True)), **fixtures)

        signature = inspect.signature(test)
        others = [p for p in signature.parameters.values() if p.name not in names]
        with_each.__signature__ = signature.replace(parameters=others)
        del with_each.__wrapped__  # whose signature is another
        return with_each

    return decorate
