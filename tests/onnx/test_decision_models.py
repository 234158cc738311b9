"""Decision models as files: from the columns of a table to decisions, on the command line too."""

import json
from functools import cache

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("skops")
pytest.importorskip("typer")

from exported import assert_same, decided

import grayzone
from fuzz import model_parts
from grayzone.cli import main
from grayzone.onnx import NotConvertibleError, run, to_onnx
from grayzone.scorecards import scorecard
from grayzone.training import candidates

NUMBERS = model_parts.small_table
NAMES = [name for name in candidates.MODELS if name != candidates.AUTO]


@cache
def table(kind="numbers", n=100):
    """Two numbers and a category, with gaps and a category that is rare."""
    made = NUMBERS("numbers", n).copy()
    rng = np.random.default_rng(0)
    made["colour"] = rng.choice(["red", "green", "blue"], n)
    made.loc[::7, ["a", "colour"]] = None
    made.loc[5, "colour"] = "odd"
    return made


@pytest.fixture
def model(monkeypatch):
    monkeypatch.setattr(model_parts, "small_table", table)
    return model_parts.small_model.__wrapped__


@pytest.mark.parametrize("name", NAMES)
def test_every_model_of_train(model, name):
    made = model(name, reject_cost=0.3 if name != "minimax" else None)
    file = to_onnx(made, table())
    rows = pd.concat([table(), table().assign(colour="unheard of", a=np.nan)])
    said = run(file, rows)
    assert_same(said, made, rows)
    facts = json.loads(file.metadata_props[0].value)
    assert facts["training_data_sha256"] == made.about["sha256"]
    assert facts["classes"] == made.classes_.tolist()


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("logistic-regression", {}),
        ("logistic-regression", {"max_fpr": 0.1}),
        ("tight-bound", {"reject_cost": 0.3}),
        ("truncated", {"reject_cost": 0.3}),
    ],
)
def test_linear_models_of_train_have_scorecards(model, name, asked):
    made = model(name, **asked)
    np.testing.assert_array_equal(scorecard(made).decide(table()), made.predict(table()))


def test_limits_and_costs_of_the_day(model):
    made = model("logistic-regression", max_fpr=0.1)
    np.testing.assert_array_equal(run(to_onnx(made), table())["label"], made.predict(table()))
    made = model("logistic-regression", n_classes=3, reject_cost=0.3)
    costs = np.array([[0.0, 1.0, 5.0], [2.0, 0.0, 1.0], [9.0, 1.0, 0.0]])
    said = run(to_onnx(made), table(), costs=costs, reject_cost=[0.4] * 3)
    expected = made.predict(table(), costs=costs, reject_cost=0.4)
    np.testing.assert_array_equal(decided(said), expected)


def test_expected_costs_are_in_the_order_of_the_classes(model):
    made = model("logistic-regression", n_classes=3, reject_cost=0.3)
    said = run(to_onnx(made, options={"expected_costs": True}), table())
    told = made.decide(table())
    for k, label in enumerate([*made.classes_, "undecided"]):
        np.testing.assert_allclose(said["expected_costs"][:, k], told[f"expected_cost_{label}"])


@pytest.mark.parametrize("column", ["day", "remark"])
def test_dates_and_free_text_cannot_go(column):
    mixed = model_parts.small_table("mixed").drop(columns="day" if column == "remark" else "remark")
    schema = model_parts.Schema.of(mixed)
    made = model_parts.small_model("logistic-regression", "mixed")
    fitted = made.estimator.fit(schema.apply(mixed), np.arange(len(mixed)) % 2)
    model = grayzone.DecisionModel(fitted, schema, made.stakes, None, made.about)
    with pytest.raises(NotConvertibleError, match=rf"'{column}'.*before it"):
        to_onnx(model)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    rng = np.random.default_rng(0)
    rows = (
        table()
        .drop(columns="colour")
        .assign(
            amount=np.round(rng.lognormal(1.0, 0.5, len(table())), 2),
            price=[
                f"{value:.2f}".replace(".", ",") for value in rng.uniform(1000, 2000, len(table()))
            ],
            kind=rng.choice(["new", "old"], len(table())),
            y=np.where(table()["b"] + rng.normal(0, 0.7, len(table())) > 0, "yes", "no"),
        )
    )
    rows.to_csv(folder / "rows.csv", index=False, sep=";")
    fast = ["--model", "logistic-regression", "--time-limit", "5"]
    asked = ["--target", "y", "--costs", "FN=amount,FP=2"]
    for name, more in (("model", ["--drop", "amount"]), ("learned", [])):
        args = ["train", str(folder / "rows.csv"), *asked, *more, *fast]
        assert main([*args, "--out", str(folder / name)]) == 0
    plain = ["train", str(folder / "rows.csv"), "--target", "y", *fast, "--reject-cost", "0.3"]
    assert main([*plain, "--out", str(folder / "plain")]) == 0
    return folder


