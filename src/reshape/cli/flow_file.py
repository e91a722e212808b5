"""What `reshape run` and `reshape inspect` are told to run: a file with SQL, with Python, or with a flow in TOML.

```
name = "sales by item"            # all of it is optional but the query
sql = "SELECT ..."                # or: sql_file = "query.sql"
output = "result.parquet"

[tables]
sales = "data/sales"              # Parquet, CSV, JSON or ORC by its ending; a folder without one is Parquet
items = { path = "items.txt", format = "csv", options = { header = true } }

[options]                         # settings of the flow
workers = 8
```

Paths in a file are seen from its folder. Nothing here needs Spark, so mistakes are told before it starts.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from reshape.errors import ReshapeError

FORMATS = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".orc": "orc"}
OUTPUTS = {".parquet": "parquet", ".csv": "csv"}
KINDS = (".sql", ".py", ".toml")
KEYS = ("name", "sql", "sql_file", "output", "tables", "options")
TABLE_KEYS = ("path", "format", "options")
# Otherwise everything in a CSV file is a text, and its first line a row.
CSV_OPTIONS = {"header": "true", "inferSchema": "true"}


class BadInput(ReshapeError):
    """A file or an option of the command line that makes no sense; says what to change."""


@dataclass(frozen=True, slots=True)
class Table:
    """``options`` are those of Spark's reader. A path may be an address of another file system."""

    path: str
    format: str
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        return "://" not in self.path

    @property
    def place(self) -> str:
        """As Spark needs it: its JVM may have another working directory."""
        return str(Path(self.path).absolute()) if self.is_local else self.path


@dataclass(frozen=True, slots=True)
class FlowFile:
    """Exactly one of ``sql`` and ``script`` is there. ``where`` is what errors name."""

    where: str
    name: str
    sql: str | None = None
    script: Path | None = None
    tables: Mapping[str, Table] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    output: Path | None = None


def read_flow_file(path: Path, tables: Sequence[str], options: Sequence[str], output: Path | None) -> FlowFile:
    """The file with what the command line adds to it, all checked. Raises `BadInput` and `SettingError`."""
    from reshape.conf import checked_options

    kind = path.suffix.lower()
    if kind not in KINDS:
        raise BadInput(f"{path}: its name has to end with one of {', '.join(KINDS)}")
    text = _read(path)
    if kind == ".toml":
        made = _of_toml(path, text)
    elif kind == ".py":
        _check_python(path, text)
        made = FlowFile(str(path), path.stem, script=path)
    else:
        made = FlowFile(str(path), path.stem, sql=_checked_sql(str(path), text))
    given = dict(made.tables)
    for name, table in _named_tables(tables):
        if name in given:
            raise BadInput(f"--table: the table {name!r} is given twice")
        given[name] = table
    for name, table in given.items():
        _check_table(name, table)
    wanted = checked_options({"name": made.name, **made.options, **_named_options(options)})
    final = output or made.output
    if final is not None:
        check_output(final)
    return replace(made, tables=given, options=wanted, output=final)


