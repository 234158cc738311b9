"""The command line: tables in, models and decisions out, and one line for what is wrong."""

import contextlib
import errno
import gzip
import io
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("typer")
pytest.importorskip("skops")

import skops.io
from sklearn.metrics import roc_auc_score

import grayzone
from fuzz.model_parts import forge, held_in
from grayzone.cli import main
from grayzone.decision import near_threshold
from grayzone.tables import output
from grayzone.tables.reading import as_text
from grayzone.training import candidates, comparison, job
from grayzone.training import model as model_module

FAST = ("--model", "logistic-regression")
FILES = {"model.skops", "metrics.json", "report.html"}
# what columns are taken for, and which models have been fitted
PROGRESS = re.compile(
    "(done|at work|changed): |Columns to learn from|[┏┃┡│└+|]|and [0-9,]+ columns more"
)
NAMES = [*candidates.FAMILIES, "logistic-regression", "boosting"]


@pytest.fixture(autouse=True)
def few_penalties(monkeypatch):
    """Two penalties and few folds: enough for a search to be one."""
    monkeypatch.setattr(candidates, "CS", (0.1, 10.0))
    monkeypatch.setattr(candidates, "KERNEL_CS", (1.0, 10.0))
    monkeypatch.setattr(candidates, "FOLDS", 2)
    monkeypatch.setattr(comparison, "FOLDS", 3)
    monkeypatch.setattr(candidates, "ZONES", (1.0,))
    monkeypatch.setattr(candidates, "BASES", 4)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments):
    """Exit code, standard output and error; what every failure has to look like is checked."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(argument) for argument in arguments])
    lines = err.getvalue().splitlines()
    assert "Traceback" not in err.getvalue()
    told = [line for line in lines if not PROGRESS.match(line)]
    if code:
        assert len(told) == 1, lines
        assert told[0].startswith("grayzone: ")
        assert "unexpected" not in told[0]
    else:
        assert not told
    return code, out.getvalue(), err.getvalue()


def fails(*arguments, code=2, match):
    """Run something that cannot work, which leaves nothing behind; give the message."""
    before = sorted(Path.cwd().rglob("*"))
    got, out, err = run(*arguments)
    assert got == code, err
    assert out == ""
    assert sorted(Path.cwd().rglob("*")) == before
    assert re.search(match, err), err
    return err


def make(n=60, classes=("no", "yes"), seed=0):
    """Two features in steps of 1/8, so that text holds them exactly, and noisy labels."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n, 2)) * 8) / 8
    noisy = X[:, 0] + 0.5 * rng.normal(size=n)
    cuts = np.quantile(noisy, np.arange(1, len(classes)) / len(classes))
    return pd.DataFrame(
        {"a": X[:, 0], "b": X[:, 1], "y": np.take(classes, cuts.searchsorted(noisy))}
    )


def mixed(n=60, seed=0):
    """Numbers, categories, free text, dates and truths, all with gaps."""
    rng = np.random.default_rng(seed)
    table = make(n, seed=seed)
    table["colour"] = rng.choice(["red", "green", "blue"], n)
    table["remark"] = [f"remark {k * k} of {n}" for k in range(n)]
    days = rng.integers(0, 900, n)
    table["day"] = (pd.Timestamp("2020-01-01") + pd.to_timedelta(days, "D")).strftime("%Y-%m-%d")
    table["told"] = rng.choice([True, False], n)
    for k, name in enumerate(["a", "colour", "remark", "day", "told"]):
        table[name] = table[name].astype(object)
        table.loc[k::11, name] = None
    table["a"] = table["a"].astype(float)
    return table


def write(table, name="table.csv", **options):
    path = Path(name)
    if path.suffix in (".parquet", ".arrow", ".feather"):
        getattr(table, "to_parquet" if path.suffix == ".parquet" else "to_feather")(path)
    else:
        table.to_csv(path, index=False, **options)
    return path


def train(table, *options, out="out", target="y", model=FAST):
    """Train, and give the metrics."""
    path = table if isinstance(table, Path) else write(table)
    code, _, err = run("train", path, "--target", target, *model, "--out", out, *options)
    assert code == 0, err
    assert {file.name for file in Path(out).iterdir()} == FILES
    return json.loads(
        Path(out, "metrics.json").read_text(encoding="utf-8"), parse_constant=pytest.fail
    )


def predict(table, *options, model="out", output="decisions.csv"):
    path = table if isinstance(table, Path) else write(table, "asked.csv")
    code, _, err = run("predict", model, path, "-o", output, *options)
    assert code == 0, err
    if str(output).endswith(".parquet"):
        return pd.read_parquet(output)
    return pd.read_csv(output, sep="\t" if ".tsv" in str(output) else ",")


def parts(decided, metrics):
    """Probabilities and expected costs as arrays, columns in the order of the classes."""
    names = list(metrics["classes"])
    proba = decided[[f"probability_{name}" for name in names]].to_numpy()
    actions = names + ["undecided"] * (metrics["reject_cost"] is not None)
    return proba, decided[[f"expected_cost_{name}" for name in actions]].to_numpy(), actions


def check_decisions(decided, metrics):
    """Costs are expectations, decisions Bayes', and rows near a threshold are told."""
    proba, expected, actions = parts(decided, metrics)
    assert np.abs(proba.sum(axis=1) - 1.0).max() < 1e-6  # features may have single precision
    costs = np.array(metrics["costs"])
    if metrics["reject_cost"] is not None:
        costs = np.column_stack([costs, np.full(len(costs), metrics["reject_cost"])])
    np.testing.assert_allclose(expected, proba @ costs, rtol=1e-12, atol=1e-14)
    named = as_text(decided["decision"])  # 1.0 is the class 1 where all labels are whole
    if metrics["max_fpr"] is None:
        places = [actions.index(name) for name in named]
        paid = expected[np.arange(len(places)), places]
        # rounding may turn a tie, and nothing else
        np.testing.assert_allclose(paid, expected.min(axis=1), rtol=1e-6)
    else:
        above = proba[:, 1] >= metrics["threshold"]
        assert (named == np.take(actions, above.astype(int))).all()
    near = near_threshold(proba, metrics["costs"], reject_cost=metrics["reject_cost"])
    if metrics["max_fpr"] is not None:
        near = near_threshold(proba, [metrics["threshold"], 1.0 - metrics["threshold"]])
    assert (decided["in_gray_zone"] == near).all()
    may_be = metrics["reject_cost"] is not None  # "undecided" may be a label, too
    assert (decided["undecided"] == (may_be & (named == "undecided"))).all()


