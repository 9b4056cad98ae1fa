"""Events without a typed class, with their bytes, and their name if it is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from binlake.events.base import Event
from binlake.events.body.fields import REST, FieldFormat


@dataclass(slots=True)
class RawEvent(Event):
    """An event of an unknown type, or of a known type without a class. It keeps all bytes.

    `body` is everything between the common header and the checksum.
    """

    layout: ClassVar[Mapping[str, FieldFormat]] = {"body": REST}

    body: bytes
