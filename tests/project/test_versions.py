"""What the package says about versions of others is the same everywhere."""

from __future__ import annotations

import re
import tomllib

from reshape.cli.checks import check_package

from .sources import PACKAGE, ROOT


def test_the_doctor_wants_what_the_package_needs() -> None:
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    wanted = re.findall(r'wanted="([^"]+)"', (PACKAGE / "cli" / "checks.py").read_text())
    assert {"pyspark>=4.3,<4.4"} <= set(wanted) <= set(needed)
    assert check_package("pyspark", "PySpark", oldest=(4, 3), below=(4, 4), wanted=wanted[0]).status == "ok"
