"""Model files that somebody crafted, or that were damaged: refused, in one line."""

import copy
import io
import json
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("skops")
pytest.importorskip("skrub")

from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline

import grayzone
from fuzz.model_parts import (
    array,
    bomb,
    forge,
    held_in,
    parts_of,
    seal,
    small_model,
    small_table,
    with_note,
)
from grayzone.cli import _archive, _contents, _soundness
from grayzone.cli._candidates import CANDIDATES_BY_NAME
from grayzone.cli._errors import UserError

FILE = Path("model.skops")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def saved(name="logistic-regression", kind="numbers", n_classes=2, **asked):
    """A model file, and what it holds."""
    small_model(name, kind, n_classes, **asked).save(FILE)
    return held_in(FILE)


def refused(match):
    with pytest.raises(UserError, match=match) as caught:
        grayzone.load_model(FILE)
    assert len(str(caught.value)) < 500
    assert "\n" not in str(caught.value)


def fitted(held, kind, attribute):
    """Objects of a kind within a pipeline that have been fitted, each once."""
    found = {id(thing): thing for thing in _soundness._objects(held["estimator"])}
    return [x for x in found.values() if type(x).__name__ == kind and hasattr(x, attribute)]


def classifier(held):
    return held["estimator"][-1].estimator_


@pytest.mark.parametrize("name", CANDIDATES_BY_NAME)
def test_every_model_comes_back_as_it_was(name):
    model = small_model(name)
    model.save(FILE)
    table = small_table()
    pd.testing.assert_frame_equal(
        grayzone.load_model(FILE).decide(table), model.decide(table), check_exact=True
    )


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("gradient-boosting", {"kind": "mixed"}),
        ("logistic-regression", {"kind": "mixed"}),
        ("gradient-boosting", {"n_classes": 3}),
        ("calibrated-svc", {"n_classes": 3, "reject_cost": 0.2}),
        ("tight-bound", {"max_fpr": 0.3}),
    ],
)
def test_models_of_every_kind_come_back_as_they_were(name, asked):
    model = small_model(name, **asked)
    model.save(FILE)
    table = small_table(asked.get("kind", "numbers"))
    pd.testing.assert_frame_equal(
        grayzone.load_model(FILE).decide(table), model.decide(table), check_exact=True
    )


# Types


def test_an_estimator_of_scikit_learn_that_opens_files_is_not_loaded():
    """`CountVectorizer(input="filename")` opened the file that a column named."""
    held = saved()
    Path("secret.txt").write_text("alpha beta")
    opener = CountVectorizer(input="filename").fit(["secret.txt"])
    steps = [("vectorise", opener), ("decide", LogisticRegression())]
    forge(held | {"estimator": Pipeline(steps)}, FILE)
    refused("CountVectorizer.*it was not loaded")


def test_a_vectoriser_of_ours_that_opens_files_is_not_loaded():
    held = saved(kind="mixed")
    fitted(held, "TfidfVectorizer", "vocabulary_")[0].input = "filename"
    forge(held, FILE)
    refused("TfidfVectorizer has an unusual input")


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda pipeline: pipeline.set_params(memory="cache"), "memory"),
        (lambda pipeline: pipeline[-1].estimator_.set_params(n_jobs=64), "n_jobs"),
        (lambda pipeline: pipeline.set_params(verbose=True), "verbose"),
        (lambda pipeline: setattr(pipeline[0], "indicator_", 3), "indicator_"),
    ],
)
def test_settings_that_open_files_or_start_processes_are_refused(change, name):
    held = saved()
    held["estimator"] = copy.deepcopy(held["estimator"])
    change(held["estimator"])
    forge(held, FILE)
    refused(f"unusual {name}")
    assert not Path("cache").exists()


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(),
        Pipeline([("decide", LogisticRegression())]),
        Pipeline([("scale", "passthrough"), ("decide", LogisticRegression())]),
        3,
        None,
        [1, 2],
    ],
)
def test_estimators_that_are_no_pipeline_of_ours(estimator):
    forge(saved() | {"estimator": estimator}, FILE)
    refused("pipeline|step|not loaded")


