"""Data sets by name, whole, damaged, downloaded or not there; and data whose truth is known."""

import bz2
import functools
import gzip
import hashlib
import http.server
import io
import re
import sys
import threading
import urllib.request
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from scipy.stats import multivariate_normal, norm
from sklearn.utils import Bunch

from grayzone.datasets import (
    _files,
    _sources,
    list_datasets,
    load_dataset,
    make_four_clusters,
    make_mixture,
    make_twonorm,
)
from grayzone.datasets._catalogue import CATALOGUE, Entry, Source
from grayzone.datasets._contents import Contents

REAL_URLOPEN = urllib.request.urlopen
GERMAN_COSTS = {0: 1.0, 1: 5.0}
# features, rows by class, rows for training, costs: as published, not as in the catalogue
PUBLISHED = {
    "a9a": (123, {-1: 24_720 + 12_435, 1: 7_841 + 3_846}, 32_561, None),
    "bank_marketing": (16, {0: 39_922, 1: 5_289}, None, None),
    "breast_cancer_wisconsin": (9, {0: 458, 1: 241}, None, None),
    "covtype": (
        54,
        {1: 211_840, 2: 283_301, 3: 35_754, 4: 2_747, 5: 9_493, 6: 17_367, 7: 20_510},
        None,
        None,
    ),
    "esl_mixture": (2, {0: 100, 1: 100}, None, None),
    "german_credit": (20, {0: 700, 1: 300}, None, GERMAN_COSTS),
    "german_credit_numeric": (24, {0: 700, 1: 300}, None, GERMAN_COSTS),
    "ijcnn1": (22, {-1: 45_137 + 82_989, 1: 4_853 + 8_712}, 49_990, None),
    "ionosphere": (34, {0: 126, 1: 225}, None, None),
    "mnist": (
        784,
        dict(enumerate([6903, 7877, 6990, 7141, 6824, 6313, 6876, 7293, 6825, 6958])),
        60_000,
        None,
    ),
    "pima_diabetes": (8, {0: 500, 1: 268}, None, None),
    "sonar": (60, {0: 97, 1: 111}, None, None),
    "spambase": (57, {0: 2_788, 1: 1_813}, None, None),
    "statlog_heart": (13, {0: 150, 1: 120}, None, GERMAN_COSTS),
}

# A last column that ends in zeros, a row of zeros, numbers that no binary fraction equals.
X = np.array(
    [
        [0.1, -2.5, 3e-7],
        [0.0, 0.0, 0.0],
        [1 / 3, 12345.678, 1.0],
        [-0.7, 0.0, 0.0],
        [5.0, 1e10, 0.0],
        [0.0, -1e-10, 0.0],
    ]
)
Y = np.array([-1, 1, 1, -1, -1, 1])
N_TRAIN = 4
TABLE = pd.DataFrame(
    {
        "age": [20.0, 31.0, np.nan, 45.0],
        "job": ["none", "clerk", "nurse, or not", 'the "boss"'],
        "home": ["own", "rent", "rent", "für sich"],
    }
)
TABLE_Y = np.array([0, 1, 1, 0])


def fingerprint(data, target):
    return Contents(data, target, []).fingerprint()


TINY = Entry(
    "tiny",
    3,
    {"-1": 3, "1": 3},
    "A few rows.",
    "none",
    fingerprint(X, Y),
    Source("openml", ("tiny-numbers",), 7),
    n_train=N_TRAIN,
    positive="1",
    costs={"-1": 1.0, "1": 5.0},
    classes={"no": "-1", "yes": "1"},
)
MIXED = Entry(
    "mixed",
    3,
    {"0": 2, "1": 2},
    "Numbers and categories.",
    "none",
    fingerprint(TABLE, TABLE_Y),
    Source("openml", ("mixed-things",), 2),
    positive="1",
    classes={"bad": "1", "good": "0"},
)


def refused(*args, **kwargs):
    pytest.fail("the network was used without being asked")


@pytest.fixture(autouse=True)
def _offline(monkeypatch, tmp_path):
    """No data but those that a test makes or asks for, and no network."""
    monkeypatch.delenv("GRAYZONE_DATA", raising=False)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "home"))
    monkeypatch.setattr(urllib.request, "urlopen", refused)
    monkeypatch.setattr(_sources, "fetch_openml", refused)
    monkeypatch.setattr(_sources, "fetch_covtype", refused)


@pytest.fixture
def tiny(monkeypatch):
    """Put a small set into the catalogue."""
    monkeypatch.setitem(CATALOGUE, "tiny", TINY)
    return TINY


@pytest.fixture
def mixed(monkeypatch):
    """Put a small set with categories into the catalogue."""
    monkeypatch.setitem(CATALOGUE, "mixed", MIXED)
    return MIXED


# ----------------------------------------------------------------------------------------------
# Files of the same contents
# ----------------------------------------------------------------------------------------------


def write_npz(folder, X=X, y=Y):
    np.savez_compressed(folder / "tiny.npz", X=X, y=y)
    return folder / "tiny.npz"


