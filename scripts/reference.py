"""Makes the pages of the documentation that follow from the code: settings and the API.

`python scripts/reference.py` writes them, `--check` says which are not up to date and ends with 1.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from textwrap import dedent, wrap
from typing import Any

import reshape
from reshape.conf import OPTIONS, PREFIX, FlowSettings
from reshape.control.settings import StrategySettings

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from documented import PRELUDE, example_of  # noqa: E402 - the tests run what this page shows

SETTINGS = """# Settings

None has to be set. An option of a flow (`reshape.flow(df, workers=8)`, `flow.options(workers=8)`) beats a setting of
the session (`spark.conf.set("spark.reshape.workers", 8)`), which beats the default. A name that does not exist, or a
value that cannot be, is an error that says what can. This page is made from `src/reshape/conf.py` by
`scripts/reference.py`.

"""
API = f"""# API

Everything public is in `reshape`; all else may change. This page is made from docstrings by `scripts/reference.py`. Its
examples are run as tests and begin with this:

```python
{PRELUDE}```
"""
# A parameter of a strategy whose option has another name.
FIELDS = {"adaptive_tau": "adaptive"}


def settings_page() -> str:
    told = {**_of_flows(), **_of_strategies()}
    missing = [name for name in OPTIONS if FIELDS.get(name, name) not in told]
    if missing:
        raise SystemExit(f"no docstring tells of these settings: {', '.join(missing)}")
    defaults = {**_defaults(StrategySettings()), **_defaults(FlowSettings())}
    rows = ["| option, setting of the session | |\n|---|---|\n"]
    for name, option in OPTIONS.items():
        field = FIELDS.get(name, name)
        per = "; one operator can have its own" if option.per_operator else ""
        facts = f"{_accepts(option.read)}{_default(defaults[field])}{per}"
        rows.append(f"| `{name}`<br>`{PREFIX}{option.key}` | {_sentence(told[field])}<br>*{_sentence(facts)}* |\n")
    return SETTINGS + "".join(rows)


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:].rstrip(".") + "."


def _of_flows() -> dict[str, str]:
    """What the bullets of the docstring say, by setting."""
    told = {}
    for bullet in (FlowSettings.__doc__ or "").split("\n    - ")[1:]:
        heads, _, text = bullet.partition("``: ")
        told |= dict.fromkeys(re.findall(r"\w+", heads), _line(text))
    return told


def _of_strategies() -> dict[str, str]:
    told = {}
    for line in inspect.getdoc(StrategySettings).splitlines():  # type: ignore[union-attr]
        found = re.fullmatch(r"([a-z_, ]+):\s+(.*)", line)
        if found:
            told |= dict.fromkeys(found[1].split(", "), _line(found[2]))
    return told


def _defaults(settings: Any) -> dict[str, Any]:
    return {each.name: getattr(settings, each.name) for each in fields(settings)}


def _default(value: Any) -> str:
    """In words; what is derived, or nothing, is told by the docstring."""
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1 << 20:
        return f"; unless given `{value >> 20}m`"
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        # What adapts is there unless it is turned off.
        return f"; unless given `{str(getattr(value, 'value', bool(value))).lower()}`"
    return f"; unless given `{value}`"


def _accepts(read: Any) -> str:
    """The words of the error for a value that cannot be."""
    try:
        read(object())
    except ValueError as error:
        return str(error)
    raise AssertionError("every option refuses a bare object")


def api_page() -> str:
    named = [(name, getattr(reshape, name)) for name in reshape.__all__]
    kinds = {
        "Functions": [pair for pair in named if inspect.isfunction(pair[1])],
        "Classes": [pair for pair in named if inspect.isclass(pair[1]) and not issubclass(pair[1], BaseException)],
        "Errors": [pair for pair in named if inspect.isclass(pair[1]) and issubclass(pair[1], BaseException)],
        "Values": [pair for pair in named if isinstance(pair[1], str)],
    }
    parts = [API]
    for kind, members in kinds.items():
        parts.append(f"\n## {kind}\n")
        parts += [section for name, thing in members for section in _sections(name, thing)]
    return "".join(parts)


def _sections(name: str, thing: Any) -> Iterator[str]:
    text, _, example = inspect.cleandoc(example_of(name)).partition("\n>>> ")
    yield f"\n### {name}\n\n"
    if inspect.isfunction(thing):
        signature = re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(inspect.signature(thing)))
        yield f"```\n{name}{signature}\n```\n\n"
    yield (_prose(text) if not isinstance(thing, str) else "The version of the package.") + "\n\n"
    yield f"```pycon\n>>> {example.strip()}\n```\n"
    if inspect.isclass(thing) and not issubclass(thing, BaseException):
        rows = [f"| `{member}` | {_first_sentence(doc)} |\n" for member, doc in _members(thing)]
        if rows:
            yield "\n| | |\n|---|---|\n" + "".join(rows)


def _members(thing: type) -> Iterator[tuple[str, str]]:
    """Public methods and properties that have words of their own, in the order of the source."""
    for name, member in vars(thing).items():
        function = member.fget if isinstance(member, property) else member
        if name.startswith("_") or not inspect.isfunction(function) or not function.__doc__:
            continue
        yield f"{name}" if isinstance(member, property) else f"{name}{_parameters(function)}", function.__doc__


def _parameters(function: Any) -> str:
    names = [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]
    return f"({', '.join(names)})"


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=[.)])\s+(?=[A-Z])", _line(text.split("\n\n", maxsplit=1)[0]))[0].replace("|", "\\|")


def _prose(text: str) -> str:
    return "\n\n".join("\n".join(wrap(_line(part), 140)) for part in dedent(text).strip().split("\n\n"))


def _line(text: str) -> str:
    """Several lines of a docstring as one, in Markdown."""
    joined = " ".join(text.replace("``", "`").split())
    return re.sub(r"docs/([\w-]+)\.md", r"[\1](\1.md)", re.sub(r":\w+:`", "`", joined))


def main() -> int:
    pages = {"settings.md": settings_page(), "api.md": api_page()}
    if sys.argv[1:] == ["--check"]:
        paths = {name: ROOT / "docs" / name for name in pages}
        stale = [name for name, text in pages.items() if not paths[name].exists() or paths[name].read_text() != text]
        if stale:
            print(f"docs/{', docs/'.join(stale)}: not up to date; run: .venv/bin/python scripts/reference.py")
        return 1 if stale else 0
    for name, text in pages.items():
        (ROOT / "docs" / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
