"""A Spark session for the whole folder: the other side of every comparison."""

from typing import Any

import pytest


@pytest.fixture(scope="session")
def spark(spark: Any) -> Any:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.adaptive.enabled", "false")
    return session
