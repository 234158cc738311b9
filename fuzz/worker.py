"""A process that checks the cases of one batch: ``python -m fuzz.worker JOB``.

The job comes as JSON. On the standard output, a line before each case says which it is, and one
after it what was found; so that a case which ends the process is known.
"""

import faulthandler
import json
import os
import sys
import time
from typing import Any

from fuzz.subjects import subject_of


def main(job: dict[str, Any]) -> None:
    """Check the cases of a batch.

    Parameters
    ----------
    job : dict
        ``subject``, ``seed``, ``batch``, ``size``; ``first``, the case to begin with; and ``limit``
        in seconds, for each case.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what is printed while checking is no answer
    subject = subject_of(job["subject"])
    cases = subject.draw(job["seed"], job["batch"], job["size"])
    check = subject.load()

    def answer(**values: Any) -> None:
        answers.write(json.dumps(values) + "\n")
        answers.flush()

    faulthandler.enable()
    for number, case in enumerate(cases[job["first"] :], start=job["first"]):
        answer(number=number, case=case)
        faulthandler.dump_traceback_later(job["limit"], exit=True)
        began = time.perf_counter()
        outcome = check(case)
        faulthandler.cancel_dump_traceback_later()
        answer(outcome=outcome, seconds=time.perf_counter() - began)
    answer(end=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
