"""Importing grayzone.onnx makes skl2onnx know the estimators of this package."""

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("skl2onnx")

import skl2onnx
from exported import RELATIVE, SEVERAL, TWO, decided, fitted, overlapping, relative, several
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from grayzone.onnx import registered, run

NAMES = ["linear", "linear, undecided", "laplacian", "import points, search", "bounds, undecided"]
NAMES += ["bounds around", "minimax", "bases", "decisions", "limit", "ensemble"]


def check(model, X, y):
    pipeline = make_pipeline(StandardScaler(), fitted(model, X, y))
    pipeline = fitted(pipeline, X, y)
    said = run(skl2onnx.to_onnx(pipeline, X[:1]), X)
    np.testing.assert_array_equal(decided(said), pipeline.predict(X))
    if "probabilities" in said:
        assert relative(said["probabilities"], pipeline.predict_proba(X)) <= RELATIVE


@pytest.mark.parametrize("name", NAMES)
def test_pipelines_of_two_classes(name):
    check(TWO[name], *overlapping())


@pytest.mark.parametrize("name", ["linear", "import points", "decisions"])
def test_pipelines_of_several_classes(name):
    X, y = several()
    check(SEVERAL[name], X, np.array(["a", "b", "c"])[y])


def test_all_estimators_are_registered():
    import grayzone as gz

    public = {getattr(gz, name) for name in gz.__all__ if isinstance(getattr(gz, name), type)}
    assert set(registered.CLASSIFIERS) == public - {gz.DecisionModel}


def test_opsets_that_are_too_old_are_refused():
    X, y = overlapping()
    model = fitted(TWO["linear"], X, y)
    with pytest.raises(RuntimeError, match="at least opset"):
        skl2onnx.to_onnx(model, X[:1], target_opset=15)