def check_output(path: Path) -> str:
    """The format of a place for a result. Raises `BadInput`."""
    if path.suffix.lower() not in OUTPUTS:
        raise BadInput(f"output {path}: its name has to end with one of {', '.join(OUTPUTS)}")
    if path.exists():
        raise BadInput(f"output {path} is there already; name another one, or remove it first")
    if not path.absolute().parent.is_dir():
        raise BadInput(f"output {path}: there is no folder {path.absolute().parent}")
    return OUTPUTS[path.suffix.lower()]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise BadInput(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise BadInput(f"{path} is a folder; name a file that ends with one of {', '.join(KINDS)}") from None
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not text in UTF-8: {error.reason} at byte {error.start}") from None
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from None


def _check_python(path: Path, text: str) -> None:
    try:
        compile(text, str(path), "exec")
    except (SyntaxError, ValueError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise BadInput(f"{path}{line}: this is not Python: {error.args[0]}") from None


def _checked_sql(where: str, text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip() and not line.strip().startswith("--")]
    if not " ".join(lines).strip().strip(";"):
        raise BadInput(f"{where}: there is no query in it")
    return text.strip().rstrip(";").strip()


def _of_toml(path: Path, text: str) -> FlowFile:
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{path}: this is not TOML: {error}") from None
    _check_keys(str(path), given, KEYS)
    for key in ("name", "sql", "sql_file", "output"):
        _check_type(f"{path}: {key}", given.get(key, ""), str, "a text in quotes")
    for key in ("tables", "options"):
        _check_type(f"{path}: {key}", given.get(key, {}), dict, f"a table: [{key}], and below it name = value")
    if "sql" in given and "sql_file" in given:
        raise BadInput(f"{path}: it has both sql and sql_file; leave one out")
    if "sql" in given:
        sql = _checked_sql(f"{path}: sql", given["sql"])
    elif "sql_file" in given:
        file = path.parent / given["sql_file"]
        sql = _checked_sql(str(file), _read(file))
    else:
        raise BadInput(f'{path}: it has no query; write sql = "SELECT ..." or sql_file = "query.sql"')
    tables = {name: _table(f"{path}: table {name!r}", value, path.parent) for name, value in _dict(given, "tables")}
    output = path.parent / given["output"] if "output" in given else None
    name = given.get("name", path.stem)
    return FlowFile(str(path), name, sql=sql, tables=tables, options=dict(_dict(given, "options")), output=output)


def _dict(given: Mapping[str, Any], key: str) -> list[tuple[str, Any]]:
    return list(given.get(key, {}).items())


def _table(where: str, value: Any, folder: Path) -> Table:
    if isinstance(value, str):
        value = {"path": value}
    _check_type(where, value, dict, 'a path in quotes, or { path = "...", format = "csv" }')
    _check_keys(where, value, TABLE_KEYS)
    if "path" not in value:
        raise BadInput(f"{where}: it has no path")
    for key in ("path", "format"):
        _check_type(f"{where}: {key}", value.get(key, ""), str, "a text in quotes")
    _check_type(f"{where}: options", value.get("options", {}), dict, "a table: { header = true }")
    options = {name: _text(option) for name, option in value.get("options", {}).items()}
    path = value["path"] if "://" in value["path"] else str(folder / value["path"])
    return _made_table(where, path, value.get("format"), options)


def _made_table(where: str, path: str, form: str | None, options: Mapping[str, str]) -> Table:
    known = sorted(set(FORMATS.values()))
    if form is None:
        suffix = Path(path).suffix.lower()
        form = FORMATS.get(suffix, "parquet" if Path(path).is_dir() or not suffix else None)
        if form is None:
            raise BadInput(f"{where}: {path} ends with none of {', '.join(FORMATS)}; say which format it has")
    if form not in known:
        raise BadInput(f"{where}: format {form!r} is not one of {', '.join(known)}{meant(form, known)}")
    return Table(path, form, {**(CSV_OPTIONS if form == "csv" else {}), **options})


def _named_tables(texts: Sequence[str]) -> list[tuple[str, Table]]:
    found = []
    for text in texts:
        name, equals, path = text.partition("=")
        if not equals or not path:
            raise BadInput(f"--table {text!r}: write it as NAME=PATH")
        found.append((name, _made_table(f"--table {name}", path, None, {})))
    names = [name for name, _ in found]
    for name in names:
        if names.count(name) > 1:
            raise BadInput(f"--table: the table {name!r} is given twice")
    return found


def _named_options(texts: Sequence[str]) -> dict[str, str]:
    for text in texts:
        if "=" not in text:
            raise BadInput(f"--set {text!r}: write it as NAME=VALUE, like workers=8")
    return dict(text.split("=", 1) for text in texts)


def _check_table(name: str, table: Table) -> None:
    if not name.isidentifier():
        raise BadInput(f"the table {name!r} needs a name of letters, digits and _, so that SQL can use it")
    path = Path(table.path)
    if table.is_local and not path.exists() and "*" not in table.path:
        raise BadInput(f"the table {name!r}: there is no {path}")
    if table.is_local and path.is_dir() and not any(path.iterdir()):
        raise BadInput(f"the table {name!r}: the folder {table.path} is empty")


def _check_keys(where: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in given:
        if key not in known:
            raise BadInput(f"{where}: there is no key {key!r}{meant(key, known)}; keys are {', '.join(known)}")


def _check_type(where: str, value: Any, wanted: type, words: str) -> None:
    if not isinstance(value, wanted):
        raise BadInput(f"{where} = {value!r} is not possible; it has to be {words}")


def meant(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, 1)
    return f" (did you mean {close[0]}?)" if close else ""


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