def check_metrics(metrics, table, target="y"):
    """Recompute the account from its confusion table."""
    confusion, costs = np.array(metrics["confusion"]), np.array(metrics["costs"])
    truth = table[target].astype(str)
    assert metrics["counts"] == [int((truth == name).sum()) for name in metrics["classes"]]
    assert confusion.sum(axis=1).tolist() == metrics["counts"]
    n = metrics["n_rows"]
    assert n == len(table)
    all_costs = costs
    if metrics["reject_cost"] is not None:
        all_costs = np.column_stack([costs, np.full(len(costs), metrics["reject_cost"])])
        assert metrics["undecided"] == pytest.approx(confusion[:, -1].sum() / n, rel=1e-12)
    mean = (confusion * all_costs).sum() / n
    assert metrics["mean_cost"] == pytest.approx(mean, rel=1e-12)
    # one error more than was seen, of the dearest
    most = all_costs.max()
    mean = (confusion * all_costs).sum() + most
    square = ((confusion * all_costs**2).sum() + most**2) / (n + 1) - (mean / (n + 1)) ** 2
    assert metrics["mean_cost_error"] == pytest.approx(np.sqrt(square / (n + 2)), rel=1e-9)
    always = (np.array(metrics["counts"]) @ costs) / n
    np.testing.assert_allclose(metrics["always"], always, rtol=1e-12)
    if len(costs) == 2:
        fp, tp = confusion[:, 1]
        counts = metrics["counts"]
        assert metrics["recall"] == pytest.approx(tp / counts[1])
        assert metrics["false_positive_rate"] == pytest.approx(fp / counts[0])
        if tp + fp:
            assert metrics["precision"] == pytest.approx(tp / (tp + fp))


# Every candidate: saved, loaded with the trusted list alone, and predicting the same.


@pytest.mark.parametrize("name", NAMES)
def test_every_candidate_decides_by_costs_and_survives_saving(here, name, monkeypatch):
    fitted = []
    save = model_module.DecisionModel.save
    monkeypatch.setattr(
        model_module.DecisionModel,
        "save",
        lambda self, path: fitted.append(self) or save(self, path),
    )
    table = make()
    metrics = train(table, "--costs", "FN=5,FP=1", model=("--model", name))
    assert metrics["classes"] == ["no", "yes"]
    assert metrics["costs"] == [[0.0, 1.0], [5.0, 0.0]]
    assert metrics["threshold"] == pytest.approx(1 / 6)
    check_metrics(metrics, table)
    decided = predict(table)
    check_decisions(decided, metrics)
    np.testing.assert_allclose(
        parts(decided, metrics)[0], fitted[0].predict_proba(table), rtol=1e-12, atol=1e-15
    )
    assert (decided["decision"] == fitted[0].predict(table)).all()
    # a minimax machine of four bases may find nothing: roundings decide between bases
    assert name == "minimax" or decided["decision"].nunique() == 2
    # the first feature alone tells nearly as much: its own area is 0.93
    assert roc_auc_score(table["y"] == "yes", decided["probability_yes"]) > 0.85


@pytest.mark.parametrize("name", [name for name in NAMES if name != "minimax"])
def test_every_candidate_with_three_classes_and_abstention(here, name):
    table = make(75, ("low", "mid", "top"))
    metrics = train(table, "--reject-cost", "0.4", model=("--model", name))
    assert metrics["classes"] == ["low", "mid", "top"]
    assert metrics["threshold"] is None
    check_metrics(metrics, table)
    decided = predict(table)
    check_decisions(decided, metrics)
    assert set(decided["decision"]) >= {"low", "top", "undecided"}


def test_under_a_limit_models_are_compared_by_the_positives_they_miss(here):
    table = make(300)
    metrics = train(table, "--max-fpr", "0.2", model=("--model", "logistic-regression"))
    (only,) = metrics["compared"]  # rules that need no model keep any limit, or none
    assert only["measure"] == "share of positives missed at the limit"
    # a share of the positives, and the standard error of such a share: not one over all rows
    n = metrics["counts"][1]
    share = only["mean"]
    assert share * n == pytest.approx(round(share * n))
    assert only["error"] == pytest.approx(np.sqrt(share * (1 - share) / (n - 1)))


def test_minimax_is_for_two_classes(here):
    path = write(make(75, ("low", "mid", "top")))
    fails("train", path, "--target", "y", "--model", "minimax", match="minimax: it is for two")


LIMITABLE = NAMES


@pytest.mark.parametrize("name", LIMITABLE)
def test_every_candidate_keeps_a_limit_on_false_positives(here, name):
    # 45 held-out negatives: the threshold lets 4 of them through, for the limit to hold on new rows
    table = make(300)
    metrics = train(table, "--max-fpr", "0.2", model=("--model", name))
    assert metrics["max_fpr"] == 0.2
    check_metrics(metrics, table)
    limit = metrics["limit"]
    assert (limit["kind"], limit["limit"], limit["confidence"]) == ("max_fpr", 0.2, 0.95)
    assert 2 / 45 < limit["reached"] < 4.5 / 45  # of rows with equal scores all or none
    assert limit["low"] < limit["reached"] < limit["high"]
    assert metrics["recall"] > 0.5
    # 500 new rows have a rate of 0.2 with a standard deviation of 0.018
    fresh = make(1_000, seed=1)
    decided = predict(fresh)
    check_decisions(decided, metrics)
    alarms = decided["decision"] == "yes"
    assert 0.02 < alarms[fresh["y"] == "no"].mean() < 0.2 + 2 * 0.018


@pytest.mark.parametrize("name", ["logistic-regression", "boosting", "truncated"])
def test_columns_of_every_kind_with_gaps(here, name):
    table = mixed()
    metrics = train(table, model=("--model", name))
    check_metrics(metrics, table)
    decided = predict(table)
    check_decisions(decided, metrics)
    code, out, _ = run("explain", "out", "--json")
    kinds = {column["name"]: column["kind"] for column in json.loads(out)["columns"]}
    assert code == 0
    assert kinds == {
        "a": "number",
        "b": "number",
        "colour": "text",
        "remark": "text",
        "day": "date",
        "told": "number",
    }
    # a model of one row at a time is the same model
    single = predict(table.iloc[[7]])
    assert single["decision"][0] == decided["decision"][7]
    np.testing.assert_allclose(
        single["probability_yes"][0], decided["probability_yes"][7], rtol=1e-5
    )


