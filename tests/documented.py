"""Runs what the documentation shows, in one process with one Spark session: `python tests/documented.py FOLDER`.

Every `python` block of a page, from its top to its bottom, and the example of every public name. Ends with 1 and says
where, if one fails.
"""

from __future__ import annotations

import doctest
import re
import sys
import traceback
from pathlib import Path
from typing import Any

import reshape

BLOCKS = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
# What the examples of docstrings begin with; the page of the API shows it.
PRELUDE = """import reshape

spark = reshape.local_session()
orders = spark.range(1000).selectExpr("id", "id % 10 AS shop", "id % 7 AS price")
by_shop = orders.groupBy("shop").count()
"""


def example_of(name: str) -> str:
    """The docstring that has the example of a public name; what is no class and no function has none of its own."""
    thing = getattr(reshape, name)
    return (reshape.__doc__ if isinstance(thing, str) else thing.__doc__) or ""


def failure_of(path: Path) -> str:
    """What a page fails with; empty if it runs."""
    text = path.read_text()
    scope: dict[str, Any] = {"__name__": "__main__"}
    for block in BLOCKS.finditer(text):
        above = text[: block.start(1)].count("\n")
        try:
            exec(compile("\n" * above + block[1], str(path), "exec"), scope)
        except Exception:
            return traceback.format_exc()
    return ""


def examples_run(scope: dict[str, Any]) -> bool:
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for name in reshape.__all__:
        example = doctest.DocTestParser().get_doctest(example_of(name), scope, name, None, None)
        runner.run(example, clear_globs=False)
    return runner.summarize(verbose=False).failed == 0


def main(folder: Path) -> int:
    failed = []
    # First: listeners of pages stay, and would talk in between.
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec(PRELUDE, scope)
    if not examples_run(scope):
        failed.append("examples of public names")
    for page in sorted(folder.glob("*.md")):
        failure = failure_of(page)
        if failure:
            failed.append(f"{page.name}: {failure}")
    print("failed:", *failed or ["nothing"], sep="\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
