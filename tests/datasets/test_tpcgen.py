"""TPC tables as files: made once, whole or not at all, with errors that say what to do."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pyarrow import parquet

from reshape.datasets.tpcgen import TpcgenFailed, TpcgenNotFound, table_file


def test_a_table_is_made_once(tmp_path: Path) -> None:
    file = table_file(tmp_path, "tpcds", 0.01, "item")
    assert parquet.read_metadata(file).num_rows == 2_000
    made = file.stat().st_mtime_ns
    assert table_file(tmp_path, "tpcds", 0.01, "item") == file
    assert file.stat().st_mtime_ns == made
    assert [path.name for path in file.parent.iterdir()] == ["item.parquet"]


def test_a_failed_run_leaves_nothing_and_says_why(tmp_path: Path) -> None:
    with pytest.raises(TpcgenFailed, match=r"tpcgen-cli tpcds parquet .* ended with status \d+: .*no_such_table"):
        table_file(tmp_path, "tpcds", 0.01, "no_such_table")
    assert list((tmp_path / "tpcds-sf0.01").iterdir()) == []


def test_without_the_generator_the_error_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TpcgenNotFound, match=r"needed to make tpch orders.*-m pip install tpcgen-cli"):
        table_file(tmp_path, "tpch", 0.01, "orders")


def test_a_scale_must_be_positive(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="scale must be positive"):
        table_file(tmp_path, "tpch", 0, "orders")
