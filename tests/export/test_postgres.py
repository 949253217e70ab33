"""Statements for PostgreSQL, run by a server of its own on the loopback."""

from __future__ import annotations

import glob
import io
import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest

import craftc
from tests.export import scored_tables as tables

pd = pytest.importorskip("pandas", reason="tables are data frames")
pytest.importorskip("sqlglot", reason="sqlglot is not installed: pip install 'craftc[export]'")
pytestmark = pytest.mark.slow


def program(name):
    """A program of PostgreSQL, which Debian keeps outside the path."""
    found = shutil.which(name) or next(
        iter(sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"))[::-1]), None
    )
    if found is None:
        pytest.skip(f"PostgreSQL is not installed here (no {name}): apt-get install postgresql")
    return found


@pytest.fixture(scope="module")
def postgres():
    """Runs SQL in a temporary cluster of databases; returns the rows of the last statement."""
    initdb, server, psql = program("initdb"), program("postgres"), program("psql")
    folder = Path(tempfile.mkdtemp(prefix="craftc-postgres-"))
    account = {}
    if os.geteuid() == 0:  # which PostgreSQL refuses
        try:
            shutil.chown(folder, "postgres")
        except LookupError:
            pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
        account = {"user": "postgres", "group": "postgres", "extra_groups": []}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    data = str(folder / "data")
    options = ["-U", "craftc", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
    subprocess.run([initdb, "-D", data, *options], check=True, capture_output=True, cwd=folder, **account)
    command = [server, "-D", data, "-h", "127.0.0.1", "-p", port, "-k", str(folder), "-F"]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=folder, **account
    )
    environment = {**os.environ, "PGCLIENTENCODING": "UTF8", "PGCONNECT_TIMEOUT": "30"}

    def run(sql):
        connection = ["-h", "127.0.0.1", "-p", port, "-U", "craftc", "-d", "postgres"]
        done = subprocess.run(
            [psql, "-X", "-q", "--csv", "-v", "ON_ERROR_STOP=1", *connection],
            input=sql,
            text=True,
            encoding="utf-8",
            capture_output=True,
            env=environment,
        )
        assert done.returncode == 0, done.stderr[:2000]
        return pd.read_csv(io.StringIO(done.stdout)) if done.stdout else None

    try:
        wait_for(port, process)
        yield run
    finally:
        process.terminate()
        process.communicate(timeout=30)
        shutil.rmtree(folder, ignore_errors=True)


def wait_for(port, process):
    """Wait until the server accepts connections."""
    isready = program("pg_isready")
    for _ in range(100):
        done = subprocess.run([isready, "-h", "127.0.0.1", "-p", port, "-t", "5"], capture_output=True)
        if done.returncode == 0:
            return
        assert process.poll() is None, process.stderr.read()
    pytest.fail("PostgreSQL does not start")


def created(frame):
    """SQL that creates the table t."""
    import sqlglot

    columns, rows = [], []
    for name, column in frame.items():
        first = column.dropna().iloc[0] if column.notna().any() else 0.0
        kind = (
            "TEXT"
            if isinstance(first, str)
            else "BOOLEAN"
            if isinstance(first, bool | np.bool_)
            else "DOUBLE PRECISION"
        )
        columns.append(f"{sqlglot.exp.to_identifier(name, quoted=True).sql('postgres')} {kind}")
    for row in frame.astype(object).where(frame.notna(), None).itertuples(index=False):
        rows.append(f"({', '.join(sqlglot.exp.convert(cell).sql('postgres') for cell in row)})")
    create = f"DROP TABLE IF EXISTS t; CREATE TABLE t ({', '.join(columns)});"
    return f"{create} INSERT INTO t VALUES {', '.join(rows)};"


@pytest.mark.filterwarnings("ignore:Column .* cells of .* lie outside the range of the fit")
@pytest.mark.parametrize("seed", range(200, 225))
def test_random_models(seed, postgres):
    rng = np.random.default_rng(seed)
    model, frame = tables.random_model(tables.random_table(rng), rng)
    rows = frame if isinstance(model, craftc.DPMeans) else tables.new_rows(frame, rng, 100)
    probabilities = hasattr(model, "predict_proba")
    statement = craftc.to_sql(model, "t", dialect="postgres", probabilities=probabilities)
    result = postgres(f"{created(rows.assign(id=np.arange(len(rows))))}\n{statement};")
    tables.check(model, rows, result)


def test_dates_and_nan(postgres):
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 2, 300)
    days = rng.integers(0, 3000, 300) // 7 * 7 + 2.0 * groups - 400 + 0.25 * groups
    frame = pd.DataFrame({"x": rng.normal(groups, 1.0), "when": days})
    model = craftc.CRAFT(2, kinds={"when": "date"}, n_init=1, random_state=0).fit(frame)
    rows = frame.assign(x=frame["x"].mask(rng.random(300) < 0.1))
    moments = pd.to_datetime(days, unit="D", origin="unix")
    cells = ["'NaN'" if np.isnan(x) else repr(x) for x in rows["x"].tolist()]
    values = ", ".join(
        f"({i}, {x}, '{when}')" for i, (x, when) in enumerate(zip(cells, moments, strict=True))
    )
    columns = 'id INT, x FLOAT8, "when" TIMESTAMP'
    table = f"DROP TABLE IF EXISTS t; CREATE TABLE t ({columns}); INSERT INTO t VALUES {values};"
    tables.check(model, rows, postgres(f"{table}\n{craftc.to_sql(model, 't', dialect='postgres')};"))
