"""Events without a typed class, with their bytes, and their name if it is known."""

from __future__ import annotations

from dataclasses import dataclass

from binlake.events.base import Event
from binlake.events.body.fields import REST


@dataclass(slots=True)
class RawEvent(Event):
    """An event of an unknown type, or of a known type without a class. It keeps all bytes.

    `body` is everything between the common header and the checksum.
    """

    layout = {"body": REST}

    body: bytes