def test_text_of_many_values_is_encoded_by_the_seed(here):
    table = mixed()
    first = train(table, out="one")
    second = train(table, out="two")
    assert first["mean_cost"] == second["mean_cost"]
    one = predict(table, model="one", output="one.csv")
    two = predict(table, model="two", output="two.csv")
    pd.testing.assert_frame_equal(one, two, check_exact=True)


# Choosing


def test_auto_keeps_the_ensemble_and_compares_on_the_same_rows(here, monkeypatch):
    for name in ("minimax", "import-vector"):
        monkeypatch.delitem(candidates.FAMILIES, name)
    path = write(make())
    code, out, err = run("train", path, "--target", "y", "--out", "out")
    assert code == 0
    done = re.findall(r"^done: (\S+) \(\d+ s\)$", err, re.MULTILINE)
    assert done == ["ensemble", *candidates.FAMILIES, "explanations"]
    assert err.startswith("Columns to learn from\n")
    assert "\x1b" not in out
    metrics = json.loads(Path("out/metrics.json").read_text())
    assert out.startswith(metrics["verdict"]["sentence"])
    compared = {c["name"]: c for c in metrics["compared"]}
    assert [c["name"] for c in metrics["compared"] if c["chosen"]] == ["ensemble"]
    rules = {"always no", "always yes"}
    assert set(compared) == {"ensemble", *candidates.MEMBERS, *candidates.FAMILIES, *rules}
    assert metrics["about"]["model"] == "ensemble"
    assert metrics["mean_cost"] == pytest.approx(compared["ensemble"]["mean"], rel=1e-12)
    for name, c in compared.items():
        if name == "ensemble":
            assert c["difference"] is None
        else:  # on the same rows, differences of means are means of differences
            gap = c["mean"] - metrics["mean_cost"]
            assert c["difference"] == pytest.approx(gap, abs=1e-12)


def test_what_there_is_no_work_left_for_is_said(here):
    path = write(make(75, ("low", "mid", "top")))
    options = ("--out", "out", "--time-limit", "2", "--prefer", "simple")
    code, out, _ = run("train", path, "--target", "y", *options)
    assert code == 0
    metrics = json.loads(Path("out/metrics.json").read_text())
    left = {c["name"]: c["left_out"] for c in metrics["compared"] if c["left_out"]}
    assert left["minimax"] == "it is for two classes"
    assert re.fullmatch("about [0-9.]+ s of work, [0-9.]+ s left", left["truncated"])
    joined = " ".join(out.split())
    assert f"truncated ({left['truncated']})" in joined
    # the simplest one within a standard error is kept, and said to be
    kept = metrics["about"]["model"]
    assert kept in candidates.BY_SIMPLICITY
    assert f"{kept} is kept: it is the simplest model within one standard error" in joined


# Kinds of tables


def kinds(table):
    """The same table in all kinds of files."""
    import pyarrow as pa

    dated = table.assign(day=pd.to_datetime(table["day"]))
    arrow = pa.Table.from_pandas(dated.assign(told=table["told"].astype("boolean")))
    with pa.OSFile("stream.arrow", "wb") as file, pa.ipc.new_stream(file, arrow.schema) as stream:
        stream.write_table(arrow)
    Path("latin.csv").write_bytes(table.to_csv(index=False).encode("latin-1"))
    Path("wide.csv").write_bytes(table.to_csv(index=False).encode("utf-16"))
    Path("old.txt").write_text(table.to_csv(index=False, sep="|"))
    return [
        write(table, "plain.csv"),
        write(table, "packed.csv.gz"),
        write(table, "tabs.tsv", sep="\t"),
        write(table, "packed.tsv.gz", sep="\t"),
        write(table, "semicolons.csv", sep=";"),
        write(table, "mark.csv", encoding="utf-8-sig"),
        Path("latin.csv"),
        Path("wide.csv"),
        Path("old.txt"),
        write(dated.astype({"colour": "category"}), "typed.parquet"),
        write(dated, "typed.feather"),
        Path("stream.arrow"),
    ]


def test_every_kind_of_table_gives_the_same_features(here):
    table = mixed().drop(columns="remark").replace({"colour": {"red": "röd"}})
    from grayzone.tables.reading import read_table
    from grayzone.tables.schema import Schema

    paths = kinds(table)
    first = read_table(paths[0])
    schema = Schema.of(first)
    expected = schema.apply(first)
    assert set(expected["colour"].dropna()) == {"röd", "green", "blue"}
    for path in paths[1:]:
        got = read_table(path)
        mine = Schema.of(got)
        assert [(c.name, c.kind) for c in mine.columns] == [
            (c.name, c.kind) for c in schema.columns
        ]
        for features in (mine.apply(got), schema.apply(got)):
            pd.testing.assert_frame_equal(
                features.astype({"day": "datetime64[ns]"}),
                expected.astype({"day": "datetime64[ns]"}),
                check_exact=True,
            )


@pytest.mark.parametrize("name", ["t.tsv.gz", "t.parquet", "t.arrow"])
def test_a_model_of_one_kind_of_table_decides_on_another(here, name):
    table = make()
    train(write(table, "t.csv"), out="csv")
    options = {"sep": "\t"} if "tsv" in name else {}
    other = write(table, name, **options)
    train(other, out="other")
    one = predict(other, model="csv", output="one.csv")
    two = predict(Path("t.csv"), model="other", output="two.csv")
    pd.testing.assert_frame_equal(one, two, check_exact=True)


@pytest.mark.parametrize("name", ["d.csv", "d.csv.gz", "d.tsv", "d.parquet"])
def test_decisions_are_written_in_the_kind_asked_for(here, name):
    table = make()
    metrics = train(table)
    decided = predict(table, output=name)
    check_decisions(decided, metrics)
    assert list(decided.columns) == [
        "decision",
        "undecided",
        "probability_no",
        "probability_yes",
        "in_gray_zone",
        "expected_cost_no",
        "expected_cost_yes",
    ]
    raw = Path(name).read_bytes()
    assert raw.startswith(b"\x1f\x8b") == name.endswith(".gz")
    assert raw.startswith(b"PAR1") == name.endswith("parquet")


def test_keep_puts_the_tables_own_columns_beside_decisions(here):
    table = make()
    train(table)
    plain = predict(table)
    kept = predict(table, "--keep")
    pd.testing.assert_frame_equal(kept[plain.columns], plain)
    pd.testing.assert_frame_equal(kept[["a", "b", "y"]], table)
    clash = write(table.assign(decision="mine"), "clash.csv")
    fails("predict", "out", clash, "-o", "k.csv", "--keep", match="columns 'decision' already")
    assert len(predict(clash, output="k.csv")) == len(table)


