"""Mistakes in what people ask `reshape run` to run: each gets one clear line before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from reshape.cli.flow_file import FlowFile, read_flow_file
from reshape.cli.main import main

QUERY = "SELECT 1 AS one"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sales.parquet").write_bytes(b"PAR1")
    (tmp_path / "empty").mkdir()
    (tmp_path / "query.sql").write_text(QUERY)
    (tmp_path / "there.parquet").mkdir()
    return tmp_path


TOML = {
    "no toml": ("sql = ", "this is not TOML"),
    "unknown key": ("sq = 'x'", "there is no key 'sq' (did you mean sql?)"),
    "no query": ("name = 'x'", "it has no query"),
    "two queries": ("sql = 'SELECT 1'\nsql_file = 'query.sql'", "both sql and sql_file"),
    "empty query": ("sql = ' ; '", "there is no query in it"),
    "missing query file": ("sql_file = 'gone.sql'", "there is no such file"),
    "sql of another type": ("sql = 1", "sql = 1 is not possible; it has to be a text in quotes"),
    "tables of another type": ("sql = 'SELECT 1'\ntables = 'x'", "tables = 'x' is not possible"),
    "options of another type": ("sql = 'SELECT 1'\noptions = 3", "options = 3 is not possible"),
    "table of another type": ("sql = 'SELECT 1'\n[tables]\na = 1", "table 'a' = 1 is not possible"),
    "table without path": ("sql = 'SELECT 1'\n[tables]\na = {format = 'csv'}", "table 'a': it has no path"),
    "unknown key of a table": ("sql = 'SELECT 1'\n[tables]\na = {pat = 'x'}", "did you mean path?"),
    "unknown format": (
        "sql = 'SELECT 1'\n[tables]\na = {path = 'sales.parquet', format = 'parket'}",
        "format 'parket' is not one of csv, json, orc, parquet (did you mean parquet?)",
    ),
    "table that is not there": ("sql = 'SELECT 1'\n[tables]\na = 'gone.parquet'", "the table 'a': there is no"),
    "empty folder as table": ("sql = 'SELECT 1'\n[tables]\na = 'empty'", "is empty"),
    "name that SQL cannot use": ("sql = 'SELECT 1'\n[tables]\n'a b' = 'sales.parquet'", "needs a name of letters"),
    "ending without a format": ("sql = 'SELECT 1'\n[tables]\na = 'query.sql'", "say which format it has"),
    "unknown option": ("sql = 'SELECT 1'\n[options]\nworker = 2", "'worker'"),
    "option of another type": ("sql = 'SELECT 1'\n[options]\nworkers = 'many'", "workers"),
    "unknown strategy": ("sql = 'SELECT 1'\n[options]\nstrategy = 'magic'", "magic"),
    "output of another kind": ("sql = 'SELECT 1'\noutput = 'a.xlsx'", "has to end with one of .parquet, .csv"),
    "output that is there": ("sql = 'SELECT 1'\noutput = 'there.parquet'", "is there already"),
    "output in no folder": ("sql = 'SELECT 1'\noutput = 'gone/a.csv'", "there is no folder"),
}
OTHERS: dict[str, tuple[str, str, list[str], str]] = {
    "no such file": ("other.sql", "", ["gone.sql"], "gone.sql: there is no such file"),
    "unknown kind of file": ("flow.yaml", "", ["flow.yaml"], "has to end with one of .sql, .py, .toml"),
    "a folder": ("other.sql", "", ["folder.sql"], "is a folder"),
    "only comments": ("a.sql", "-- nothing\n;", ["a.sql"], "there is no query in it"),
    "a table without path": ("a.sql", QUERY, ["a.sql", "--table", "a"], "write it as NAME=PATH"),
    "a table twice": (
        "a.sql",
        QUERY,
        ["a.sql", "--table", "a=sales.parquet", "--table", "a=sales.parquet"],
        "'a' is given twice",
    ),
    "a setting without value": ("a.sql", QUERY, ["a.sql", "--set", "workers"], "write it as NAME=VALUE"),
    "a setting of Spark without value": ("a.sql", QUERY, ["a.sql", "--conf", "x"], "write it as KEY=VALUE"),
    "no Python": ("a.py", "def query(spark)\n  pass", ["a.py"], "line 1: this is not Python"),
}


def refusal(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["run", *arguments]) == 2
    caught = capsys.readouterr()
    assert caught.out == ""
    assert caught.err.startswith("reshape: error: ")
    assert len(caught.err.splitlines()) == 1
    assert "Traceback" not in caught.err
    return caught.err


@pytest.mark.parametrize("mistake", TOML)
def test_a_mistake_in_a_flow_file(mistake: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, said = TOML[mistake]
    (folder / "flow.toml").write_text(text)
    assert said in refusal(["flow.toml"], capsys)


@pytest.mark.parametrize("mistake", OTHERS)
def test_a_mistake_elsewhere(mistake: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name, text, arguments, said = OTHERS[mistake]
    (folder / "folder.sql").mkdir()
    (folder / name).write_text(text)
    assert said in refusal(arguments, capsys)


def test_a_file_that_is_no_text(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "a.sql").write_bytes(b"SELECT '\xff'")
    assert "is not text in UTF-8" in refusal(["a.sql"], capsys)


def test_paths_are_seen_from_the_file(folder: Path) -> None:
    (folder / "below").mkdir()
    (folder / "below" / "flow.toml").write_text(
        "name = 'f'\nsql_file = '../query.sql'\noutput = 'a.csv'\n"
        "[tables]\na = '../sales.parquet'\nb = {path = '../query.sql', format = 'csv', options = {header = false}}\n"
        "[options]\nworkers = 4\nqueue_bytes = '1m'\n"
    )
    found: FlowFile = read_flow_file(Path("below/flow.toml"), [], ["workers=8"], None)
    assert (found.sql, found.output) == (QUERY, Path("below/a.csv"))
    assert found.tables["a"].format == "parquet"
    assert found.tables["b"].options == {"header": "false", "inferSchema": "true"}
    assert found.options == {"name": "f", "workers": 8, "queue_bytes": 1024 * 1024}


def test_a_query_may_end_with_a_semicolon(folder: Path) -> None:
    (folder / "a.sql").write_text(f"-- one\n{QUERY};\n")
    assert read_flow_file(Path("a.sql"), [], [], None).sql == f"-- one\n{QUERY}"
