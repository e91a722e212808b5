"""Tables of TPC-H and TPC-DS as files, made by ``tpcgen-cli`` (a Python package) once and then kept."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Literal

from reshape.errors import ReshapeError

Benchmark = Literal["tpch", "tpcds"]

TOOL = "tpcgen-cli"
# 1 GB takes seconds; this only bounds the wait for a run that is stuck.
LIMIT_S = 3600.0


class TpcgenNotFound(ReshapeError):
    """The generator is not installed."""

    def __init__(self, table: str, places: tuple[str, ...]) -> None:
        super().__init__(table, places)
        self.table = table
        self.places = places

    def __str__(self) -> str:
        return (
            f"{TOOL} is needed to make {self.table}, and it is not there (looked at {', '.join(self.places)}). "
            f"Install it into this Python environment: {sys.executable} -m pip install {TOOL}"
        )


class TpcgenFailed(ReshapeError):
    """The generator ended with an error."""

    def __init__(self, command: tuple[str, ...], status: int | None, output: str) -> None:
        super().__init__(command, status, output)
        self.command = command
        self.status = status
        self.output = output

    def __str__(self) -> str:
        ended = f"did not end within {LIMIT_S:.0f} s" if self.status is None else f"ended with status {self.status}"
        return f"{' '.join(self.command)} {ended}: {self.output or 'it said nothing'}"


def table_file(directory: str | os.PathLike[str], benchmark: Benchmark, scale: float, table: str) -> Path:
    """A table as a parquet file in the directory, made now unless it is there. Executors must see the directory too."""
    if scale <= 0:
        raise ValueError(f"scale must be positive (1 is about 1 GB), got {scale}")
    home = Path(directory).absolute() / f"{benchmark}-sf{scale:g}"
    file = home / f"{table}.parquet"
    if not file.exists():
        _make(home, benchmark, scale, table)
    return file


def _make(home: Path, benchmark: Benchmark, scale: float, table: str) -> None:
    tool = _find(f"{benchmark} {table}")
    home.mkdir(parents=True, exist_ok=True)
    # Made apart and moved when complete: an interrupted run leaves nothing behind that looks like a table.
    with tempfile.TemporaryDirectory(dir=home, prefix=".making-") as workplace:
        command = (tool, benchmark, "parquet", f"-s{scale:g}", "-T", table, "-o", workplace, "--quiet")
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
        except subprocess.TimeoutExpired as error:
            raise TpcgenFailed(command, None, "") from error
        made = Path(workplace) / f"{table}.parquet"
        if done.returncode or not made.exists():
            raise TpcgenFailed(command, done.returncode, (done.stderr or done.stdout).strip()[-2000:])
        os.replace(made, home / made.name)


def _find(table: str) -> str:
    # Beside Python first: an environment that is not activated is not on PATH.
    beside = str(Path(sys.executable).parent)
    found = shutil.which(TOOL, path=beside) or shutil.which(TOOL)
    if found is None:
        raise TpcgenNotFound(table, (beside, "PATH"))
    return found