def test_an_index_of_pandas_is_no_column(here):
    table = make()
    table.index = [0] * len(table)  # joined by it, rows would multiply
    path = write(table, "index.parquet")
    train(path)
    assert json.loads(run("explain", "out", "--json")[1])["columns"][0]["name"] == "a"
    assert len(predict(path, "--keep")) == len(table)
    named = table.set_index(pd.Index(np.arange(len(table)) ** 2, name="row"))
    train(write(named, "named.parquet"), out="named")
    names = [c["name"] for c in json.loads(run("explain", "named", "--json")[1])["columns"]]
    assert sorted(names) == ["a", "b", "row"]


@pytest.mark.parametrize(
    ("fmt", "kind"),
    [
        ("%Y-%m-%d", "date"),
        ("%Y-%m-%dT%H:%M:%S", "date"),
        ("%Y-%m-%d %H:%M:%S+02:00", "date"),
        ("%d.%m.%Y", "date"),
        ("%d/%m/%Y", "date"),
        ("%m/%d/%Y", "date"),
        ("%Y/%m/%d", "date"),
        ("%Y", "number"),
        ("%b %Y", "text"),
    ],
)
def test_dates_in_many_formats(here, fmt, kind):
    from grayzone.tables.reading import read_table
    from grayzone.tables.schema import Schema

    days = pd.date_range("2019-12-25", periods=40, freq="11D")
    path = write(pd.DataFrame({"day": days.strftime(fmt)}))
    table = read_table(path)
    schema = Schema.of(table)
    assert schema.columns[0].kind == kind
    if kind == "date":
        shift = pd.Timedelta(hours=2 if "+02" in fmt else 0)
        assert (schema.apply(table)["day"] == days - shift).all()


def test_dates_of_several_zones_have_one_clock(here):
    table = make()
    table["at"] = np.where(
        np.arange(60) % 2 == 0, "2020-01-01T12:00:00+01:00", "2020-06-01T12:00:00-05:00"
    )
    metrics = train(table)
    other = table.copy()
    other["at"] = pd.to_datetime(table["at"], utc=True)
    one, two = predict(table), predict(write(other, "typed.parquet"), output="d.parquet")
    check_decisions(one, metrics)
    np.testing.assert_allclose(one["probability_yes"], two["probability_yes"], rtol=1e-12)


def test_columns_without_values_are_left_out(here):
    table = make().assign(nothing=np.nan, c=1.0)
    train(table)
    columns = [c["name"] for c in json.loads(run("explain", "out", "--json")[1])["columns"]]
    assert columns == ["a", "b", "c"]
    assert len(predict(table.drop(columns="nothing"))) == 60
    fails("train", write(table[["nothing", "y"]]), "--target", "y", match="columns .* are empty")


def test_rows_without_a_target_are_left_out_and_said(here):
    table = make()
    table.loc[::10, "y"] = None
    code, out, _ = run("train", write(table), "--target", "y", *FAST, "--out", "out")
    assert code == 0
    assert "6 rows without a target were left out." in out
    metrics = json.loads(Path("out/metrics.json").read_text())
    check_metrics(metrics, table.dropna())
    assert metrics["about"]["rows"] == 54


@pytest.mark.parametrize(
    ("classes", "positive", "found"),
    [
        (("0.0", "1.0"), "1", ["0", "1"]),
        (("-1", "1"), "-1", ["1", "-1"]),
        (("1.5", "2.5"), "1.5", ["2.5", "1.5"]),
        (("True", "False"), "True", ["False", "True"]),
        (("=cmd()", "+1+1"), "=cmd()", ["+1+1", "=cmd()"]),
        (("größer", "日本語"), "日本語", ["größer", "日本語"]),
        (("a,b", 'say "x"\nend'), "a,b", ['say "x"\nend', "a,b"]),
        (("<script>alert(1)</script>", "[red]x[/red]"), "[red]x[/red]", None),
        ((":smile:", "undecided"), "undecided", [":smile:", "undecided"]),
    ],
)
def test_labels_stay_what_they_are(here, classes, positive, found):
    table = make(classes=classes)
    options = ("--positive", positive, *FAST, "--out", "out")
    code, out, _ = run("train", write(table), "--target", "y", *options)
    assert code == 0
    metrics = json.loads(Path("out/metrics.json").read_text(encoding="utf-8"))
    found = found or list(classes)
    assert metrics["classes"] == found
    assert all(f"always {label} " in out for label in found)
    decided = predict(table, "--raw")
    check_decisions(decided, metrics)
    page = Path("out/report.html").read_text(encoding="utf-8")
    assert "<script>alert(1)" not in page


def test_the_positive_class_is_guessed_and_said(here):
    path = write(make())
    out = run("train", path, "--target", "y", *FAST, "--out", "named")[1]
    assert "The positive class is 'yes' (by its name; --positive chooses another)." in out
    table = make(classes=("common", "rare")).iloc[make()["y"].argsort(kind="stable")]
    out = run("train", write(table.iloc[:50]), "--target", "y", *FAST, "--out", "rare")[1]
    assert "The positive class is 'rare' (the rarer one; --positive chooses another)." in out
    metrics = train(make(), "--positive", "no", "--costs", "FN=3", out="told")
    assert metrics["classes"] == ["yes", "no"]
    assert metrics["costs"] == [[0.0, 1.0], [3.0, 0.0]]
    assert metrics["threshold"] == pytest.approx(0.25)


# Costs