def write_parts(folder, X=X, y=Y):
    arrays = {"X_train": X[:N_TRAIN], "y_train": y[:N_TRAIN]}
    np.savez(folder / "tiny.npz", **arrays, X_test=X[N_TRAIN:], y_test=y[N_TRAIN:])
    return folder / "tiny.npz"


def csv_text(X, y):
    rows = [[*map(repr, row), str(label)] for row, label in zip(X.tolist(), y, strict=True)]
    return "\n".join(map(",".join, [["a", "b", "c", "label"], *rows])) + "\n"


def write_csv(folder, X=X, y=Y):
    (folder / "tiny.csv").write_text(csv_text(X, y))
    return folder / "tiny.csv"


def write_csv_gz(folder, X=X, y=Y):
    (folder / "tiny.csv.gz").write_bytes(gzip.compress(csv_text(X, y).encode()))
    return folder / "tiny.csv.gz"


def libsvm_text(X, y):
    """Labels with a sign, zeros left out."""
    return "".join(
        f"{label:+d} " + " ".join(f"{j + 1}:{v!r}" for j, v in enumerate(row) if v) + "\n"
        for row, label in zip(X.tolist(), y.tolist(), strict=True)
    ).encode()


def write_libsvm(folder, X=X, y=Y, suffix="", pack=bytes):
    for name, part in (("tiny", slice(N_TRAIN)), ("tiny.t", slice(N_TRAIN, None))):
        (folder / f"{name}{suffix}").write_bytes(pack(libsvm_text(X[part], y[part])))
    return folder / f"tiny{suffix}"


write_bz2 = functools.partial(write_libsvm, suffix=".bz2", pack=bz2.compress)
FORMS = {
    "npz": write_npz,
    "npz of two parts": write_parts,
    "csv": write_csv,
    "csv.gz": write_csv_gz,
    "LIBSVM": write_libsvm,
    "LIBSVM, bz2": write_bz2,
}


@pytest.fixture(params=FORMS)
def write(request):
    return FORMS[request.param]


def test_the_form_of_a_file_makes_no_difference(tiny, write, tmp_path):
    path = write(tmp_path)
    found = load_dataset("tiny", folder=tmp_path)
    assert found.path == path
    np.testing.assert_array_equal(found.data, X)
    np.testing.assert_array_equal(found.target, Y)
    assert found.target.dtype == np.int64
    assert len(found.feature_names) == 3
    assert (found.n_train, found.positive, found.costs) == (N_TRAIN, 1, {-1: 1.0, 1: 5.0})
    assert found.DESCR == "A few rows. Licence: none."
    data, target = load_dataset("tiny", folder=str(tmp_path), return_X_y=True)
    np.testing.assert_array_equal(data, X)
    np.testing.assert_array_equal(target, Y)


def test_names_of_columns_are_those_of_the_header(tiny, tmp_path):
    write_csv(tmp_path)
    assert load_dataset("tiny", folder=tmp_path).feature_names == ["a", "b", "c"]


def test_the_fingerprint_is_a_hash_of_columns_and_labels():
    # written down here, because the published ones depend on it
    text = b"(2, 2)" + np.array([1, 2, 0.1, np.nan], "<f4").tobytes() + b"-1\n1"
    numbers = np.array([[1, 0.1], [2, np.nan]])
    assert fingerprint(numbers, np.array([-1, 1])) == hashlib.sha256(text).hexdigest()
    text = b"(2, 2)" + np.array([1, 2], "<f4").tobytes() + b"1:a2:bc" + b"-1\n1"
    frame = pd.DataFrame({"p": [1.0, 2.0], "q": ["a", "bc"]})
    assert fingerprint(frame, np.array([-1, 1])) == hashlib.sha256(text).hexdigest()


def test_no_text_moves_from_cell_to_cell_unnoticed():
    cells = ["ab", "c", "d", "e"]
    moved = (["a", "bc", "d", "e"], ["ab", "cd", "", "e"], ["ab\nc", "", "d", "e"])
    prints = {
        fingerprint(pd.DataFrame({"p": text[:2], "q": text[2:]}), np.array([0, 1]))
        for text in (cells, *moved)
    }
    assert len(prints) == 4


# ----------------------------------------------------------------------------------------------
# Where a set is looked for
# ----------------------------------------------------------------------------------------------


def folders(tmp_path, monkeypatch):
    """Make the three places, first to last, and let the variable name the second."""
    made = [tmp_path / "given", tmp_path / "named", tmp_path / "home" / "grayzone"]
    for folder in made:
        folder.mkdir(parents=True)
    monkeypatch.setenv("GRAYZONE_DATA", str(made[1]))
    return made


def test_the_folder_given_comes_before_the_variable_and_that_before_the_home(
    tiny, tmp_path, monkeypatch
):
    given, named, home = folders(tmp_path, monkeypatch)
    # the form that is looked for first is in the last folder
    for write, folder in ((write_npz, home), (write_csv, named), (write_bz2, given)):
        path = write(folder)
        assert load_dataset("tiny", folder=given).path == path
    assert load_dataset("tiny").path == named / "tiny.csv"
    monkeypatch.delenv("GRAYZONE_DATA")
    assert load_dataset("tiny").path == home / "tiny.npz"


