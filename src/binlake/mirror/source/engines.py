"""The engines of tables that can be mirrored: their rows stay, and the log orders their changes."""

from __future__ import annotations

from binlake.snapshot.tables import TRANSACTIONAL

#: Engines without transactions whose rows can be copied in the order of a key.
_ORDERED = ("aria", "myisam", "memory", "archive")
_ALIASES = {"heap": "memory", "innobase": "innodb"}


def can_be_mirrored(engine: str, flavour: str) -> bool:
    """Whether tables of an engine can be mirrored if they have a key. The rows of BLACKHOLE, for example, are lost."""
    name = _ALIASES.get(engine.lower(), engine.lower())
    return name in (*TRANSACTIONAL[flavour], *_ORDERED)
