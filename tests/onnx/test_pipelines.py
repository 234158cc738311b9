"""Pipelines: steps before the classifier, tables with columns of every kind, and the README's."""

import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from exported import assert_same, overlapping, several
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)

import grayzone as gz
from grayzone.onnx import run, to_onnx

ROOT = Path(__file__).resolve().parents[2]
STEPS = {
    "scaler": StandardScaler(),
    "scaler, no mean": StandardScaler(with_mean=False),
    "robust": RobustScaler(),
    "range": MinMaxScaler(clip=True),
    "largest": MaxAbsScaler(),
    "bins": KBinsDiscretizer(4, quantile_method="averaged_inverted_cdf"),
    "bin numbers": make_pipeline(
        KBinsDiscretizer(4, encode="ordinal", quantile_method="averaged_inverted_cdf"),
        StandardScaler(),
    ),
    "components": PCA(3, whiten=True),
    "best": SelectKBest(k=3),
    "roots": make_pipeline(FunctionTransformer(np.exp), FunctionTransformer(np.log1p)),
    "union": FeatureUnion([("a", StandardScaler()), ("b", PCA(1))], transformer_weights={"b": 0.3}),
    "some": ColumnTransformer([("a", StandardScaler(), [0, 2]), ("b", "passthrough", slice(3, 5))]),
    "the rest": ColumnTransformer([("a", "drop", [0])], remainder=StandardScaler()),
}


@pytest.mark.parametrize("step", STEPS)
def test_steps_before_the_classifier(step):
    X, y = overlapping()
    model = make_pipeline(STEPS[step], gz.TruncatedLogisticRegression(reject_cost=0.2)).fit(X, y)
    assert_same(run(to_onnx(model, X), X), model, X)


def test_gaps_are_filled():
    X, y = overlapping()
    X = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    for imputer in (SimpleImputer(), SimpleImputer(strategy="median", add_indicator=True)):
        model = make_pipeline(imputer, StandardScaler(), gz.TruncatedLogisticRegression())
        assert_same(run(to_onnx(model.fit(X, y), X), X), model, X)


def table(n=300):
    rng = np.random.default_rng(0)
    made = pd.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "amount": rng.lognormal(3.0, 1.0, n),
            "kind": rng.choice(["new", "old", "very old"], n),
            "region": rng.choice(["N", "S", "E", "W"], n, p=[0.4, 0.4, 0.18, 0.02]),
            "member": rng.random(n) < 0.5,
        }
    )
    made.loc[::7, "amount"] = np.nan
    y = (made["age"] + 20 * (made["kind"] == "new") + rng.normal(0, 20, n) > 60).to_numpy()
    return made, np.where(y, "yes", "no")


def columns(**encoder):
    numbers = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    return make_column_transformer(
        (numbers, ["age", "amount"]),
        (OneHotEncoder(**encoder), ["kind", "region"]),
        ("passthrough", ["member"]),
    )


@pytest.mark.parametrize(
    "encoder",
    [
        {"handle_unknown": "ignore"},
        {"drop": "first"},
        {"min_frequency": 30, "handle_unknown": "infrequent_if_exist"},
        {"max_categories": 3, "handle_unknown": "ignore"},
    ],
    ids=str,
)
def test_tables_of_numbers_and_categories(encoder):
    X, y = table()
    model = make_pipeline(columns(**encoder), gz.TruncatedLogisticRegression(reject_cost=0.2))
    model.fit(X, y)
    made = to_onnx(model, X)
    assert [i.name for i in made.graph.input][:5] == list(X.columns)
    assert_same(run(made, X), model, X)
    if "handle_unknown" in encoder:
        odd = X.assign(kind="unheard of")
        assert_same(run(made, odd), model, odd)


def test_a_category_that_the_fit_would_refuse_is_none_to_decide_about():
    X, y = table()
    model = make_pipeline(columns(), gz.TruncatedLogisticRegression(reject_cost=0.2)).fit(X, y)
    said = run(to_onnx(model, X), X.assign(kind="unheard of"))
    assert set(said["decision"]) == {"undecided"}
    assert np.isnan(said["probabilities"]).all()


def test_gaps_of_text_are_categories_or_filled():
    X, y = table()
    X["kind"] = X["kind"].astype(object).where(np.arange(len(X)) % 9 > 0, None)
    one_hot = OneHotEncoder(handle_unknown="ignore")
    fill = make_pipeline(SimpleImputer(missing_values=None, strategy="most_frequent"), one_hot)
    for encoder in (one_hot, fill):
        pipeline = make_column_transformer((encoder, ["kind"]), ("passthrough", ["age"]))
        model = make_pipeline(pipeline, gz.TightBoundLogisticRegression()).fit(
            X[["kind", "age"]], y
        )
        assert_same(run(to_onnx(model, X[["kind", "age"]]), X), model, X[["kind", "age"]])


