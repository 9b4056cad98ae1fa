"""Events that have no typed class: named where the name is known, their bytes kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from binlake.events.base import Event
from binlake.events.layout import REST, Wire

__all__ = ["RawEvent"]


@dataclass(slots=True)
class RawEvent(Event):
    """An event of a type that is unknown, or known and not typed: nothing is lost of it.

    `body` is everything between the common header and the checksum.
    """

    layout: ClassVar[Mapping[str, Wire]] = {"body": REST}

    body: bytes
