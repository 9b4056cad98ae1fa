"""The sample bodies as typed events."""

from __future__ import annotations

from binlake.events.base import Event
from support.logs.event_bytes import event_of
from support.logs.event_samples import SAMPLES

__all__ = ["sample"]


def sample(name: str) -> Event:
    """The typed event of a sample."""
    return event_of(*SAMPLES[name])
