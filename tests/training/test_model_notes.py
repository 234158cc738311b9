"""Notes in model files: every field by its type and range, and in line with the others."""

import json

import pytest

pytest.importorskip("skops")

from model_file import FILE, refused, saved

import grayzone
from fuzz.model_parts import forge, with_note

NUMBER = {
    **{"name": "a", "kind": "number", "format": None, "mixed": False},
    **{"decimal": ".", "thousands": "", "unit": "", "missing": ["-999"]},
    "learnt": {"rows": 40, "gaps": 2, "odd": 1, "low": -1.0, "high": 2.5, "values": None},
}
TEXT = NUMBER["learnt"] | {"low": None, "high": None, "values": ["x", ""]}
PROMISE = {
    **{"cost": 0.1, "error": 0.01, "low": 0.05, "high": 0.2, "rows": 40},
    **{"rules": [{"name": "always no", "cost": 0.5}], "how": "by rows"},
}
IMPORTANCE = {"column": "a", "cost": 0.1, "error": 0.01, "together": ["b"]}
SECOND = NUMBER | {"name": "b"}

COLUMNS = (
    {"name": 1},
    {"name": ""},
    {"kind": "gold"},
    {"kind": "date", "format": "%%%"},
    {"mixed": 1},
    {"decimal": "x"},
    {"thousands": "x"},
    {"unit": "parsec"},
    {"missing": "-"},
    {"missing": [3]},
    *(
        {"learnt": NUMBER["learnt"] | change}
        for change in (
            *({name: value} for name in ("rows", "gaps", "odd") for value in (-1, 1.5, None)),
            *({"rows": 0, "gaps": 0, "odd": 0}, {"gaps": 40, "odd": 0}, {"odd": 39}),
            *({"low": None}, {"high": None}, {"low": 3.0}, {"high": float("inf")}, {"low": "1"}),
            *({"values": ["x"]}, {"more": 1}, TEXT),
        )
    ),
    {"kind": "text"},
    *({"kind": "text", "learnt": TEXT | {"values": v}} for v in ("x", [1], ["x", "x"])),
    {"more": 1},
)
PROMISES = (
    *({name: value} for name in ("cost", "error", "low", "high") for value in ("1", None)),
    *({"rows": rows} for rows in (-1, 1.5, True)),
    {"rules": None},
    {"rules": [{"name": "always no"}]},
    {"rules": [{"name": "always no", "cost": float("inf")}]},
    {"how": 3},
    {"more": 1},
)
IMPORTANCES = (
    {"column": 3},
    {"cost": "much"},
    {"error": float("nan")},
    {"together": "ab"},
    {"together": ["b", "b"]},
    {"more": 1},
)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_note_of_such_fields_is_taken():
    """Each of the notes below has one thing that is wrong."""
    changes = {
        "schema": [NUMBER, SECOND],
        "beside": [NUMBER | {"name": "amount"}],
        "promise": PROMISE,
        "importance": [IMPORTANCE],
        "background": {"a": [1.0, None], "b": [0.0, 2.0]},
        "reach": [[1, 1], [1, 2]],
        "cost_columns": [None, "amount"],
        "reject_cost": 0.3,
    }
    for name, value in changes.items():
        forge(with_note(saved(), **{name: value}), FILE)
        assert grayzone.load_model(FILE).n_features_in_ == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"cut": "abc"},
        {"cut": 0.5},
        {"cut": [0.5]},
        {"cut": float("nan")},
        {"classes": ["no"]},
        {"classes": ["no", "no"]},
        {"classes": ["no", 3]},
        {"classes": "no"},
        {"classes": ["a", "b", "c"]},
        {"costs": [[0, 1]]},
        {"costs": [[0, 1], [1]]},
        {"costs": [[0, -1], [1, 0]]},
        {"costs": [[1, 1], [1, 0]]},
        {"costs": [[0, "1"], [1, 0]]},
        {"costs": [[0, float("inf")], [1, 0]]},
        {"costs": 3},
        {"reject_cost": -1},
        {"reject_cost": "cheap"},
        {"max_fpr": 2},
        {"max_fpr": 0.1},
        {"max_fpr": True},
        {"schema": []},
        {"schema": {}},
        {"schema": [{"name": "a"}]},
        *({"schema": [NUMBER | change, SECOND]} for change in COLUMNS),
        {"schema": [NUMBER, NUMBER]},
        {"beside": None},
        {"beside": [NUMBER | {"name": "amount"}] * 2},
        *({"beside": [NUMBER | {"name": "amount"} | change]} for change in COLUMNS),
        {"label_type": "complex"},
        {"label_type": None},
        {"cost_columns": ["amount"]},
        {"cost_columns": [None, None]},
        {"cost_columns": [None, 3]},
        {"reach": [[1, 2]]},
        {"reach": [[1, 1], [2, 1]]},
        {"min_recall": 0.5},
        {"min_precision": "much"},
        {"background": {"a": [1.0]}},
        {"background": {"a": [1.0], "b": []}},
        {"background": {"a": ["x"], "b": [1.0]}},
        {"background": {"a": [], "b": []}},
        {"background": {"a": [1e300], "b": [1.0]}},
        {"promise": {"cost": 1}},
        {"promise": 3},
        *({"promise": PROMISE | change} for change in PROMISES),
        {"importance": None},
        {"importance": [3]},
        *({"importance": [IMPORTANCE | change]} for change in IMPORTANCES),
        {"about": None},
        {"about": {"model": "m"}},
        {"more": 1},
    ],
    ids=str,
)
def test_notes_that_say_something_else(changes):
    """`cut="abc"` was loaded."""
    forge(with_note(saved(), **changes), FILE)
    refused("its note is not that of a model")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"schema": [NUMBER]}, "missing: - b"),
        ({"schema": [NUMBER, SECOND | {"name": "c"}]}, "unseen at fit time: - c"),
        (
            {"schema": [NUMBER, SECOND | {"kind": "text", "learnt": None}]},
            "could not convert string",
        ),
        ({"label_type": "int"}, "invalid literal for int"),
        ({"label_type": "bool", "classes": ["True", "1"]}, "no labels of the type bool"),
        ({"label_type": "int", "classes": ["1", "01"]}, "no labels of the type int"),
        ({"label_type": "float", "classes": ["1", "nan"]}, "no labels of the type float"),
    ],
    ids=str,
)
def test_notes_that_do_not_fit_the_model_or_themselves(changes, reason):
    forge(with_note(saved(), **changes), FILE)
    refused(f"is damaged: .*{reason}")


@pytest.mark.parametrize(
    "changes",
    [
        *({"rows": "many"}, {"rows": -1}, {"rows": True}, {"model": 3}, {"sha256": "x"}),
        *({"versions": []}, {"versions": {"numpy": 2}}, {"made": None}, {"target": ""}),
        *({"data": 3}, {"seed": -1}, {"seed": 0.5}, {"ids": "a"}, {"ids": ["a", "a"]}),
        *({"time": 3}, {"group": ""}),
    ],
    ids=str,
)
def test_circumstances_that_say_something_else(changes):
    held = saved()
    about = json.loads(held["grayzone_model"])["about"]
    forge(with_note(held, about=about | changes), FILE)
    refused(f"its note is not that of a model \\({min(changes)}\\)")


def test_a_note_that_is_none():
    held = saved()
    for note in ("[]", "3", "not JSON", "", 3, None):
        forge(held | {"grayzone_model": note}, FILE)
        refused("damaged")
