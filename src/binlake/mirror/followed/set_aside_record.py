"""The record of the tables that the mirror does not follow, with the reasons: quarantined tables, and tables that are gone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class SetAside:
    """Why the mirror does not follow a table, and since when (ISO 8601, UTC)."""

    reason: str
    since: str


def set_aside_in(text: str) -> dict[str, SetAside]:
    """Read the tables, by name, that a property of the control table records."""
    return {table: SetAside(**entry) for table, entry in json.loads(text).items()}


def with_set_aside(entries: Mapping[str, SetAside], reasons: Mapping[str, str]) -> str:
    """The property for the tables and new ones, each with its reason."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    new = {name: SetAside(reason, now) for name, reason in reasons.items()}
    return _shown({**entries, **new})


def without_set_aside(entries: Mapping[str, SetAside], *names: str) -> str:
    """The property for the tables without some."""
    return _shown({other: entry for other, entry in entries.items() if other not in names})


def _shown(entries: Mapping[str, SetAside]) -> str:
    return json.dumps({name: asdict(entry) for name, entry in entries.items()}, sort_keys=True)
