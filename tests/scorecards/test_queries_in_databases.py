"""The query of a scorecard decides as the model in real databases, whatever names and texts are."""

import csv
import os
import shutil
import sqlite3
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import grayzone as gz
from grayzone.scorecards import Scorecard, scorecard
from grayzone.scorecards.effects import Effect

TEXTS = [
    "it's",
    "",
    "back\\slash",
    "\\",
    "!\\'#\\\\",
    "a\nb",
    "-- no",
    "/* x",
    "$1 %s :a ?",
    "é 😀",
]
LABELS = ["o'clock\\", "\\\\"]


def hostile(number, category, **more):
    """Return rows with a column of numbers and one of texts, and labels that both decide."""
    rng, n = np.random.default_rng(0), 300
    X = pd.DataFrame({number: rng.normal(size=n), category: rng.choice(TEXTS, n)})
    score = X[number] + X[category].map({text: k - 4.5 for k, text in enumerate(TEXTS)})
    y = np.where(score + 0.3 * rng.normal(size=n) > 0, *LABELS)
    X.loc[::13, category] = None
    return X.assign(**{name: values[:n] for name, values in more.items()}), y


ODD = np.where(np.arange(300) % 2, -1e9, 1e9)
TABLES = {
    "columns that the model does not know": hostile(
        "x", "kind", points=ODD, Decision=ODD, scored=ODD, given=ODD
    ),
    "columns of the model": hostile("Points", "DECISION", points_=ODD),
    "quotes": hostile('a "b" -- c', "d'e\\f; %s :g ?"),
    "more quotes": hostile("given.*", '"'),
}


def in_sqlite(query, X):
    connection = sqlite3.connect(":memory:")
    X.to_sql("rows", connection, index=False)
    found = connection.execute(query)
    return [column[0] for column in found.description], found.fetchall()


def in_duckdb(query, X):
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.register("rows", X)
    found = connection.execute(query)
    return [column[0] for column in found.description], found.fetchall()


@pytest.fixture(scope="module")
def in_postgres():
    """Start a server that goes with the tests, where there is one to start."""
    folders = [
        *Path("/usr/lib/postgresql").glob("*/bin"),
        Path(shutil.which("initdb") or "").parent,
    ]
    server = next((folder for folder in folders if (folder / "initdb").exists()), None)
    if server is None:
        pytest.skip("PostgreSQL is not installed")
    # it does not run for root, and the name of a socket is short
    user = {"user": "nobody", "group": "nogroup"} if os.geteuid() == 0 else {}
    folder = Path(tempfile.mkdtemp(dir="/tmp"))

    def run(name, *arguments, **known):
        done = subprocess.run(
            [server / name, *arguments], cwd=folder, capture_output=True, text=True, **user, **known
        )
        assert not done.returncode, done.stderr
        return done.stdout

    if user:
        shutil.chown(folder, *user.values())
    try:
        run("initdb", "-D", "data", "-U", "me", "-A", "trust", "-E", "UTF8", "--locale=C")
        options = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off"
        run("pg_ctl", "-D", "data", "-o", options, "-l", "log", "-w", "start")

        def ask(query, X, escapes="off"):
            columns = ", ".join(
                '"{}" {}'.format(
                    name.replace('"', '""'), "float8" if values.dtype == float else "text"
                )
                for name, values in X.items()
            )
            X.to_csv(folder / "rows.csv", index=False, na_rep="NULL")
            script = (
                f"CREATE TEMP TABLE rows ({columns});\n"
                "\\copy rows FROM 'rows.csv' WITH (FORMAT csv, HEADER, NULL 'NULL')\n"
                f"SET standard_conforming_strings = {'off' if escapes == 'on' else 'on'};\n"
                f"COPY ({query.rstrip().rstrip(';')}) TO STDOUT WITH (FORMAT csv, HEADER);\n"
            )
            known = "-h", folder, "-U", "me", "-d", "postgres", "-v", "ON_ERROR_STOP=1"
            names, *rows = csv.reader(
                run("psql", "-X", "-q", *known, input=script).splitlines(True)
            )
            return names, rows

        yield ask
    finally:
        if (folder / "data" / "postmaster.pid").exists():
            run("pg_ctl", "-D", "data", "-m", "immediate", "stop")
        shutil.rmtree(folder)


@pytest.fixture(params=["SQLite", "DuckDB", "PostgreSQL", "PostgreSQL with escapes"])
def asked(request):
    """Return what a database answers a query."""
    if request.param == "SQLite":
        return in_sqlite
    if request.param == "DuckDB":
        return in_duckdb
    ask = request.getfixturevalue("in_postgres")
    escapes = "on" if request.param.endswith("escapes") else "off"
    return lambda query, X: ask(query, X, escapes)


@pytest.mark.parametrize("name", TABLES)
def test_decisions_are_those_of_the_model(asked, name):
    """A column `points` decided instead of the points; a backslash was an escape."""
    X, y = TABLES[name]
    number, category = list(X)[:2]
    prepared = make_column_transformer(
        (StandardScaler(), [number]), (OneHotEncoder(handle_unknown="ignore"), [category])
    )
    model = make_pipeline(prepared, gz.TruncatedLogisticRegression(reject_cost=0.2)).fit(X, y)
    decided = model.predict(X)
    assert set(decided) == {*LABELS, "undecided"}
    names, rows = asked(scorecard(model).to_sql("rows"), X)
    assert [row[-1] for row in rows] == decided.tolist()
    np.testing.assert_allclose(
        [float(row[-2]) for row in rows], scorecard(model).points(X), atol=1e-9
    )
    assert names[:-2] == list(X)
    mark = "_" if name == "columns of the model" else ""
    assert names[-2:] == ["points" + mark, "decision" + mark]


def test_a_column_that_is_not_there_is_no_text():
    """SQLite took its name in quotes for a text, and decided by that."""
    X, y = TABLES["columns that the model does not know"]
    model = make_pipeline(StandardScaler(), gz.TruncatedLogisticRegression()).fit(X[["x"]], y)
    with pytest.raises(sqlite3.OperationalError, match="no such column"):
        in_sqlite(scorecard(model).to_sql("rows"), X.drop(columns="x"))


@pytest.mark.parametrize("bad", ["a\0b", "half \ud83d", "\udc80"])
@pytest.mark.parametrize("place", ["label", "category", "column", "table"])
def test_texts_that_no_database_has_are_refused(bad, place):
    texts = {
        name: bad if name == place else name for name in ("label", "category", "column", "table")
    }
    effect = Effect(texts["column"], levels={texts["category"]: 1.0}, other=0.0, gap=0.0)
    card = Scorecard(0.0, (effect,), (0.5,), ("other", texts["label"]))
    with pytest.raises(ValueError, match="cannot be written in SQL"):
        card.to_sql(texts["table"])