def test_codes_of_categories_and_columns_by_their_type():
    X, y = table()
    codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    pipeline = make_column_transformer(
        (codes, make_column_selector(dtype_exclude=[np.number, bool])),
        (SimpleImputer(), make_column_selector(dtype_include=np.number)),
    )
    model = make_pipeline(pipeline, gz.ImportVectorMachine(max_import_points=5)).fit(X, y)
    made = to_onnx(model, X)
    assert_same(run(made, X), model, X)
    assert_same(run(made, X.assign(region="?")), model, X.assign(region="?"))


def test_numbers_as_categories():
    X, y = table()
    X = X[["age"]] // 10
    model = make_pipeline(
        OneHotEncoder(handle_unknown="ignore"), gz.TruncatedLogisticRegression()
    ).fit(X, y)
    assert_same(run(to_onnx(model, X), X), model, X)
    array = X.to_numpy().astype(np.float64)
    model.fit(array, y)
    odd = np.vstack([array, [[77.0]]])
    assert_same(run(to_onnx(model, array), odd), model, odd)


def test_a_table_of_polars():
    X, y = table()
    X = pytest.importorskip("polars").from_pandas(X[["age", "amount"]])
    steps = SimpleImputer(), StandardScaler(), gz.TruncatedLogisticRegression()
    model = make_pipeline(*steps).fit(X, y)
    assert_same(run(to_onnx(model, X), X), model, X)


@pytest.mark.parametrize("kind", ["masks", "categories"])
def test_tables_of_other_kinds(kind):
    X, y = table()
    X = X.drop(columns="member")
    if kind == "masks":
        X = X.assign(age=X["age"].astype("Int64"), amount=X["amount"].astype("Float64"))
    else:
        X = X.assign(kind=X["kind"].astype("category"))
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    pipeline = make_column_transformer(
        (numbers, ["age", "amount"]), (OneHotEncoder(), ["kind", "region"])
    )
    model = make_pipeline(pipeline, gz.TruncatedLogisticRegression()).fit(X, y)
    assert_same(run(to_onnx(model, X), X), model, X)


def test_a_wrapper_around_a_pipeline():
    X, y = table()
    inner = make_pipeline(columns(), LogisticRegression())
    for model in (
        gz.BayesDecisionClassifier(inner, costs={"no": 1.0, "yes": 3.0}, reject_cost=0.4),
        gz.RateLimitClassifier(inner, max_fpr=0.2, random_state=0),
        gz.DecisionEnsembleClassifier([("own", inner)], random_state=0),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, y)
        assert_same(run(to_onnx(model, X), X), model, X)


def test_an_ensemble_on_a_table():
    X, y = table()
    names = ["logistic-regression", "random-forest", "boosting", "splines"]
    model = gz.DecisionEnsembleClassifier(names, reject_cost=0.3, random_state=0).fit(X, y)
    made = to_onnx(model, X)
    assert_same(run(made, X), model, X)
    odd = X.assign(region="?", amount=np.nan)
    assert_same(run(made, odd), model, odd)


def test_steps_that_only_skl2onnx_knows():
    pytest.importorskip("skl2onnx")
    X, y = several()
    rows = X[:, :4]
    model = make_pipeline(PolynomialFeatures(2), gz.TightBoundLogisticRegression()).fit(rows, y)
    said = run(to_onnx(model, rows), rows)
    np.testing.assert_allclose(
        said["probabilities"], model.predict_proba(rows), rtol=1e-4, atol=1e-6
    )
    np.testing.assert_array_equal(said["label"], model.predict(rows))


BARE = """
import sys
allowed = {"numpy", "onnxruntime"}
class Only:
    def find_spec(self, name, path=None, target=None):
        root = name.partition(".")[0]
        if root in {"sklearn", "scipy", "grayzone", "onnx", "skl2onnx", "pandas", "joblib"}:
            raise ImportError(f"{name} is not there")
sys.meta_path.insert(0, Only())
import numpy as np, onnxruntime
options = onnxruntime.SessionOptions()
options.log_severity_level = 3
session = onnxruntime.InferenceSession(sys.argv[1], options)
X = np.load(sys.argv[2])
label, probabilities = session.run(None, {"X": X})
np.savez(sys.argv[3], label=label, probabilities=probabilities)
assert not {"sklearn", "grayzone", "scipy", "onnx"} & set(sys.modules)
"""


def test_the_readme_pipeline_runs_where_there_is_only_onnxruntime_and_numpy(tmp_path):
    readme, names = (ROOT / "README.md").read_text(), {}
    example = re.search(r"^```python\n(.*?)^```", readme, re.M | re.S)[1]
    exec(compile(example, "README.md", "exec"), names)
    model, X = names["model"], names["X_test"]
    made = to_onnx(model, names["X_train"])
    (tmp_path / "model.onnx").write_bytes(made.SerializeToString())
    np.save(tmp_path / "X.npy", X)
    paths = [str(tmp_path / name) for name in ("model.onnx", "X.npy", "said.npz")]
    done = subprocess.run(
        [sys.executable, "-c", BARE, *paths], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    with np.load(paths[2]) as said:
        assert_same(dict(said), model, X)