def test_costs_by_label_and_by_matrix_are_the_same(here):
    table = make(75, ("low", "mid", "top"))
    one = train(table, "--costs", "top=4,low=2", out="one")
    assert one["costs"] == [[0, 2, 2], [1, 0, 1], [4, 4, 0]]
    matrix = pd.DataFrame(
        {"true": ["top", "low", "mid"], "mid": [4, 2, 0], "top": [0, 2, 1], "low": [4, 0, 1]}
    )
    two = train(table, "--cost-matrix", write(matrix, "costs.tsv", sep="\t"), out="two")
    assert two["costs"] == one["costs"]
    assert two["confusion"] == one["confusion"]
    check_metrics(two, table)
    check_decisions(predict(table, model="two"), two)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("true,no,maybe\nno,0,1\nmaybe,1,0\n", "must have a row and a column for each class"),
        ("true,no,yes\nno,0,1\n", "must have a row and a column"),
        ("true,no,yes\nno,0,-1\nyes,5,0\n", "positive for errors and 0 for right"),
        ("true,no,yes\nno,1,1\nyes,5,0\n", "0 for right decisions"),
        ("true,no,yes\nno,0,much\nyes,5,0\n", "costs must be numbers"),
        ("true,no,yes\nno,0,inf\nyes,5,0\n", "costs must be numbers"),
        ("true,no,yes\nno,0,\nyes,5,0\n", "costs must be numbers"),
        ("", "is empty"),
    ],
)
def test_cost_matrices_that_cannot_be_used(here, text, match):
    path = write(make())
    Path("costs.csv").write_text(text)
    fails("train", path, "--target", "y", "--cost-matrix", "costs.csv", match=match)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (["--costs", "FN=0"], "positive number; got 0"),
        (["--costs", "FN=-1,FP=1"], "positive number"),
        (["--costs", "FN=nan"], "positive number"),
        (["--costs", "FN=ten"], "'ten' is no number"),
        (["--costs", "10,1"], "not of the form NAME=COST"),
        (["--costs", ""], "not of the form NAME=COST"),
        (["--costs", "FN=1,FN=2"], "twice"),
        (["--costs", "FNN=5,FP=1"], "'FNN' is not known; expected FN and FP, or .*mean 'FN'"),
        (["--costs", "no=5,FP=1"], "'no', 'FP' are of two kinds; expected FN and FP, or labels"),
        (["--costs", "FN=1e200"], "between 1e-30 and 1e.30; got 1e.200"),
        (["--reject-cost", "1e200"], "between 1e-30 and 1e.30; got 1e.200"),
        (["--costs", "perhaps=2"], "'perhaps' is not known; .* or labels: 'no', 'yes'"),
        (["--costs", "FN=2", "--cost-matrix", "table.csv"], "not both"),
        (["--cost-matrix", "none.csv"], "none.csv does not exist"),
        (["--reject-cost", "0"], "must be a positive number"),
        (["--reject-cost", "inf"], "must be a positive number"),
        (["--reject-cost", "nan"], "must be a positive number"),
        (["--reject-cost", "0.1", "--max-fpr", "0.1"], "cannot be asked for together"),
        (["--max-fpr", "0.1", "--costs", "FN=2"], "give no costs beside it"),
        (["--max-fpr", "1"], "between 0 and 1"),
        (["--max-fpr", "nan"], "between 0 and 1"),
        (["--max-fpr", "0.1", "--min-recall", "0.9"], "Only one limit can be kept"),
        (["--min-precision", "2"], "between 0 and 1"),
        (["--min-recall", "0.99"], "at least 598 rows of 'yes', half of .* there are 30"),
        (["--min-precision", "0.9"], "at least 86 rows in all, half of .* there are 60"),
        (["--prefer", "cheap"], "'cheap' is not known; expected best or simple"),
        (["--costs", "FN=3..2"], "a range from one to a larger number"),
        (["--costs", "FN=0..2"], "a range from one to a larger number"),
        (["--costs", "FN=much"], "'much' is no number, no range such as 3..8, and no column"),
        (["--costs", "FN=a"], "'a' should have the cost of an error in each row"),
        (["--max-fpr", "0.01"], "at least 598 rows of 'no', half of .* there are 30"),
        (["--positive", "maybe"], "'maybe' is no label; labels: 'no', 'yes'"),
        (
            ["--model", "oracle"],
            "'oracle' is not known; expected auto, ensemble, logistic-regression",
        ),
        (["--drop", "c"], "no column 'c'"),
        (["--drop", "y"], "'y' is the target"),
        (["--drop", "a", "--drop", "b"], "no column beside the target"),
        (["--time-limit", "0"], "must be positive"),
        (["--stop-after", "0"], "--stop-after must be positive"),
        (["--time-limit", "soon"], "--time-limit"),
        (["--seed", "-1"], "--seed"),
        (["--seed", str(2**32)], "--seed"),
        (["--seed", "x"], "--seed"),
        (["--colour", "red"], "No such option"),
        (["extra"], "unexpected extra argument"),
        (["--out", "table.csv"], "is a file; expected a folder"),
    ],
)
def test_options_that_cannot_be_used(here, options, match):
    path = write(make())
    code, out, err = plain(["train", str(path), "--target", "y", *options])
    assert code == 2
    assert out == ""
    assert err.startswith("grayzone: ")
    assert err.count("\n") == 1
    assert re.search(match, err), err
    assert list(here.iterdir()) == [here / "table.csv"]


