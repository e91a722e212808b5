"""The DataFrame or flow that a flow file means, in a session."""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from reshape.cli.flow_file import BadInput, FlowFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from reshape.flows import Flow

# Spark's names of what a query may not be: they would be run at once, not as a flow.
_COMMANDS = (
    "org.apache.spark.sql.catalyst.plans.logical.Command",
    "org.apache.spark.sql.catalyst.plans.logical.ParsedStatement",
)
_LONGEST = 600


def build_query(spark: SparkSession, file: FlowFile) -> DataFrame | Flow:
    """The file's query over its tables. Runs nothing but what Spark reads to know the tables' columns."""
    for name, table in file.tables.items():
        with _told(f"the table {name!r} ({table.path})"):
            reader = spark.read.format(table.format).options(**table.options)
            reader.load(table.place).createOrReplaceTempView(name)
    if file.script is not None:
        return _of_script(spark, file)
    with _told(file.where, list(file.tables)):
        text = str(file.sql)
        _check_is_query(spark, file.where, text)
        return spark.sql(text)


def _check_is_query(spark: SparkSession, where: str, text: str) -> None:
    from py4j.java_gateway import is_instance_of  # type: ignore[import-untyped]

    session: Any = spark._jsparkSession
    plan = session.sessionState().sqlParser().parsePlan(text)
    if any(is_instance_of(spark.sparkContext._gateway, plan, name) for name in _COMMANDS):
        raise BadInput(f"{where}: this is a command of SQL, not a query; a flow has one query, such as SELECT")


def _of_script(spark: SparkSession, file: FlowFile) -> DataFrame | Flow:
    """What ``query(spark)`` returns. The file's own folder is on the path, as when Python runs it."""
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    from reshape.flows import Flow

    assert file.script is not None
    made = types.ModuleType(file.script.stem)
    made.__file__ = str(file.script)
    sys.path.insert(0, str(file.script.absolute().parent))
    code = compile(file.script.read_text(encoding="utf-8"), str(file.script), "exec")
    with _told(file.where, list(file.tables), script=str(file.script)):
        exec(code, made.__dict__)
    query = getattr(made, "query", None)
    if not callable(query):
        raise BadInput(f"{file.where}: it defines no function query(spark) that returns a DataFrame")
    with _told(f"{file.where}: query(spark)", list(file.tables), script=str(file.script)):
        found = query(spark)
    if not isinstance(found, ClassicDataFrame | Flow):
        raise BadInput(f"{file.where}: query(spark) returned {type(found).__name__}; it has to return a DataFrame")
    return found


@contextlib.contextmanager
def _told(where: str, tables: list[str] | None = None, script: str | None = None) -> Iterator[None]:
    """Errors of Spark and of users' code, as one line that says where."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        yield
    except BadInput:
        raise
    except (PySparkException, Py4JError) as error:
        known = f" Tables here: {', '.join(tables)}." if tables and "TABLE_OR_VIEW_NOT_FOUND" in str(error) else ""
        raise BadInput(f"{where}{_line_of(error, script)}: {in_words(error)}{known}") from error
    except SystemExit as ended:  # it would end the command at once, with a code of its own and not a word
        raise BadInput(f"{where}{_line_of(ended, script)}: it ends Python (exit) before there is a query") from ended
    except Exception as error:
        if script is None:
            raise
        raise BadInput(f"{where}{_line_of(error, script)}: {type(error).__name__}: {in_words(error)}") from error


def in_words(error: BaseException) -> str:
    """The first part of an error's text, in one line. Spark adds its plans and its call sites below."""
    from py4j.protocol import Py4JJavaError

    try:
        whole = str(error.java_exception.getMessage()) if isinstance(error, Py4JJavaError) else str(error)
    except OSError:  # the words of such an error are in the JVM
        return "Spark's JVM has ended: it was killed, or ran out of memory"
    text = whole.split("\n\nJVM stacktrace")[0].split("\n'")[0].split("\n== SQL")[0].split("\n+-")[0]
    return " ".join(text.split())[:_LONGEST]


def _line_of(error: BaseException, script: str | None) -> str:
    """The deepest line of the user's own file that an error came through."""
    line, trace = 0, error.__traceback__
    while script is not None and trace is not None:
        line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == script else line
        trace = trace.tb_next
    return f", line {line}" if line else ""