@pytest.mark.parametrize("name", ["model", "learned", "plain"])
def test_the_command_line_exports_and_checks(trained, capsys, name):
    out = trained / f"{name}.onnx"
    assert main(["export", str(trained / name), "--to", "onnx", "-o", str(out), "--overwrite"]) == 0
    assert "To check it" in capsys.readouterr().out
    both = []
    for source, csv in ((out, "exported.csv"), (trained / name, "own.csv")):
        rows, target = str(trained / "rows.csv"), str(trained / csv)
        assert main(["predict", str(source), rows, "-o", target, "--json"]) == 0
        both.append(pd.read_csv(target))
    exported, own = both
    assert (exported["decision"] == own["decision"]).all()
    assert (exported["undecided"] == own["undecided"]).all()
    for label in ("no", "yes"):
        np.testing.assert_allclose(exported[f"probability_{label}"], own[f"probability_{label}"])
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["rows"] == len(own)


@pytest.mark.parametrize("to", ["scorecard", "sql"])
def test_the_command_line_writes_points(trained, to, capsys):
    out = trained / f"card.{to}"
    arguments = ["export", str(trained / "plain"), "--to", to, "-o", str(out), "--points", "20"]
    assert main([*arguments, "--table", "loans", "--json"]) == 0
    text, card = (
        out.read_text(),
        scorecard(grayzone.load_model(trained / "plain"), points_per_doubling=20.0),
    )
    assert text == (card.to_csv() if to == "scorecard" else card.to_sql("loans"))
    assert json.loads(capsys.readouterr().out)["to"] == to


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["export", "{plain}", "--to", "pdf", "-o", "{new}"], "--to must be onnx, scorecard, sql"),
        (["export", "{plain}", "-o", "{there}"], "exists already"),
        (["export", "{plain}", "--to", "sql", "-o", "{new}", "--points", "0"], "positive number"),
        (["export", "{model}", "--to", "sql", "-o", "{new}"], "Export the model to ONNX"),
        (["predict", "{lost}", "{rows}", "-o", "{out}"], "does not exist"),
        (["predict", "{broken}", "{rows}", "-o", "{out}"], "is no decision model"),
        (["predict", "{onnx}", "{rows}", "-o", "{out}", "--reasons", "3"], "--reasons is for"),
        (["predict", "{onnx}", "{short}", "-o", "{out}"], "lacks"),
    ],
)
def test_what_the_command_line_refuses(trained, capsys, arguments, says):
    (trained / "there.onnx").write_bytes(b"")
    (trained / "broken.onnx").write_bytes(b"no model")
    pd.DataFrame({"a": [1.0]}).to_csv(trained / "short.csv", index=False)
    if not (trained / "model.onnx").exists():
        assert main(["export", str(trained / "model"), "-o", str(trained / "model.onnx")]) == 0
    paths = {
        "plain": "plain",
        "model": "model",
        "new": "new.file",
        "there": "there.onnx",
        "lost": "lost.onnx",
        "broken": "broken.onnx",
        "onnx": "model.onnx",
        "rows": "rows.csv",
        "short": "short.csv",
        "out": "out.csv",
    }
    full = {name: str(trained / path) for name, path in paths.items()}
    assert main([argument.format(**full) for argument in arguments]) == 2
    assert says in capsys.readouterr().err
    assert not (trained / "new.file").exists()
