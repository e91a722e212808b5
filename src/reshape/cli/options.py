"""Options that more than one command has."""

from pathlib import Path
from typing import Annotated

import typer

File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="SQL (.sql), Python with query(spark) (.py), or a flow (.toml).", show_default=False
    ),
]
Tables = Annotated[
    list[str] | None,
    typer.Option("--table", "-t", metavar="NAME=PATH", help="A table of the query: a file or folder; repeatable."),
]
Master = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Spark's master: local[4], spark://host:7077, yarn; unless given, this machine."),
]
Conf = Annotated[
    list[str] | None, typer.Option("--conf", "-c", metavar="KEY=VALUE", help="A setting of Spark; repeatable.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Open = Annotated[bool, typer.Option("--open", help="Show it on the live page too, in this machine's browser.")]