def plain(arguments):
    """Without the checks of `run`, one of which looks for a word that options may lead to."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    return code, out.getvalue(), err.getvalue()


def test_limits_and_labels_for_two_classes_only(here):
    path = write(make(75, ("low", "mid", "top")))
    fails("train", path, "--target", "y", "--max-fpr", "0.1", match="for two classes; .* has 3")
    fails("train", path, "--target", "y", "--positive", "mid", match="for two classes; .* has 3")
    fails("train", path, "--target", "y", "--costs", "FN=2", match="'FN' is not known")
    path = write(make(classes=("sure", "undecided")))
    fails("train", path, "--target", "y", "--reject-cost", "0.1", match="is a label already")


def test_drop_leaves_columns_out(here):
    table = make().assign(c=1.0)
    train(table, "--drop", "c", "--drop", "b")
    names = [c["name"] for c in json.loads(run("explain", "out", "--json")[1])["columns"]]
    assert names == ["a"]
    assert len(predict(table[["a"]])) == 60


# Tables that cannot be used


def text_of(table, **options):
    return table.to_csv(index=False, **options).encode()


GOOD = make()
BROKEN = {
    "empty": ("t.csv", b"", "is empty"),
    "blank": ("t.csv", b"\n \n\n", "is empty"),
    "header only": ("t.csv", b"a,b,y\n", "column names and no rows"),
    "empty gzip": ("t.csv.gz", gzip.compress(b""), "is empty"),
    "cut gzip": ("t.csv.gz", gzip.compress(text_of(GOOD))[:-20], "cannot be read"),
    "spoilt gzip": ("t.csv.gz", gzip.compress(text_of(GOOD))[:30] + b"\xff" * 60, "cannot be read"),
    "no gzip": ("t.csv.gz", text_of(GOOD), "cannot be read"),
    "zeros": ("t.csv", b"a,b\x00,y\n1,2,3\n", "zero bytes"),
    "other kind": ("t.json", b"{}", "no known kind of table"),
    "no workbook": ("t.xlsx", b"PK", "is no workbook, or is damaged"),
    "no zip": ("t.csv.zip", b"PK", "cannot be read"),
    "no suffix": ("table", text_of(GOOD), "no known kind of table"),
    "no parquet": ("t.parquet", text_of(GOOD), "is no parquet file, or is damaged"),
    "no arrow": ("t.arrow", b"ARROW1\x00\x00garbage", "is no arrow file, or is damaged"),
    "same names": ("t.csv", b"a,a,y\n" + b"1,2,x\n" * 30, "two columns have the name 'a'"),
    "no name": ("t.csv", b"a,,y\n" + b"1,2,x\n" * 30, "column 2 has no name"),
    "long row": ("t.csv", b"a,y\n" + b"1,x\n" * 30 + b"1,x,3\n", "line 32 has 3 values"),
    "long rows": ("t.csv", b"a,y\n" + b"1,x,3\n2,z,4\n" * 30, "line 2 has 3 values"),
    "long name": ("t.csv", b"a" * 200_000 + b",y\n" + b"1,x\n2,z\n" * 30, "no proper table"),
    "open quote": ("t.csv", b"a,y\n" + b"1,x\n" * 30 + b'"1,x\n', "mark is never closed"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_files_that_are_no_table(here, case):
    name, raw, match = BROKEN[case]
    Path(name).write_bytes(raw)
    err = fails("train", name, "--target", "y", match=match)
    assert name in err
    assert len(err) < 500


def test_texts_that_are_beyond_the_end_of_a_damaged_table(here):
    """Found by hostile tables: what lay behind in memory was taken for a text."""
    import pyarrow as pa
    from pyarrow import feather

    words = [f"word{k:03}" for k in range(40)]
    table = pa.table({"a": words, "y": ["no", "yes"] * 20})
    feather.write_feather(table, "t.feather", compression="uncompressed")
    raw = Path("t.feather").read_bytes()
    places = np.arange(0, 41 * 7, 7, dtype=np.int32)
    spoilt = places.copy()
    spoilt[20] = 10_000
    assert raw.count(places.tobytes()) == 1
    Path("t.feather").write_bytes(raw.replace(places.tobytes(), spoilt.tobytes()))
    match = "is no feather file, or is damaged"
    fails("train", "t.feather", "--target", "y", match=match)


def test_places_that_are_no_file(here):
    Path("folder.csv").mkdir()
    fails("train", "folder.csv", "--target", "y", match="is a folder; expected a file")
    fails("train", "none.csv", "--target", "y", match="none.csv does not exist")
    fails("train", "x" * 300 + ".csv", "--target", "y", code=1, match="name too long")


@pytest.mark.parametrize(
    ("column", "match"),
    [
        ("one", "the value 'one' in every row: there is nothing to decide"),
        (None, "is empty in every row"),
        ([f"v{k}" for k in range(1_000)] * 6, "1,000 different values; expected 2 to 50"),
        (["x"] * 30 + ["z"] * 4, "'z' occur in fewer than 5 rows"),
        (["x"] * 9 + ["z"] * 9, "18 rows with a target; at least 20 are needed"),
    ],
)
def test_targets_that_cannot_be_learned(here, column, match):
    n = len(column) if isinstance(column, list) else 40
    table = pd.DataFrame({"a": np.arange(n), "y": column})
    fails("train", write(table), "--target", "y", match=match)
    fails("train", write(table), "--target", "Y", match="did you mean 'y'. It has 'a', 'y'")


@pytest.mark.parametrize("value", ["inf", "-inf", "1e308"])
def test_numbers_without_bounds_are_refused(here, value):
    table = make().astype({"a": object})
    table.loc[4, "a"] = value
    match = "'a' should hold a number within .* row 5 has .* \\(1 such rows\\)"
    path = write(table, "wild.csv")
    fails("train", path, "--target", "y", match=match)
    train(make())
    fails("predict", "out", path, "-o", "d.csv", match=match)


def test_hostile_names_and_values_are_only_text(here):
    names = [
        "<script>alert(1)</script>",
        "=HYPERLINK(1)",
        'quote"d',
        "com,ma",
        "new\nline",
        "[bold]x[/bold]",
        "{{7*7}}",
        "é",
        " space ",
    ]
    rng = np.random.default_rng(0)
    table = make()
    for k, name in enumerate(names):
        table[name] = rng.choice(names, 60) if k < 2 else rng.normal(size=60)
    target = "</script><img src=x onerror=alert(2)>"
    table = table.rename(columns={"y": target})
    train(table, target=target)
    columns = [c["name"] for c in json.loads(run("explain", "out", "--json")[1])["columns"]]
    assert columns == ["a", "b", *names]
    code, out, _ = run("explain", "out")
    assert code == 0
    assert "[bold]x[/bold]" in out
    page = Path("out/report.html").read_text(encoding="utf-8")
    assert "<script>alert(1)" not in page
    assert "<img src=x" not in page
    assert len(predict(table)) == 60


def test_names_of_encoded_categories_may_be_there_already(here):
    rng = np.random.default_rng(0)
    table = make().assign(c=rng.choice(["x", "z", "w"], 60), c_x=rng.normal(size=60))
    metrics = train(table)
    check_decisions(predict(table), metrics)


def test_hundreds_of_columns(here):
    rng = np.random.default_rng(0)
    wide = pd.DataFrame(rng.integers(0, 9, (40, 400)), columns=[f"c{j}" for j in range(400)])
    wide["y"] = np.repeat(["no", "yes"], 20)
    train(wide)
    narrow = write(wide[["c0", "y"]], "narrow.csv")
    err = fails("predict", "out", narrow, "-o", "d.csv", match="lacks 399 of 400 .* and 394 more")
    assert len(err) < 400


# Models that cannot be loaded, and tables that do not fit them


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A model of columns of all kinds, made once."""
    folder = tmp_path_factory.mktemp("trained")
    table = mixed().drop(columns="remark")
    path = folder / "table.csv"
    table.to_csv(path, index=False)
    assert plain(["train", str(path), "--target", "y", *FAST, "--out", str(folder / "out")])[0] == 0
    return folder / "out", table


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda t: t.drop(columns=["a", "colour"]), "lacks 2 of 5 columns .*: 'a', 'colour'"),
        (lambda t: t.rename(columns={"colour": "color"}), "Is 'color' the renamed 'colour'"),
        (lambda t: t.assign(a="red"), "'a' should hold a number in each row; row 1 has 'red'"),
        (lambda t: t.assign(a="2020-01-01"), "'a' should hold a number"),
        (lambda t: t.assign(colour=1.5), "'colour' should hold text"),
        (lambda t: t.assign(day="25.12.2020"), "'day' should hold a date .* '25.12.2020'"),
        (lambda t: t.assign(day=2020), "'day' should hold a date .* '2020'"),
        (lambda t: t.assign(told="perhaps"), "'told' should hold a number .* 'perhaps'"),
        (lambda t: t.iloc[:0], "column names and no rows"),
    ],
)
def test_tables_that_do_not_fit_the_model(here, trained, change, match):
    model, table = trained
    path = write(change(table))
    fails("predict", model, path, "-o", "d.csv", match=match)


