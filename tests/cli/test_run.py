"""`reshape run`: results are Spark's, failures and interrupts end with their exit codes, and nothing is left behind."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from reshape.cli.flow_file import BadInput, FlowFile, read_flow_file
from reshape.cli.queries import build_query
from reshape.cli.run import Run, as_flow
from reshape.flows import Flow

from ..endings.remains import MARK, processes, until
from .terminal import Terminal

pytestmark = pytest.mark.jvm

COMMAND = [sys.executable, "-m", "reshape.cli.main", "run"]
# Some 20 s on two idle cores; the machine may have much else to do.
LIMIT_S = 400.0
ROWS = 20_000
EXPECTED = {0: ROWS // 2, **dict.fromkeys(range(1, 11), ROWS // 20)}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Half of the sales have the item 0, the others are of ten items."""
    monkeypatch.chdir(tmp_path)
    items = [0 if row % 2 else 1 + row // 2 % 10 for row in range(ROWS)]
    pq.write_table(pa.table({"item": items, "price": [1.5] * ROWS}), tmp_path / "sales.parquet")
    (tmp_path / "q.sql").write_text("SELECT item, count(*) AS n FROM sales GROUP BY item;")
    (tmp_path / "flow.toml").write_text(
        "name = 'by item'\nsql_file = 'q.sql'\n[tables]\nsales = 'sales.parquet'\n[options]\nhosts = 2\n"
    )
    return tmp_path


@pytest.fixture
def mark(tmp_path: Path) -> Iterator[str]:
    """On all processes of a run; whatever a failed test leaves is ended."""
    made = uuid.uuid4().hex
    yield made
    for pid in processes(made):
        os.kill(pid, 9)
    until("all processes to end", lambda: not processes(made))


def environment(folder: Path, mark: str) -> dict[str, str]:
    scratch = folder / "scratch"
    scratch.mkdir()
    return {**os.environ, MARK: mark, "TMPDIR": str(scratch), "SPARK_LOCAL_DIRS": str(scratch)}


def counts(rows: list[dict[str, Any]]) -> dict[int, int]:
    return {row["item"]: row["n"] for row in rows}


# As people start it


def test_json_is_one_object_and_the_result_is_written(folder: Path, mark: str) -> None:
    ended = subprocess.run(
        [*COMMAND, "flow.toml", "--json", "--output", "result.parquet", "--master", "local[4]"],
        env=environment(folder, mark),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout)
    assert (report["name"], report["by"], report["rows"]) == ("by item", "reshape", 11)
    assert report["columns"] == {"item": "bigint", "n": "bigint"}
    assert counts(report["first_rows"]) == EXPECTED
    assert counts(pq.read_table(folder / "result.parquet").to_pylist()) == EXPECTED
    assert report["progress"]["part_read"] == 1.0
    assert processes(mark) == {}
    assert list((folder / "scratch").iterdir()) == []


SLOW = [*COMMAND, "flow.toml", "--set", "cost_s_per_row=0.05", "--set", "combine=false", "--master", "local[4]"]


def test_ctrl_c_while_the_result_grows(folder: Path, mark: str) -> None:
    terminal = Terminal(SLOW, 90, 30, environment(folder, mark))
    lines = terminal.until("a running result", lambda lines: any("so far:" in line for line in lines), LIMIT_S)
    assert any(line.startswith("by item  running") for line in lines)
    assert any("representative of the input" in line for line in lines)
    terminal.press(b"\x03")
    assert terminal.end(LIMIT_S) == 130
    assert processes(mark) == {}
    assert list((folder / "scratch").iterdir()) == []
    assert not any("Traceback" in line for line in terminal.screen.lines)


def test_a_spark_that_dies_is_told_in_a_line(folder: Path, mark: str) -> None:
    terminal = Terminal(SLOW, 90, 30, environment(folder, mark))
    terminal.until("a running result", lambda lines: any("so far:" in line for line in lines), LIMIT_S)
    [java] = [pid for pid, command in processes(mark).items() if "org.apache.spark.deploy.SparkSubmit" in command]
    os.kill(java, 9)
    assert terminal.end(LIMIT_S) == 1
    lines = terminal.screen.lines
    assert any(line.startswith("reshape: error: ") for line in lines), lines
    assert not any("Traceback" in line for line in lines), "\n".join(lines)
    until("all processes to end", lambda: not processes(mark))


def test_a_mistake_that_spark_finds_is_told_in_a_line(folder: Path, mark: str) -> None:
    (folder / "a.sql").write_text("SELECT itm FROM sales")
    ended = subprocess.run(
        [*COMMAND, "a.sql", "-t", "sales=sales.parquet"],
        env=environment(folder, mark),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert ended.returncode == 2
    *before, error = ended.stderr.splitlines()
    assert error.startswith("reshape: error: a.sql: [UNRESOLVED_COLUMN")
    assert all(line.endswith(" ...") for line in before), ended.stderr


# In a session that is there


@pytest.fixture
def session(spark: Any) -> Any:
    return spark.newSession()


def carried_out(session: Any, given: FlowFile, *, as_json: bool = False) -> tuple[int, str]:
    said = io.StringIO()
    code = Run(Console(file=said, width=80), given, 20, as_json).carry_out(as_flow(build_query(session, given), given))
    return code, said.getvalue()


def test_output_that_cannot_move_gets_lines(session: Any, folder: Path) -> None:
    code, said = carried_out(session, read_flow_file(Path("flow.toml"), [], [], Path("out.csv")))
    assert code == 0
    assert "\x1b" not in said
    assert "by item: " in said
    assert "11 rows in " in said
    assert "written to out.csv" in said
    written = session.read.csv(str(folder / "out.csv"), header=True, inferSchema=True).collect()
    assert {row["item"]: row["n"] for row in written} == EXPECTED


def test_what_flows_do_not_do_spark_does(session: Any, folder: Path) -> None:
    (folder / "one.sql").write_text("SELECT price FROM sales LIMIT 3")
    code, said = carried_out(session, read_flow_file(Path("one.sql"), ["sales=sales.parquet"], [], None))
    assert code == 0
    assert "Spark runs this by itself" in said
    assert "3 rows in " in said


ODD = '''
def query(spark):
    return spark.sql("""
        SELECT k AS n, count(*) AS n, max(double('NaN')) AS x, -max(double('Infinity')) AS y, first(binary('ab')) AS b,
            first(CAST(unhex('ff41') AS string)) AS t, first(map(1, date'2020-01-01')) AS m
        FROM (SELECT id % 1 AS k FROM range(3)) GROUP BY k""")
'''


def test_json_for_what_json_lacks(session: Any, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "odd.py").write_text(ODD)
    given = read_flow_file(folder / "odd.py", [], ["hosts=2"], None)
    code, _ = carried_out(session, given, as_json=True)
    report = json.loads(capsys.readouterr().out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert code == 0
    [row] = report["first_rows"]
    values = [0, 3, "NaN", "-Infinity", "YWI=", "\ufffdA", [[1, "2020-01-01"]]]
    assert row == dict(zip(["n", "n (2)", "x", "y", "b", "t", "m"], values, strict=True))
    assert list(report["columns"]) == list(row)


def test_a_script_that_ends_python_is_told(session: Any, folder: Path) -> None:
    (folder / "end.py").write_text("import sys\nsys.exit(0)\n")
    with pytest.raises(BadInput, match=r"end\.py, line 2: it ends Python"):
        build_query(session, read_flow_file(folder / "end.py", [], [], None))


def test_a_script_may_return_a_flow(session: Any, folder: Path) -> None:
    (folder / "own.py").write_text(
        "import reshape\n\n\ndef query(spark):\n"
        "    return reshape.flow(spark.table('sales')).groupBy('item').agg({'price': 'count'})\n"
    )
    given = read_flow_file(Path("own.py"), ["sales=sales.parquet"], ["workers=4"], None)
    assert isinstance(build_query(session, given), Flow)
    code, said = carried_out(session, given)
    assert code == 0
    assert "11 rows in " in said


def test_a_flow_that_fails_ends_with_1(session: Any, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "bad.sql").write_text("SELECT item, count(1 / (item - 3)) AS n FROM sales GROUP BY item")
    code, _ = carried_out(session, read_flow_file(Path("bad.sql"), ["sales=sales.parquet"], [], None))
    assert code == 1
    said = capsys.readouterr().err
    assert said.startswith("reshape: error: ")
    assert "DIVIDE_BY_ZERO" in said
    assert len(said.splitlines()) == 1


SQL = {
    "syntax": ("SELEC item FROM sales", "PARSE_SYNTAX_ERROR"),
    "unknown table": ("SELECT * FROM sale", "Tables here: sales"),
    "unknown column": ("SELECT itm FROM sales", "itm"),
    "command": ("CREATE TABLE x AS SELECT 1", "is a command of SQL, not a query"),
    "insertion": ("INSERT INTO sales VALUES (1, 2.0)", "is a command of SQL, not a query"),
    "two queries": ("SELECT 1; SELECT 2", "PARSE_SYNTAX_ERROR"),
}
SCRIPTS = {
    "no function": ("x = 1", "defines no function query(spark)"),
    "raises at once": ("x = 1\n\ny = 1 / 0\n", "line 3: ZeroDivisionError: division by zero"),
    "missing module": ("import not_there_at_all", "line 1: ModuleNotFoundError"),
    "raises when called": ("def query(spark):\n    raise ValueError('no')\n", "query(spark), line 2: ValueError: no"),
    "wrong arguments": ("def query():\n    pass\n", "query(spark): TypeError"),
    "returns nothing": ("def query(spark):\n    pass\n", "returned NoneType; it has to return a DataFrame"),
    "unknown column": ("def query(spark):\n    return spark.table('sales').select('itm')\n", "line 2: "),
}


@pytest.mark.parametrize("mistake", SQL)
def test_a_mistake_in_sql(mistake: str, session: Any, folder: Path) -> None:
    text, said = SQL[mistake]
    (folder / "a.sql").write_text(text)
    assert said in refusal(session, read_flow_file(Path("a.sql"), ["sales=sales.parquet"], [], None))


@pytest.mark.parametrize("mistake", SCRIPTS)
def test_a_mistake_in_a_script(mistake: str, session: Any, folder: Path) -> None:
    text, said = SCRIPTS[mistake]
    (folder / "a.py").write_text(text)
    assert said in refusal(session, read_flow_file(Path("a.py"), ["sales=sales.parquet"], [], None))


def test_a_table_that_is_no_table(session: Any, folder: Path) -> None:
    (folder / "broken.parquet").write_text("this is not Parquet")
    given = read_flow_file(Path("q.sql"), ["sales=broken.parquet"], [], None)
    assert "the table 'sales' (broken.parquet)" in refusal(session, given)


def refusal(session: Any, given: FlowFile) -> str:
    with pytest.raises(BadInput) as caught:
        build_query(session, given)
    said = str(caught.value)
    assert "\n" not in said
    return said
