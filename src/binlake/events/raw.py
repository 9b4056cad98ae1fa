"""Events that have no typed class: named where the name is known, their bytes kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from binlake.events.base import Event
from binlake.events.body.fields import REST, FieldFormat

__all__ = ["RawEvent"]


@dataclass(slots=True)
class RawEvent(Event):
    """An event of a type that is unknown, or known and not typed: nothing is lost of it.

    `body` is everything between the common header and the checksum.
    """

    layout: ClassVar[Mapping[str, FieldFormat]] = {"body": REST}

    body: bytes