def test_typed_columns_that_do_not_fit_the_model(here, trained):
    model, table = trained
    days = pd.Timestamp("2020-01-01")
    for change, match in (
        ({"a": days}, "'a' should hold a number"),
        ({"colour": days}, "'colour' should hold text"),
        ({"day": 20200101}, "'day' should hold a date"),
    ):
        path = write(table.assign(told=None, **change), "typed.parquet")
        fails("predict", model, path, "-o", "d.csv", match=match)


def test_columns_may_move_be_empty_or_more(here, trained):
    model, table = trained
    plainly = predict(table, model=model)
    shuffled = table[list(table.columns[::-1])].assign(more="x")
    pd.testing.assert_frame_equal(predict(shuffled, model=model), plainly)
    empty = table.assign(a=None, colour=None, day=None, told=None)
    assert predict(empty, model=model)["probability_yes"].notna().all()
    unseen = table.assign(colour="violet")
    assert predict(unseen, model=model)["probability_yes"].notna().all()


def test_texts_some_of_which_are_numbers_are_the_same_in_every_batch(here):
    table = make().assign(code=np.tile(["1", "2", "x"], 20))
    train(table)
    whole = predict(table)
    # without an x a reader sees numbers, with a gap not even whole ones
    batch = table[table["code"] != "x"]
    assert (
        predict(batch)["probability_yes"].to_numpy() == whole["probability_yes"][batch.index]
    ).all()
    gap = batch.copy()
    gap.loc[0, "code"] = None
    got = predict(gap)["probability_yes"].to_numpy()[1:]
    assert (got == whole["probability_yes"][batch.index[1:]]).all()


def test_numbers_written_as_text_are_numbers(here):
    """Found by hostile tables: they became numbers later, and an infinite one was no sentence."""
    table = make()
    texts = write(table.assign(a=table["a"].astype(str)), "t.parquet")
    train(texts)
    one, two = predict(texts), predict(table, output="two.csv")
    pd.testing.assert_frame_equal(one, two, check_exact=True)
    spoilt = table.assign(a=["inf", *table["a"].astype(str)[1:]])
    match = "'a' should hold a number within .* row 1 has 'inf'"
    fails("train", write(spoilt, "s.parquet"), "--target", "y", "--out", "new", match=match)


def test_a_model_that_cannot_be_fitted_is_one_sentence(here, monkeypatch):
    def failing(*_, **__):
        raise ValueError("the data\nare odd")

    monkeypatch.setattr(comparison, "_learn", failing)
    match = "logistic-regression cannot be fitted to this table: the data are odd"
    fails("train", write(make()), "--target", "y", *FAST, match=match)


def test_truths_written_as_text_are_numbers(here):
    table = make().assign(told=np.tile(["True", "False", "False"], 20))
    path = write(table, "t.parquet")
    train(path)
    one, two = predict(path), predict(table, output="two.csv")
    pd.testing.assert_frame_equal(one, two, check_exact=True)


class Malicious:
    """What pickle would run."""

    def __reduce__(self):
        return os.mkdir, ("ran",)