def test_a_damaged_file_in_front_is_not_passed_over(tiny, tmp_path, monkeypatch):
    given, named, _ = folders(tmp_path, monkeypatch)
    write_npz(named)
    (given / "tiny.csv").write_text("")
    with pytest.raises(ValueError, match=r"given.tiny\.csv cannot be read"):
        load_dataset("tiny", folder=given)


def test_an_empty_variable_names_no_folder(tiny, tmp_path, monkeypatch):
    write_npz(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRAYZONE_DATA", "")
    with pytest.raises(FileNotFoundError):
        load_dataset("tiny")


def test_tilde_is_the_home_folder(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    (tmp_path / "sets").mkdir()
    path = write_npz(tmp_path / "sets")
    assert load_dataset("tiny", folder="~/sets").path == path
    monkeypatch.setenv("GRAYZONE_DATA", "~/sets")
    assert load_dataset("tiny").path == path


# ----------------------------------------------------------------------------------------------
# What is not there, or not the set
# ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sonor", "", "../tiny", "SONAR", None, 3, ["sonar"]])
def test_unknown_names_list_what_there_is(name):
    with pytest.raises(ValueError, match="name must be one of") as raised:
        load_dataset(name)
    assert all(repr(known) in str(raised.value) for known in list_datasets())
    assert str(raised.value).endswith(f"got {name!r}.")


def test_the_list_is_that_of_the_published_sets():
    assert list_datasets() == sorted(PUBLISHED)


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_a_set_that_is_nowhere_says_where_it_was_looked_for(name, tmp_path, monkeypatch):
    places = folders(tmp_path, monkeypatch)
    with pytest.raises(FileNotFoundError) as raised:
        load_dataset(name, folder=places[0])
    text = str(raised.value)
    assert repr(name) in text
    assert all(str(place) in text for place in places)
    assert "GRAYZONE_DATA" in text
    offered = name not in ("esl_mixture", "german_credit_numeric")
    assert ("download=True" in text) == offered
    assert [*tmp_path.rglob("*.npz"), *tmp_path.rglob("*.csv*")] == []


def test_what_nobody_offers_cannot_be_downloaded(tmp_path):
    for name in ("esl_mixture", "german_credit_numeric"):
        with pytest.raises(FileNotFoundError, match="not offered for download"):
            load_dataset(name, folder=tmp_path, download=True)


def damaged(path, *, source=True):
    """Expect the error of a file that is not the set: which one, and what to do."""
    advice = "download it with download=True" if source else "Put the published file in its place"
    return pytest.raises(ValueError, match=f"(?s)^{re.escape(str(path))}.*{advice}")


def nudged(row, column):
    """Change a cell by the least that single precision tells apart."""
    other = X.copy()
    other[row, column] = np.nextafter(np.float32(X[row, column]), np.float32(np.inf))
    return other


@pytest.mark.parametrize("cell", [(0, 0), (1, 2), (2, 1), (5, 0)])
def test_a_changed_cell_is_noticed(tiny, write, tmp_path, cell):
    path = write(tmp_path, nudged(*cell))
    with damaged(path):
        load_dataset("tiny", folder=tmp_path)


def test_exchanged_labels_and_columns_are_noticed(tiny, write, tmp_path):
    for other, labels in ((X, Y[[1, 0, 2, 3, 4, 5]]), (X[:, [1, 0, 2]], Y), (X, -Y)):
        path = write(tmp_path, other, labels)
        with damaged(path):
            load_dataset("tiny", folder=tmp_path)


def test_counts_that_differ_are_told(tiny, tmp_path):
    path = write_npz(tmp_path, X[:5, :2], Y[:5])
    with damaged(path) as raised:
        load_dataset("tiny", folder=tmp_path)
    assert "should have 6 rows, 3 features and the classes {'-1': 3, '1': 3}" in str(raised.value)
    assert "found 5 rows, 2 features and {'-1': 3, '1': 2}." in str(raised.value)


def test_a_set_with_no_source_is_not_to_be_downloaded(tiny, tmp_path, monkeypatch):
    monkeypatch.setitem(CATALOGUE, "tiny", replace(TINY, source=None))
    for make in (nudged, lambda *_: X[:3]):
        path = write_npz(tmp_path, make(0, 0), Y[: len(make(0, 0))])
        with damaged(path, source=False) as raised:
            load_dataset("tiny", folder=tmp_path)
        assert "download=True" not in str(raised.value)


def only_same_or_damaged(tmp_path, path, what):
    """Load a file that was tampered with: the very same contents, or a clear error."""
    try:
        found = load_dataset("tiny", folder=tmp_path)
    except Exception as error:
        if type(error) is not ValueError or "download=True" not in str(error):
            pytest.fail(f"{what}: {error!r}")
        return not str(error).startswith(str(path))
    np.testing.assert_array_equal(found.data, X, err_msg=what)
    np.testing.assert_array_equal(found.target, Y, err_msg=what)
    return True


PACKED = ["npz", "npz of two parts", "csv.gz", "LIBSVM, bz2"]


@pytest.mark.parametrize("form", PACKED)
def test_a_file_cut_anywhere_is_damaged(tiny, tmp_path, form):
    path = FORMS[form](tmp_path)
    whole = path.read_bytes()
    for size in range(0, len(whole), 1 + len(whole) // 500):
        path.write_bytes(whole[:size])
        assert not only_same_or_damaged(tmp_path, path, f"first {size} bytes of {len(whole)}")


def saved(**arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def plain_array():
    buffer = io.BytesIO()
    np.save(buffer, X)
    return buffer.getvalue()


NO_SETS = {
    "empty.npz": ("tiny.npz", b""),
    "page.csv": ("tiny.csv", b"<!DOCTYPE html>\n<html>no, sorry, nothing</html>\n"),
    "npy.npz": ("tiny.npz", plain_array()),
    "other arrays": ("tiny.npz", saved(a=X, b=Y)),
    "half of the parts": ("tiny.npz", saved(X_train=X, y_train=Y)),
    "objects": ("tiny.npz", saved(X=X.astype(object), y=Y)),
    "two labels a row": ("tiny.npz", saved(X=X, y=np.column_stack([Y, Y]))),
    "empty.csv": ("tiny.csv", b""),
    "no header.csv": ("tiny.csv", csv_text(X, Y).split("\n", 1)[1].encode()),
    "ragged.csv": ("tiny.csv", csv_text(X, Y).replace("0.1,", "").encode()),
    "cut.csv": ("tiny.csv", csv_text(X, Y)[:-20].encode()),
    "NUL.csv": ("tiny.csv", csv_text(X, Y).replace("5.0", "\0").encode()),
    "huge number.csv": ("tiny.csv", csv_text(X, Y).replace("5.0", "5e300").encode()),
    "text in a cell.csv": ("tiny.csv", csv_text(X, Y).replace("5.0", "five").encode()),
    "empty cell.csv": ("tiny.csv", csv_text(X, Y).replace("5.0", "").encode()),
    "labels with a point.csv": ("tiny.csv", csv_text(X, Y.astype(float)).encode()),
    "plain.bz2": ("tiny.bz2", libsvm_text(X, Y)),
    "empty": ("tiny", b""),
    "one feature more": ("tiny", b"+1 4:1.0\n"),
    "half a label": ("tiny", libsvm_text(X[:4], Y[:4]).replace(b"+1", b"+1.5", 1)),
}


@pytest.mark.parametrize("case", NO_SETS)
def test_files_that_are_no_data_set(tiny, tmp_path, case):
    name, content = NO_SETS[case]
    for test in ("tiny.t", "tiny.t.bz2"):  # a good second half, where there are two
        pack = bz2.compress if test.endswith("bz2") else bytes
        (tmp_path / test).write_bytes(pack(libsvm_text(X[4:], Y[4:])))
    (tmp_path / name).write_bytes(content)
    with damaged(tmp_path / name):
        load_dataset("tiny", folder=tmp_path)


def test_blank_lines_of_a_table_do_not_count(tiny, tmp_path):
    (tmp_path / "tiny.csv").write_text(csv_text(X, Y) + "\r\n\n")
    loaded = load_dataset("tiny", folder=tmp_path)
    np.testing.assert_array_equal(loaded.data, X)


def test_pickles_are_not_opened(tiny, tmp_path):
    class Trap:
        def __reduce__(self):
            return pytest.fail, ("a pickle was opened",)

    np.savez(tmp_path / "tiny.npz", X=np.array([Trap()], dtype=object), y=Y)
    with damaged(tmp_path / "tiny.npz"):
        load_dataset("tiny", folder=tmp_path)


# ----------------------------------------------------------------------------------------------
# Categories
# ----------------------------------------------------------------------------------------------


def write_mixed(folder):
    TABLE.assign(label=TABLE_Y).to_csv(folder / "mixed.csv", index=False)
    return folder / "mixed.csv"


def test_categories_come_as_a_table(mixed, tmp_path):
    write_mixed(tmp_path)
    found = load_dataset("mixed", folder=tmp_path)
    assert list(found.data.columns) == found.feature_names == ["age", "job", "home"]
    np.testing.assert_array_equal(found.data["age"].to_numpy(), TABLE["age"].to_numpy())
    assert found.data["job"].tolist() == TABLE["job"].tolist()
    assert found.data["home"].tolist() == TABLE["home"].tolist()
    np.testing.assert_array_equal(found.target, TABLE_Y)


def test_categories_need_pandas_and_say_so(mixed, tiny, tmp_path, monkeypatch):
    write_mixed(tmp_path)
    write_csv(tmp_path)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="categories, which need pandas: pip install pandas"):
        load_dataset("mixed", folder=tmp_path)
    np.testing.assert_array_equal(load_dataset("tiny", folder=tmp_path).data, X)


# ----------------------------------------------------------------------------------------------
# Downloads
# ----------------------------------------------------------------------------------------------


class Site:
    """Addresses on this machine, and what each answers."""

    def __init__(self, address):
        self.address = address
        self.answers = {}
        self.asked = []

    def answer(self, handler):
        self.asked.append(handler.path)
        body, length = self.answers.get(handler.path, (None, 0))
        if body is None:
            handler.send_error(404)
            return
        handler.send_response(200)
        handler.send_header("Content-Length", str(length))
        handler.end_headers()
        handler.wfile.write(body)

    def offer(self, first, second, suffix="", missing=0):
        """Offer two files; `missing` bytes of the second are promised and not sent."""
        self.answers = {
            f"/tiny{suffix}": (first, len(first)),
            f"/tiny.t{suffix}": (second, len(second) + missing),
        }
        where = tuple(self.address + path for path in self.answers)
        return replace(TINY, source=Source("libsvm", where))


@pytest.fixture
def site(monkeypatch):
    """Serve files on 127.0.0.1, and let them be downloaded."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            made.answer(self)

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made = Site(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(urllib.request, "urlopen", REAL_URLOPEN)
    monkeypatch.setattr(_sources, "_SECONDS", 10.0)
    yield made
    server.shutdown()
    server.server_close()
    thread.join(10)


TRAIN, TEST = libsvm_text(X[:N_TRAIN], Y[:N_TRAIN]), libsvm_text(X[N_TRAIN:], Y[N_TRAIN:])


def files_under(folder):
    return sorted(path.name for path in folder.rglob("*")) if folder.exists() else []


@pytest.mark.parametrize("suffix", ["", ".bz2"])
def test_libsvm_files_are_downloaded_once_and_kept(site, tmp_path, monkeypatch, suffix):
    pack = bz2.compress if suffix else bytes
    monkeypatch.setitem(CATALOGUE, "tiny", site.offer(pack(TRAIN), pack(TEST), suffix))
    folder = tmp_path / "not" / "yet"
    with pytest.raises(FileNotFoundError, match="download=True"):
        load_dataset("tiny", folder=folder)
    assert site.asked == []
    found = load_dataset("tiny", folder=folder, download=True)
    assert site.asked == [f"/tiny{suffix}", f"/tiny.t{suffix}"]
    assert found.path == folder / "tiny.npz"
    np.testing.assert_array_equal(found.data, X.astype(np.float32))
    np.testing.assert_array_equal(found.target, Y)
    assert files_under(folder) == ["tiny.npz", "tiny.npz.sha256"]
    again = load_dataset("tiny", folder=folder, download=True)
    np.testing.assert_array_equal(again.data, found.data)
    load_dataset("tiny", folder=folder)
    assert len(site.asked) == 2


PAGE = b"<!DOCTYPE html><html>try again later</html>"
WRONG_ANSWERS = {
    "connection lost": ((TRAIN, TEST, "", 30), ConnectionError, "tiny.t cannot be downloaded"),
    "cut": ((TRAIN, TEST[:-6], ""), ValueError, "tiny.t sent something else"),
    "cut bz2": (
        (bz2.compress(TRAIN), bz2.compress(TEST)[:-5], ".bz2"),
        ValueError,
        r"tiny\.t\.bz2 sent something else",
    ),
    "not packed": ((TRAIN, TEST, ".bz2"), ValueError, r"tiny\.bz2 sent something else"),
    "page": ((PAGE, PAGE, ""), ValueError, "tiny sent something else than a LIBSVM file"),
    "same file twice": ((TRAIN, TRAIN, ""), ValueError, "should have 6 rows"),
    "half a label": ((TRAIN, TEST.replace(b"+1", b"+1.5"), ""), ValueError, "no whole numbers"),
    "label that wraps": ((TRAIN, TEST.replace(b"+1", b"+257"), ""), ValueError, "'257': 1"),
}


@pytest.mark.parametrize("case", WRONG_ANSWERS)
def test_wrong_answers_leave_nothing_behind(site, tmp_path, monkeypatch, case):
    answers, error, match = WRONG_ANSWERS[case]
    monkeypatch.setitem(CATALOGUE, "tiny", site.offer(*answers))
    with pytest.raises(error, match=match):
        load_dataset("tiny", folder=tmp_path / "data", download=True)
    assert files_under(tmp_path) == []
    # what went wrong once may go well the next time
    monkeypatch.setitem(CATALOGUE, "tiny", site.offer(TRAIN, TEST))
    np.testing.assert_array_equal(load_dataset("tiny", download=True).target, Y)


def openml(monkeypatch, frame, target):
    """Let OpenML offer a table; return the calls that it gets."""
    calls = []

    def fetch(name, *, version, as_frame):
        assert as_frame
        calls.append((name, version))
        return Bunch(data=frame.copy(), target=target.copy())

    monkeypatch.setattr(_sources, "fetch_openml", fetch)
    return calls


WORDS = pd.Series(np.where(Y == 1, "yes", "no"), dtype="category")
MIXED_WORDS = pd.Series(np.where(TABLE_Y == 1, "bad", "good"), dtype="category")
NUMBERS = pd.DataFrame(X, columns=["p", "q", "r"])


def test_openml_is_asked_for_name_and_version_and_its_labels_become_ours(
    tiny, tmp_path, monkeypatch
):
    calls = openml(monkeypatch, NUMBERS, WORDS)
    with pytest.raises(FileNotFoundError):
        load_dataset("tiny", folder=tmp_path)
    assert calls == []
    found = load_dataset("tiny", folder=tmp_path, download=True)
    assert calls == [("tiny-numbers", 7)]
    np.testing.assert_array_equal(found.data, X)
    np.testing.assert_array_equal(found.target, Y)
    assert found.target.dtype == np.int64
    assert found.path == tmp_path / "tiny.npz"
    load_dataset("tiny", folder=tmp_path, download=True)
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("frame", "target", "match"),
    [
        (NUMBERS[:5], WORDS[:5], "what openml sent: .* found 5 rows"),
        (NUMBERS[["p", "q"]], WORDS, "found 6 rows, 2 features"),
        (NUMBERS, WORDS.cat.rename_categories({"yes": "perhaps"}), "'perhaps': 3"),
        (NUMBERS, pd.Series(["yes"] * 6), "{'1': 6}"),
    ],
)
def test_another_set_of_openml_is_not_kept(tiny, tmp_path, monkeypatch, frame, target, match):
    openml(monkeypatch, frame, target)
    with pytest.raises(ValueError, match=match):
        load_dataset("tiny", folder=tmp_path / "data", download=True)
    assert files_under(tmp_path) == []


def test_a_public_copy_that_is_written_otherwise_is_accepted_and_watched(
    mixed, tmp_path, monkeypatch
):
    other = TABLE.replace({"own": "A11", "rent": "A12"})
    openml(monkeypatch, other, MIXED_WORDS)
    path = load_dataset("mixed", folder=tmp_path, download=True).path
    assert load_dataset("mixed", folder=tmp_path).data["home"].tolist() == other["home"].tolist()
    text = gzip.decompress(path.read_bytes()).replace(b"clerk", b"Clerk")
    path.write_bytes(gzip.compress(text))
    with damaged(path):
        load_dataset("mixed", folder=tmp_path)
    # a note for a file that was not downloaded helps nobody else
    path.unlink()
    write_mixed(tmp_path)
    load_dataset("mixed", folder=tmp_path)


def test_covertype_comes_by_its_own_loader(tmp_path, monkeypatch):
    data = np.arange(12.0).reshape(4, 3)
    entry = Entry("covtype", 3, {"1": 1, "7": 3}, "Trees.", "none", None, Source("covtype"))
    monkeypatch.setitem(CATALOGUE, "covtype", entry)
    found = Bunch(data=data, target=np.array([7, 7, 1, 7], dtype=np.int32))
    monkeypatch.setattr(_sources, "fetch_covtype", lambda: found)
    loaded = load_dataset("covtype", folder=tmp_path, download=True)
    np.testing.assert_array_equal(loaded.data, data)
    assert loaded.data.dtype == np.int16
    np.testing.assert_array_equal(loaded.target, found.target)
    assert (loaded.positive, loaded.costs, loaded.n_train) == (None, None, None)
    monkeypatch.setattr(_sources, "fetch_covtype", refused)
    load_dataset("covtype", folder=tmp_path, download=True)


class Stop(KeyboardInterrupt):
    """Ctrl-C, told from that of the person who runs the tests."""


@pytest.mark.parametrize("where", ["fetch", "write", "read back", "rename"])
@pytest.mark.parametrize("name", ["tiny", "mixed"])
def test_an_interrupted_download_leaves_nothing_behind(
    tiny, mixed, tmp_path, monkeypatch, where, name
):
    offered = (NUMBERS, WORDS) if name == "tiny" else (TABLE, MIXED_WORDS)
    openml(monkeypatch, *offered)

    def stop(*args, **kwargs):
        raise Stop

    def stop_halfway(*args, **kwargs):
        path = next(a for a in args if not isinstance(a, pd.DataFrame))
        path.write_bytes(b"half of")
        raise Stop

    with monkeypatch.context() as patch:
        if where == "fetch":
            patch.setattr(_sources, "fetch_openml", stop)
        elif where == "write":
            patch.setattr(np, "savez_compressed", stop_halfway)
            patch.setattr(pd.DataFrame, "to_csv", stop_halfway)
        elif where == "read back":
            patch.setattr(_files, "read", stop)
        else:
            patch.setattr(_files.os, "replace", stop)
        with pytest.raises(Stop):
            load_dataset(name, folder=tmp_path / "data", download=True)
    assert [file for file in files_under(tmp_path) if file != "data"] == []
    load_dataset(name, folder=tmp_path / "data", download=True)


# ----------------------------------------------------------------------------------------------
# The published sets
# ----------------------------------------------------------------------------------------------


def real(name, folder, **options):
    try:
        return load_dataset(name, folder=folder, **options)
    except FileNotFoundError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_sets_are_the_published_ones(data_dir, name, monkeypatch):
    n_features, counts, n_train, costs = PUBLISHED[name]
    found = real(name, data_dir)
    assert found.data.shape == (sum(counts.values()), n_features)
    labels, rows = np.unique(found.target, return_counts=True)
    assert dict(zip(labels.tolist(), rows.tolist(), strict=True)) == counts
    assert found.target.dtype == np.int64
    assert len(found.feature_names) == n_features
    assert found.n_train == n_train
    assert found.costs == costs
    assert found.positive == (1 if len(counts) == 2 else None)
    assert found.path.parent == data_dir
    assert found.DESCR
    monkeypatch.setenv("GRAYZONE_DATA", str(data_dir))
    data, target = load_dataset(name, return_X_y=True)
    assert type(data) is type(found.data)
    np.testing.assert_array_equal(target, found.target)


def copy_of(data_dir, tmp_path, *names):
    for name in names:
        if not (data_dir / name).is_file():
            pytest.skip(f"{name} is not in {data_dir}")
        (tmp_path / name).write_bytes((data_dir / name).read_bytes())


@pytest.mark.parametrize(
    "text",
    ["", "m1,m2\n", "m1,m2\n1,2\n", "m1,m2\n" + "a,b\n" * 20, "\0"],
    ids=["empty", "header", "one row", "words", "NUL"],
)
@pytest.mark.parametrize("extra", ["means", "grid"])
def test_damaged_extras_of_the_mixture_are_named(data_dir, tmp_path, text, extra):
    copy_of(data_dir, tmp_path, "esl_mixture.csv")
    path = tmp_path / f"esl_mixture_{extra}.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))} should have a header and"):
        load_dataset("esl_mixture", folder=tmp_path)


# ----------------------------------------------------------------------------------------------
# Generators
# ----------------------------------------------------------------------------------------------

MAKERS = {
    "twonorm": make_twonorm,
    "mixture": make_mixture,
    "three classes": functools.partial(make_mixture, n_classes=3),
    "given centres": functools.partial(make_mixture, centres=[[0, 0], [1, 1], [0, 1], [1, 0]]),
    "clusters": make_four_clusters,
}
BROAD = functools.partial(make_four_clusters, scale=2.0)  # classes that overlap


@pytest.fixture(params=MAKERS)
def make(request):
    return MAKERS[request.param]


def test_draws_depend_on_the_seed_alone(make):
    first, same, other = (make(50, random_state=seed) for seed in (3, 3, 4))
    for one, two in zip(first, same, strict=True):
        np.testing.assert_array_equal(one, two)
    assert not np.array_equal(first[0], other[0])
    rng = np.random.RandomState(3)
    np.testing.assert_array_equal(make(50, random_state=rng)[0], first[0])
    assert not np.array_equal(make(50, random_state=rng)[0], first[0])
    assert not np.array_equal(make(50)[0], make(50)[0])


def test_shapes_and_labels(make):
    X, y, *rest = make(500, random_state=0)
    n_classes = rest[0].shape[1] if rest else 2
    assert X.shape == (500, 20 if not rest else 2)
    assert y.shape == (500,)
    assert y.dtype == np.int64
    assert set(y.tolist()) == set(range(n_classes))
    for proba in rest:
        assert proba.shape == (500, n_classes)
        assert np.all(proba >= 0)
        np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    X, y, *rest = make(1, random_state=0)
    assert len(X) == len(y) == 1


@pytest.mark.parametrize("n", [0, -1, 2.0, 2.5, "10", None, True, np.nan])
def test_numbers_of_rows_are_whole_and_positive(make, n):
    with pytest.raises(ValueError, match=r"n_samples must be an integer >= 1; got"):
        make(n)


def test_seeds_that_are_none(make):
    with pytest.raises(ValueError, match="seed"):
        make(10, random_state="zero")


def assert_calibrated(y, proba):
    """Compare labels with true probabilities in tenths, by the chi-square of each class."""
    for k, p in enumerate(proba.T):
        tenth = np.minimum((10 * p).astype(int), 9)
        for bin_ in np.unique(tenth):
            inside = tenth == bin_
            error = np.sqrt((p[inside] * (1 - p[inside])).sum())
            surplus = np.count_nonzero(y[inside] == k) - p[inside].sum()
            # half a row more, where next to nothing is expected
            assert abs(surplus) <= 4.5 * error + 0.5


@pytest.mark.parametrize("name", ["mixture", "three classes", "given centres", "broad clusters"])
def test_labels_follow_the_true_probabilities(name):
    maker = {**MAKERS, "broad clusters": BROAD}[name]
    _, y, proba = maker(40_000, random_state=1)
    assert np.mean(proba.max(axis=1) < 0.9) > 0.05  # there is something to test
    assert_calibrated(y, proba)
    # and by Bayes' rule they are as often right as they should be
    best = proba.max(axis=1)
    error = np.sqrt((best * (1 - best)).sum()) / len(y)
    assert abs(np.mean(proba.argmax(axis=1) == y) - best.mean()) < 4 * error


def test_probabilities_of_a_mixture_are_those_of_its_densities():
    centres = np.array([[0.0, 0.0], [2.0, 1.0], [0.5, 0.5], [-1.0, 0.0], [0.0, -3.0], [1.0, 1.0]])
    for n_classes in (2, 3, 6):
        X, _, proba = make_mixture(300, centres=centres, n_classes=n_classes, random_state=2)
        density = np.array(
            [multivariate_normal(centre, np.eye(2) / 5).pdf(X) for centre in centres]
        )
        of_class = density.reshape(n_classes, -1, 300).sum(axis=1).T
        expected = of_class / of_class.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(proba, expected, rtol=1e-10, atol=1e-14)


def test_probabilities_of_clusters_are_those_of_their_densities():
    centres = np.array([[0.0, 0.0], [2.0, 1.0], [0.5, 0.5], [-1.0, 0.0]])
    shares = np.array([1.0, 2.0, 0.0, 5.0])  # of eight
    X, y, proba = make_four_clusters(
        20_000, centres=centres, shares=shares, scale=1.5, random_state=3
    )
    density = np.array(
        [
            share / 8 * multivariate_normal(centre, 1.5**2 * np.eye(2)).pdf(X)
            for centre, share in zip(centres, shares, strict=True)
        ]
    )
    of_class = density.reshape(2, 2, -1).sum(axis=1).T
    expected = of_class / of_class.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(proba, expected, rtol=1e-10, atol=1e-14)
    assert abs(y.mean() - 5 / 8) < 4 * np.sqrt(5 / 8 * 3 / 8 / len(y))
    assert_calibrated(y, proba)


@pytest.mark.parametrize("n_classes", [2, 3, 4, 7])
def test_drawn_centres_lie_around_a_circle(n_classes):
    # the mean of a class in one draw: centres vary by 1/10, points by 1/5 around them
    means = []
    for seed in range(60):
        X, y, _ = make_mixture(200 * n_classes, n_classes=n_classes, random_state=seed)
        means.append([X[y == k].mean(axis=0) for k in range(n_classes)])
    found = np.mean(means, axis=0)
    variance = 1 / 10 + (1 + 1 / 5) / 150  # of the centres drawn, and of points among them
    error = np.sqrt(variance / 60)
    np.testing.assert_allclose(found[0], [1.0, 0.0], rtol=0, atol=4.5 * error)
    if n_classes <= 4:
        np.testing.assert_allclose(found[1], [0.0, 1.0], rtol=0, atol=4.5 * error)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, rtol=0, atol=4.5 * error)
    apart = np.linalg.norm(found[:, None] - found, axis=2)[~np.eye(n_classes, dtype=bool)]
    least = 2 * np.sin(np.pi / max(n_classes, 4))
    assert apart.min() > least - 4.5 * np.sqrt(2) * error


def test_twonorm_is_right_as_often_as_breimans():
    X, y = make_twonorm(60_000, n_noise=2, random_state=5)
    assert X.shape == (60_000, 22)
    signs = 2.0 * y - 1.0
    means = np.append(np.full(20, 2 / np.sqrt(20)), [0.0, 0.0])
    error = 1 / np.sqrt(len(y))
    assert np.max(np.abs((X * signs[:, None]).mean(axis=0) - means)) < 4.5 * error
    residuals = X - signs[:, None] * means
    assert np.max(np.abs(np.cov(residuals.T) - np.eye(22))) < 4.5 * np.sqrt(2) * error
    chance = norm.cdf(2)
    assert chance == pytest.approx(0.977, abs=5e-4)
    accuracy = np.mean((X[:, :20].sum(axis=1) > 0) == (y == 1))
    assert abs(accuracy - chance) < 4 * np.sqrt(chance * (1 - chance)) * error
    assert abs(y.mean() - 0.5) < 4 * 0.5 * error
    p = expit(2 * (X @ means))  # the ratio of two normal densities around ± the means
    assert_calibrated(y, np.column_stack([1 - p, p]))


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e-9, 1e160])
def test_clusters_of_any_size_have_probabilities(scale):
    X, y, proba = make_four_clusters(200, scale=scale, random_state=0)
    assert np.all(np.isfinite(X))
    if scale < 1:
        np.testing.assert_array_equal(proba, np.eye(2)[y])
    else:  # one heap
        np.testing.assert_allclose(proba, 0.5, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("maker", "options", "match"),
    [
        (make_twonorm, {"n_noise": -1}, "n_noise must be an integer >= 0; got -1"),
        (make_mixture, {"n_classes": 1}, "n_classes must be an integer >= 2; got 1"),
        (make_mixture, {"centres": []}, r"centres must be of shape .* got \(0,\)"),
        (make_mixture, {"centres": np.zeros((3, 2))}, r"n_classes=2; got \(3, 2\)"),
        (make_mixture, {"centres": [[0.0, 0.0], [np.nan, 1.0]]}, "centres must be finite"),
        (make_mixture, {"centres": [["a", "b"], ["c", "d"]]}, "could not convert"),
        (make_four_clusters, {"scale": 0.0}, "scale must be a finite number > 0; got 0.0"),
        (make_four_clusters, {"scale": np.inf}, "scale must be"),
        (make_four_clusters, {"centres": np.zeros((3, 2))}, r"shape \(4, 2\)"),
        (make_four_clusters, {"shares": (1, 1, 1, -1)}, "four numbers >= 0"),
        (make_four_clusters, {"shares": (0, 0, 0, 0)}, "four numbers >= 0"),
        (make_four_clusters, {"shares": (1, 1, 1, np.nan)}, "shares must be finite"),
    ],
)
def test_arguments_that_make_no_sense(maker, options, match):
    with pytest.raises(ValueError, match=match):
        maker(10, **options)
