"""The directories and the session of a Delta lake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from binlake.mirror.delta.lake import DeltaLake


class FakeSession:
    """A Spark session with the settings of Delta. Those of a new session are its own."""

    def __init__(self, **settings: str) -> None:
        self.conf = self
        self.settings = {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            **settings,
        }
        self.made: list[FakeSession] = []

    def newSession(self) -> FakeSession:  # noqa: N802
        self.made.append(FakeSession())
        return self.made[-1]

    def get(self, name: str, default: str | None = None) -> str | None:
        return self.settings.get(name, default)

    def set(self, name: str, value: str) -> None:
        self.settings[name] = value


@pytest.fixture
def spark() -> Any:
    return FakeSession()


def test_names_in_statements_are_not_replaced_by_variables(spark: Any, tmp_path: Path) -> None:
    """Spark would put an environment variable in the place of a column's name `${env:NAME}`."""
    DeltaLake(spark, str(tmp_path))
    [own] = spark.made
    assert own.get("spark.sql.variable.substitute") == "false"
    assert spark.get("spark.sql.variable.substitute") is None