def test_files_that_are_no_model(here, trained):
    model, table = trained
    path = write(table)
    raw = (model / "model.skops").read_bytes()
    Path("pickle.skops").write_bytes(pickle.dumps(Malicious()))
    Path("cut.skops").write_bytes(raw[: len(raw) // 2])
    Path("empty.skops").write_bytes(b"")
    spoilt = bytearray(raw)
    spoilt[200:400] = b"\x00" * 200
    Path("spoilt.skops").write_bytes(spoilt)
    with zipfile.ZipFile("zip.skops", "w") as archive:
        archive.writestr("schema.json", "{}")
    skops.io.dump({"estimator": 1}, "other.skops")
    skops.io.dump([1, 2], "list.skops")
    note = json.loads(held_in(model)["grayzone_model"])
    del note["costs"]
    forge(held_in(model) | {"grayzone_model": json.dumps(note)}, Path("part.skops"))
    for name in ("pickle", "cut", "empty", "spoilt", "zip", "other", "list", "part"):
        match = rf"{name}.skops is no model of grayzone, or is damaged"
        fails("predict", f"{name}.skops", path, "-o", "d.csv", match=match)
        fails("explain", f"{name}.skops", match=match)
    assert not Path("ran").exists()
    fails("predict", "none", path, "-o", "d.csv", match="none does not exist; expected a model")
    Path("folder").mkdir()
    fails("explain", "folder", match="model.skops does not exist")


class Foreign:
    """Nothing that a model is made of."""


def test_a_later_format_is_named(here, trained):
    # whatever it holds
    now = model_module.FORMAT
    forge({"new": Foreign()}, Path("later.skops"), version=now + 1)
    fails("explain", "later.skops", match=f"has the format {now + 1}; this version reads {now}")


def test_a_model_tells_what_it_was_made_of(here):
    import hashlib

    table = make()
    path = write(table, "data.csv")
    train(path, "--costs", "FN=5", "--seed", "7")
    code, out, _ = run("explain", "out", "--json")
    assert code == 0
    told = json.loads(out)
    about = told["about"]
    assert about["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (about["data"], about["target"], about["rows"], about["seed"]) == (
        "data.csv",
        "y",
        60,
        7,
    )
    assert about["versions"]["grayzone"] == grayzone.__version__
    assert {"scikit-learn", "numpy"} <= set(about["versions"])
    assert told["classes"] == ["no", "yes"]
    assert told["costs"] == [[0, 1], [5, 0]]
    assert [c["name"] for c in told["columns"]] == ["a", "b"]
    text = run("explain", "out/model.skops")[1]
    assert "Deciding 'no' where 'yes' is true costs 5." in text
    assert "Decides 'yes' from a probability of 0.1667 on" in text
    assert "Needs the columns: a, b" in text


# Output, whole or not at all


def test_nothing_is_overwritten_unasked(here):
    table = make()
    train(table)
    before = Path("out/model.skops").read_bytes()
    fails(
        "train",
        "table.csv",
        "--target",
        "y",
        *FAST,
        "--out",
        "out",
        match="holds model.skops, .*--overwrite",
    )
    assert Path("out/model.skops").read_bytes() == before
    metrics = train(table, "--overwrite", "--costs", "FN=5")
    assert metrics["costs"][1][0] == 5
    assert Path("out/model.skops").read_bytes() != before


def test_other_files_in_the_folder_stay(here):
    Path("out").mkdir()
    Path("out/notes.txt").write_text("mine")
    code, *_ = run("train", write(make()), "--target", "y", *FAST, "--out", "out")
    assert code == 0
    assert {file.name for file in Path("out").iterdir()} == FILES | {"notes.txt"}


def test_outputs_that_cannot_be_written(here):
    table = make()
    train(table)
    path = Path("table.csv")
    before = path.read_bytes()
    fails("predict", "out", path, "-o", "d.xlsx", match="expected .csv, .csv.gz, .tsv or .parquet")
    fails("predict", "out", path, "-o", "out", match="is a folder; expected a file")
    fails("predict", "out", path, "-o", path, match="is the table itself")
    fails("predict", "out", path, "-o", "table.csv/d.csv", code=1, match="nothing was written")
    fails("predict", "out", path, match="--output")
    assert path.read_bytes() == before


@pytest.mark.parametrize("failing", ["save", "report", "move"])
def test_a_full_disk_leaves_nothing_behind(here, monkeypatch, failing):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "out")

    path = write(make())
    if failing == "save":
        monkeypatch.setattr(skops.io, "dump", full)
    elif failing == "report":
        monkeypatch.setattr(Path, "write_text", full)
    else:
        monkeypatch.setattr(output.os, "replace", full)
    options = ("--target", "y", *FAST, "--out", "out")
    fails("train", path, *options, code=1, match="No space left on device .*: nothing was written")


def test_a_full_disk_keeps_earlier_decisions(here, monkeypatch):
    def full(self, path, **_):
        Path(path).write_text("half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    table = make()
    train(table)
    predict(table)
    before = Path("decisions.csv").read_bytes()
    monkeypatch.setattr(pd.DataFrame, "to_csv", full)
    fails("predict", "out", "table.csv", "-o", "decisions.csv", code=1, match="No space left")
    assert Path("decisions.csv").read_bytes() == before


def test_memory_that_does_not_suffice(here, monkeypatch):
    def short(*_, **__):
        raise MemoryError

    monkeypatch.setattr(job, "compare", short)
    fails("train", write(make()), "--target", "y", code=1, match="not enough memory")


def test_what_nobody_thought_of_is_one_line_unless_debugged(here, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("first\nsecond")

    monkeypatch.setattr(job, "compare", broken)
    arguments = ["train", str(write(make())), "--target", "y"]
    code, out, err = plain(arguments)
    assert (code, out) == (1, "")
    (told,) = (line for line in err.splitlines() if not PROGRESS.match(line))
    assert told == "grayzone: unexpected RuntimeError: first second (--debug shows where)"
    code, _, err = plain([*arguments, "--debug"])
    assert code == 1
    assert "Traceback" in err
    assert 'raise RuntimeError("first' in err
    assert list(here.iterdir()) == [here / "table.csv"]


SLOW = """
import sys, time
from grayzone.cli import main
from grayzone.training import comparison

def slow(*_, **__):
    print("ready", flush=True)
    time.sleep(60)

comparison._learn = slow
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_control_c_stops_without_a_trace(here):
    path = write(make())
    arguments = ["train", str(path), "--target", "y", *FAST, "--out", "out"]
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 130
    (told,) = (line for line in err.splitlines() if not PROGRESS.match(line))
    assert told == "grayzone: stopped; no model and no decisions were written"
    assert list(here.iterdir()) == [here / "table.csv"]


LIMITED = """
import resource, sys
from grayzone.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, 4_000))
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.skipif(os.name != "posix", reason="limits of POSIX")
def test_files_that_grow_too_large_leave_nothing_behind(here):
    path = write(make())
    arguments = ["train", str(path), "--target", "y", *FAST, "--out", "out"]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, *arguments], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("grayzone: File too large")
    assert "Traceback" not in done.stderr
    assert list(here.iterdir()) == [here / "table.csv"]


def test_a_terminal_that_knows_ascii_only(here):
    path = write(make(classes=("größer", "kleiner")))
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    code = "import sys; from grayzone.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "train", str(path), "--target", "y", *FAST, "--out", "out"],
        capture_output=True,
        env=environment,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert b"\ndone: logistic-regression (" in done.stderr
    assert b"Mean cost" in done.stdout
    assert {file.name for file in Path("out").iterdir()} == FILES


# What users see


def test_json_is_all_there_is_on_standard_output(here):
    path = write(make())
    code, out, err = run("train", path, "--target", "y", *FAST, "--out", "out", "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert told.pop("out") == "out"
    assert told == json.loads(Path("out/metrics.json").read_text())
    code, out, err = run("predict", "out", path, "-o", "d.csv", "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    decisions = pd.read_csv("d.csv")["decision"]
    assert told == {"rows": 60, "decisions": decisions.value_counts().to_dict(), "output": "d.csv"}


def test_version_and_unknown_commands(here):
    assert run("--version")[:2] == (0, f"grayzone {grayzone.__version__}\n")
    fails("nonsense", match="No such command 'nonsense'")
    fails("train", match="Missing argument")
    fails("train", "t.csv", match="--target")
    code, out, _ = run()
    assert code == 0
    assert "Usage" in out


def test_reproduce_needs_the_repository(here, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setitem(sys.modules, "benchmarks", None)
    monkeypatch.delitem(sys.modules, "benchmarks.__main__", raising=False)
    fails("reproduce", match="inside a clone of the repository")


def test_missing_packages_are_named(monkeypatch):
    import grayzone.cli

    monkeypatch.delattr(grayzone.cli, "_app", raising=False)
    monkeypatch.setitem(sys.modules, "grayzone.cli._app", None)
    code, out, err = plain(["--version"])
    assert (code, out) == (1, "")
    assert "pip install 'grayzone[cli]'" in err
