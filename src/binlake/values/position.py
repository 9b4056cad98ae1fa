"""Positions in a source, as values."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a reader: it has read everything before this position and nothing after.

    `offset` is the 64-bit offset in `file` (a base name), computed and never the 32-bit
    position of an event header. `gtid_set` is the text of all GTIDs up to here as the flavour
    spells them, "" when the source has none. `server_uuid` "" when it is not known (files).
    """

    server_uuid: str
    file: str
    offset: int
    gtid_set: str = ""

    def to_json(self) -> str:
        """One line of JSON, the same for equal positions."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Position:
        """Parse the output of `to_json`. Raises ValueError."""
        try:
            made = cls(**json.loads(text))
        except (TypeError, RecursionError) as error:
            raise ValueError(f"not a position: {error}") from None
        texts = (made.server_uuid, made.file, made.gtid_set)
        if not all(isinstance(value, str) for value in texts) or type(made.offset) is not int:
            raise ValueError("not a position: a field has another type")
        return made

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}"