def test_pipelines_within_pipelines_are_refused():
    """A pipeline of two of the same kind, fifty deep, would run for ever."""
    held = saved()
    inner = held["estimator"]
    for _ in range(3):
        inner = Pipeline([("impute", inner), ("scale", inner), ("decide", held["estimator"][-1])])
    forge(held | {"estimator": inner}, FILE)
    refused("its step impute is something else")
    nested = copy.deepcopy(held["estimator"])
    nested[-1].estimator_ = nested[-1].estimator = copy.deepcopy(nested)
    forge(held | {"estimator": nested}, FILE)
    refused("a Pipeline is not in its place")


# Indices that compiled code follows without a look


@pytest.mark.parametrize(
    ("field", "value"),
    [("left", 2**31), ("right", 2**31), ("left", 0), ("right", 0), ("feature_idx", 2)],
)
def test_a_tree_whose_children_are_elsewhere(field, value):
    """`nodes["left"] = 2**31` crashed the process, a child 0 ran for ever."""
    held = saved("gradient-boosting")
    tree = classifier(held)._predictors[0][0]
    tree.nodes = tree.nodes.copy()
    assert not tree.nodes["is_leaf"][0]
    tree.nodes[field][0] = value
    forge(held, FILE)
    refused("arrays of HistGradientBoostingClassifier do not fit")


def test_features_below_the_first_and_categories_are_refused_in_trees():
    for field, value in (("feature_idx", -1), ("is_categorical", 1)):
        held = saved("gradient-boosting")
        tree = classifier(held)._predictors[0][0]
        tree.nodes = tree.nodes.copy()
        tree.nodes[field][0] = value
        forge(held, FILE)
        refused("arrays of HistGradientBoostingClassifier do not fit")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("_n_support", lambda a: a * 1_000),
        ("_n_support", lambda a: a + np.array([-100, 100], dtype=a.dtype)),
        ("support_vectors_", lambda a: a[:, :1]),
        ("_dual_coef_", lambda a: a[:, :-1]),
        ("support_", lambda a: a[:-1]),
        ("_intercept_", lambda a: a[:0]),
        ("kernel", lambda _: "precomputed"),
    ],
)
def test_a_support_vector_machine_whose_arrays_do_not_fit(name, change):
    held = saved("calibrated-svc")
    svc = classifier(held).calibrated_classifiers_[0].estimator
    setattr(svc, name, change(getattr(svc, name)))
    forge(held, FILE)
    refused("arrays of SVC do not fit")


@pytest.mark.parametrize("change", [lambda k: -k - 5, lambda k: k + 10**9, lambda k: 0, float])
def test_words_that_are_in_no_place(change):
    held = saved(kind="mixed")
    for thing in fitted(held, "TfidfVectorizer", "vocabulary_"):
        thing.vocabulary_ = {word: change(k) for word, k in thing.vocabulary_.items()}
    forge(held, FILE)
    refused("arrays of TfidfVectorizer do not fit")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("_n_features_outs", [1]),
        ("_n_features_outs", [10**6]),
        ("_drop_idx_after_grouping", np.array([-100], dtype=object)),
        ("_drop_idx_after_grouping", np.array([100], dtype=object)),
        ("categories_", [np.arange(3.0)]),
    ],
)
def test_categories_that_are_in_no_place(name, value):
    held = saved(kind="mixed")
    for thing in fitted(held, "OneHotEncoder", "categories_"):
        if len(thing.categories_[0]) > 2:
            setattr(thing, name, value)
    forge(held, FILE)
    refused("arrays of OneHotEncoder do not fit")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("coef_", np.ones((1, 5))),
        ("coef_", np.full((1, 2), np.nan)),
        ("coef_", "abc"),
        ("intercept_", np.zeros((7, 7))),
        ("classes_", np.arange(9)),
        ("predict_proba", 3),
    ],
)
def test_models_that_cannot_decide_are_refused_on_loading(name, value):
    """Other shapes were loaded, and then gave an IndexError."""
    held = saved()
    setattr(classifier(held), name, value)
    forge(held, FILE)
    refused("is damaged")


