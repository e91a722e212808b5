"""A session of its own settings for generated flows."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(scope="session")
def spark(spark: Any) -> Any:
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "1")
    session.conf.set("spark.sql.adaptive.enabled", "false")
    # Not UTC, or nobody would notice a time zone that is lost.
    session.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    return session
