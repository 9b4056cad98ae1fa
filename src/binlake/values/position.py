"""Positions in a source, as values."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

_OF_MARIADB = "server-"


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


def is_log_of(identity: str, server: str) -> bool:
    """Whether logs may be those of a server: the identity of the logs is "" if nothing records it, and an archive adds
    a part to the identity of a MariaDB server.
    """
    identity, server = identity.lower(), server.lower()
    return identity in ("", server) or (
        server.startswith(_OF_MARIADB) and identity.startswith(f"{server}-")
    )