def test_damage_that_shows_in_some_rows_alone_is_one_sentence():
    """Found by changed files: features that are infinite where a certain word is."""
    held = saved(kind="mixed")
    for words in fitted(held, "TfidfVectorizer", "vocabulary_"):
        # no word of the rows that a model is tried on
        words._tfidf.idf_[words.vocabulary_["rem"]] = np.inf
    forge(held, FILE)
    model = grayzone.load_model(FILE)
    with pytest.raises(UserError, match=r"cannot decide on this table, it is damaged: .*infinity"):
        model.decide(small_table("mixed"))


# The note


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
        {"schema": [{"name": 1, "kind": "number", "format": None, "mixed": False}]},
        {"schema": [{"name": "a", "kind": "gold", "format": None, "mixed": False}]},
        {"schema": [{"name": "a", "kind": "date", "format": "%%%", "mixed": False}]},
        {"schema": [{"name": "a", "kind": "number", "format": None, "mixed": 1}]},
        {"schema": [{"name": "a", "kind": "number", "format": None, "mixed": False}] * 2},
        {"schema": [{"name": "z", "kind": "text", "format": None, "mixed": False}]},
        {"about": None},
        {"about": {"model": "m"}},
        {"more": 1},
    ],
    ids=str,
)
def test_notes_that_say_something_else(changes):
    """`cut="abc"` was loaded."""
    forge(with_note(saved(), **changes), FILE)
    refused("its note is not that of a model|is damaged")


@pytest.mark.parametrize(
    "changes", [{"rows": "many"}, {"rows": -1}, {"model": 3}, {"sha256": "x"}, {"versions": []}]
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


# Parts and sizes


@pytest.mark.parametrize("claimed", [None, 1_000])
def test_a_bomb_is_refused_before_it_is_unpacked(claimed):
    """3 MB unpacked to 3 GB, whether the list of parts says so or not."""
    raw = bomb(3 * 2**30, claimed)
    assert len(raw) < 4e6
    FILE.write_bytes(raw)
    tracemalloc.start()
    refused("unpack to 3,221 MB" if claimed is None else "damaged")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6


def test_a_part_that_was_changed_is_noticed():
    saved()
    parts = parts_of(FILE)
    manifest = json.dumps({"format": 2, "parts": {name: "0" * 64 for name in parts}}).encode()
    FILE.write_bytes(_archive._zipped({"manifest.json": manifest, **parts}, zipfile.ZIP_DEFLATED))
    refused("its parts are not those of manifest.json")
    FILE.write_bytes(_archive._zipped(parts, zipfile.ZIP_DEFLATED))
    refused("it has no manifest.json")
    for manifest in (b"[]", b"{}", b"3"):
        raw = _archive._zipped({"manifest.json": manifest, **parts}, zipfile.ZIP_DEFLATED)
        FILE.write_bytes(raw)
        refused("says nothing of its format and parts")


def test_parts_that_nothing_uses_or_that_are_missing():
    saved()
    parts = parts_of(FILE)
    seal(parts | {"more.bin": b"1"}, FILE)
    refused("'more.bin' is used by nothing")
    first = next(name for name in parts if name.endswith(".npy"))
    seal({name: part for name, part in parts.items() if name != first}, FILE)
    refused("is missing, or used twice")


def test_zip_files_that_are_put_together_otherwise():
    saved()
    raw = FILE.read_bytes()
    parts = parts_of(FILE)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a", b"1")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a", b"2")
    strange = {
        "zip": b"PK" + raw[:500],
        "whole": raw + b"more",
        "where it should be": b"PK" * 9 + raw,
        "same name": buffer.getvalue(),
        "unusual way": _archive._zipped(parts, zipfile.ZIP_BZIP2),
        "parts; at most": raw[:-22] + raw[-22:-14] + b"\xff\xff\xff\xff" + raw[-10:],
    }
    for match, content in strange.items():
        FILE.write_bytes(content)
        refused(match)


