"""A session as generated flows have it, and what all chaos of a session did."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(scope="session")
def spark(spark: Any) -> Any:
    session = spark.newSession()
    for key, value in {
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.session.timeZone": "America/Los_Angeles",
    }.items():
        session.conf.set(key, value)
    return session
