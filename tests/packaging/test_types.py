"""What type checkers see of the public API, in code of a user's who is strict about types."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src"
NUMBERS = r"ndarray\[tuple\[Any, \.\.\.\], dtype\[floating\[Any\]\]\]|NDArray\[floating\[Any\]\]"
LABELS = r"ndarray\[tuple\[Any, \.\.\.\], dtype\[Any\]\]|NDArray\[Any\]"
FLOATS = (
    r"ndarray\[tuple\[Any, \.\.\.\], dtype\[(numpy\.)?float64\]\]|NDArray\[float64\]"
    r"|ndarray\[tuple\[Any, \.\.\.\], dtype\[floating\[_64Bit\]\]\]"
)
MODEL = r"(?:grayzone\.training\.model\.)?DecisionModel"
ESTIMATORS = {
    "TruncatedLogisticRegression": "TruncatedLogisticRegression()",
    "TruncatedLogisticRegressionCV": "TruncatedLogisticRegressionCV()",
    "ImportVectorMachine": "ImportVectorMachine()",
    "ImportVectorMachineCV": "ImportVectorMachineCV()",
    "MinimaxProbabilityMachine": "MinimaxProbabilityMachine()",
    "SparseMinimaxProbabilityMachine": "SparseMinimaxProbabilityMachine()",
    "BayesDecisionClassifier": "BayesDecisionClassifier(TruncatedLogisticRegression())",
    "TightBoundLogisticRegression": "TightBoundLogisticRegression()",
    "TightBoundLogisticRegressionCV": "TightBoundLogisticRegressionCV()",
}
FIT_ALONE = ("TightBoundLogisticRegression", "TightBoundLogisticRegressionCV")
WITHOUT_PROBABILITIES = ("MinimaxProbabilityMachine", "SparseMinimaxProbabilityMachine")


def snippet():
    """Code of a user's, and what types it should reveal, in order."""
    lines, expected = ["import numpy as np", "import grayzone"], []

    def reveal(expression, pattern):
        lines.append(f"reveal_type({expression})")
        expected.append((expression, pattern))

    lines.append("from grayzone import TruncatedLogisticRegression")
    lines.append("X, y = np.zeros((4, 2)), np.array([0, 1, 0, 1])")
    for k, (name, made) in enumerate(ESTIMATORS.items()):
        lines.append(f"m{k} = grayzone.{made}.fit(X, y, sample_weight=None)")
        reveal(f"m{k}", rf"(grayzone\.estimators\.\w+\.)?{name}")
        if name in FIT_ALONE:
            continue
        reveal(f"m{k}.predict(X)", LABELS)
        reveal(f"m{k}.decision_function(X)", NUMBERS)
        if name not in WITHOUT_PROBABILITIES:
            reveal(f"m{k}.predict_proba(X=X)", NUMBERS)
            reveal(f"m{k}.predict_log_proba(X)", NUMBERS)
    reveal("m4.classes_", LABELS)
    reveal("m0.coef_", FLOATS)
    reveal("m4.intercept_", FLOATS)
    # what is imported only when it is asked for
    reveal('grayzone.train("table.csv", "target")', MODEL)
    reveal('grayzone.load_model("folder")', MODEL)
    reveal("grayzone.DecisionModel", rf"def \(.*\) -> {MODEL}|type\[{MODEL}\]")
    reveal("grayzone.report(m0, X, y)", r"(grayzone\.reporting\.(\w+\.)?)?Report")
    return "\n".join(lines) + "\n", expected


def check(command, revealed, folder):
    """Run a type checker on the snippet, and compare what it says with what is expected."""
    code, expected = snippet()
    (folder / "user_code.py").write_text(code)
    environment = {**os.environ, "MYPYPATH": str(SOURCE)}
    done = subprocess.run(
        [*command, "user_code.py"], capture_output=True, text=True, cwd=folder, env=environment
    )
    types = re.findall(revealed, done.stdout)
    assert len(types) == len(expected), done.stdout + done.stderr
    wrong = [
        f"{expression}: {shown}"
        for (expression, pattern), shown in zip(expected, types, strict=True)
        if not re.fullmatch(pattern, shown.replace("numpy.", ""))
    ]
    assert not wrong, "\n".join(wrong)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_mypy_in_strict_mode(tmp_path):
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-color-output"]
    command += ["--follow-imports=silent", f"--cache-dir={tmp_path / 'cache'}"]
    check(command, r'Revealed type is "(.*)"', tmp_path)


@pytest.mark.slow
def test_pyright(tmp_path):
    if shutil.which("pyright") is None:
        pytest.skip("pyright is not installed")
    settings = f'{{"extraPaths": ["{SOURCE.as_posix()}"], "typeCheckingMode": "standard"}}'
    (tmp_path / "pyrightconfig.json").write_text(settings)
    command = ["pyright", "--pythonpath", sys.executable]
    check(command, r'information: Type of ".*" is "(.*)"', tmp_path)