@pytest.mark.parametrize(
    ("values", "match"),
    [
        (np.array(["abc"]), "holds no numbers"),
        (np.zeros(2, dtype="V100"), "holds no numbers"),
        (np.zeros(0, dtype="U100000"), "holds no numbers"),
    ],
)
def test_arrays_of_anything_but_numbers(values, match):
    saved()
    parts = parts_of(FILE)
    first = next(name for name in parts if name.endswith(".npy"))
    seal(parts | {first: array(values)}, FILE)
    refused(match)


def test_arrays_that_are_longer_than_they_are():
    saved()
    parts = parts_of(FILE)
    first = next(name for name in parts if name.endswith(".npy"))
    huge = array(np.zeros(3)).replace(b"(3,), }           ", b"(900000000000,), }")
    assert b"900000000000" in huge
    seal(parts | {first: huge}, FILE)
    refused("is not as long as it says")


def schema_of(parts):
    return json.loads(parts["schema.json"])


def resealed(parts, schema):
    seal(parts | {"schema.json": json.dumps(schema).encode()}, FILE)


def test_nodes_that_hold_themselves_or_too_many():
    saved()
    parts = parts_of(FILE)
    schema = schema_of(parts)
    plain = {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode"}
    node = schema["content"]["estimator"]
    resealed(
        parts,
        schema
        | {
            "content": schema["content"]
            | {"estimator": plain | {"__id__": 7, "content": [plain | {"__id__": 7}]}}
        },
    )
    refused("an object holds itself")
    deep = node
    for _ in range(200):
        deep = plain | {"content": [deep]}
    resealed(parts, schema | {"content": schema["content"] | {"estimator": deep}})
    refused("nested more than 100 deep")
    # each of forty lists holds the one before twice
    levels = plain | {"__id__": 1, "content": []}
    for k in range(2, 42):
        levels = plain | {"__id__": k, "content": [levels, plain | {"__id__": k - 1}]}
    resealed(parts, schema | {"content": schema["content"] | {"estimator": levels}})
    refused("used too often")


def test_earlier_protocols_of_skops_are_refused():
    saved()
    parts = parts_of(FILE)
    for protocol in (0, 1, True, "2", None):
        resealed(parts, schema_of(parts) | {"protocol": protocol})
        refused("it follows the protocol")


def test_a_loader_that_does_not_belong_to_a_type():
    saved()
    parts = parts_of(FILE)
    text = parts["schema.json"].decode()
    changed = text.replace('"__loader__":"TupleNode"', '"__loader__":"ObjectNode"')
    assert changed != text
    seal(parts | {"schema.json": changed.encode()}, FILE)
    refused("builtins.tuple.*it was not loaded")


def test_the_list_has_all_that_is_written_and_little_more():
    """A type that no model needs is a type too many."""
    seen = set()
    for name, kind, n_classes in (
        *((name, "numbers", 2) for name in CANDIDATES_BY_NAME),
        ("gradient-boosting", "mixed", 2),
        ("gradient-boosting", "numbers", 3),
    ):
        saved(name, kind, n_classes)
        seen |= set(_contents.check_contents(parts_of(FILE)))
    unseen = set().union(*_contents.ALLOWED.values()) - seen
    assert unseen <= {"builtins.int", "numpy.bool", "numpy.float32", "numpy.int64"}


def test_a_file_without_rights_or_content():
    FILE.write_bytes(b"")
    refused("is no model of grayzone, or is damaged")
    FILE.unlink()
    FILE.mkdir()
    with pytest.raises(UserError, match="does not exist"):
        grayzone.load_model(FILE)
