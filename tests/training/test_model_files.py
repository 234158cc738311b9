"""Model files that somebody crafted, or that were damaged: refused, in one line."""

import io
import json
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("skops")

from model_file import FILE, classifier, refused, saved
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC

import grayzone
from fuzz import model_files
from fuzz.model_parts import array, bomb, forge, parts_of, seal, small_model, small_table
from grayzone.tables.errors import UserError
from grayzone.training import archive as archives
from grayzone.training import contents
from grayzone.training.candidates import BY_SIMPLICITY, ENSEMBLE, FAMILIES
from grayzone.training.model import FORMAT, DecisionModel


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("kind", ["numbers", "mixed"])
@pytest.mark.parametrize("name", [ENSEMBLE, *BY_SIMPLICITY])
def test_every_model_comes_back_as_it_was(name, kind):
    model = small_model(name, kind, 2)
    model.save(FILE)
    table = small_table(kind)
    pd.testing.assert_frame_equal(
        grayzone.load_model(FILE).decide(table), model.decide(table), check_exact=True
    )


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("boosting", {"n_classes": 3}),
        ("kernel-logistic", {"n_classes": 3, "reject_cost": 0.2}),
        ("splines", {"kind": "mixed", "reject_cost": 0.2}),
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


def test_the_list_has_all_that_is_written_and_little_more():
    """A type that no model needs is a type too many."""
    seen = set()
    for name in (ENSEMBLE, *FAMILIES):
        saved(name, "mixed")
        seen |= set(contents.check_contents(parts_of(FILE)))
    assert set().union(*contents.ALLOWED.values()) == seen


def test_files_that_are_sealed_again_are_read():
    """Changed files of an earlier format were all refused for it, whatever was in them."""
    raw = model_files.base("logistic-regression", "numbers", 2)
    FILE.write_bytes(model_files._resealed(model_files._parts(raw)))
    assert grayzone.load_model(FILE).n_features_in_ == 2
    assert {name for name, *_ in model_files.BASES} <= {ENSEMBLE, *BY_SIMPLICITY}


# Types


def test_an_estimator_of_scikit_learn_that_opens_files_is_not_loaded():
    """`CountVectorizer(input="filename")` opened the file that a column named."""
    held = saved()
    Path("secret.txt").write_text("alpha beta")
    opener = CountVectorizer(input="filename").fit(["secret.txt"])
    steps = [("features", opener), ("decide", held["estimator"][-1])]
    forge(held | {"estimator": Pipeline(steps)}, FILE)
    refused("CountVectorizer.*it was not loaded")


@pytest.mark.parametrize(
    "thing", [SVC(), HistGradientBoostingClassifier(), json.loads, np.random.default_rng(0), b"1"]
)
@pytest.mark.parametrize("place", ["member", "attribute"])
def test_types_that_no_model_has_are_not_loaded(thing, place):
    """Whatever skops trusts by itself."""
    held = saved()
    ensemble = held["estimator"][-1]
    if place == "member":
        ensemble.members_["boosting"] = thing
    else:
        classifier(held).more = thing
    forge(held, FILE)
    refused("it was not loaded")


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda held: held["estimator"].set_params(memory="cache"), "memory"),
        (lambda held: held["estimator"].set_params(verbose=True), "verbose"),
        (lambda held: held["estimator"].set_params(transform_input=["X"]), "transform_input"),
        (lambda held: held["estimator"][-1].set_params(n_jobs=64), "n_jobs"),
        (lambda held: classifier(held).set_params(n_jobs=64), "n_jobs"),
        (lambda held: classifier(held).set_params(verbose=3), "verbose"),
        (lambda held: setattr(classifier(held), "function", str), "function"),
    ],
)
def test_settings_that_open_files_or_start_processes_are_refused(change, name):
    held = saved()
    change(held)
    forge(held, FILE)
    refused(f"unusual {name}")
    assert not Path("cache").exists()


def _first(step):
    return lambda held: Pipeline([step, held["estimator"].steps[-1]])


@pytest.mark.parametrize(
    "make",
    [
        lambda held: LogisticRegression(),
        lambda held: Pipeline([("decide", LogisticRegression())]),
        lambda held: Pipeline([("pass", "passthrough"), ("decide", LogisticRegression())]),
        lambda held: held["estimator"][-1],
        lambda held: Pipeline(held["estimator"].steps[-1:]),
        lambda held: Pipeline([*held["estimator"].steps, held["estimator"].steps[-1]]),
        _first(("features", "passthrough")),
        _first(("pass", LogisticRegression())),
        _first(("other", "passthrough")),
        _first(("pass", "drop")),
        lambda held: 3,
        lambda held: None,
        lambda held: [1, 2],
    ],
)
def test_estimators_that_are_no_pipeline_of_ours(make):
    held = saved()
    forge(held | {"estimator": make(held)}, FILE)
    refused("pipeline|its step|not in its place")


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
    manifest = json.dumps({"format": FORMAT, "parts": {name: "0" * 64 for name in parts}}).encode()
    FILE.write_bytes(archives._zipped({"manifest.json": manifest, **parts}, zipfile.ZIP_DEFLATED))
    refused("its parts are not those of manifest.json")
    FILE.write_bytes(archives._zipped(parts, zipfile.ZIP_DEFLATED))
    refused("it has no manifest.json")
    for manifest in (b"[]", b"{}", b"3"):
        raw = archives._zipped({"manifest.json": manifest, **parts}, zipfile.ZIP_DEFLATED)
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
        "unusual way": archives._zipped(parts, zipfile.ZIP_BZIP2),
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


@pytest.mark.parametrize("fault", [RuntimeError, OSError, ImportError, MemoryError])
def test_a_fault_of_the_machine_is_not_called_damage(fault, monkeypatch):
    """Where no loop could be compiled, the model was said to be damaged."""
    saved()

    def fails(*given):
        raise fault("cannot cache function")

    monkeypatch.setattr(DecisionModel, "_try", fails)
    refused(f"cannot be loaded here: {fault.__name__}: cannot cache function")


def test_a_file_without_rights_or_content():
    FILE.write_bytes(b"")
    refused("is no model of grayzone, or is damaged")
    FILE.unlink()
    FILE.mkdir()
    with pytest.raises(UserError, match="does not exist"):
        grayzone.load_model(FILE)
