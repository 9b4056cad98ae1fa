"""START_ENCRYPTION_EVENT (164): the rest of the file is encrypted (MariaDB 10.1).

Source: MariaDB sql/log_event.h, Start_encryption_log_event. In a stream, the source sends decrypted
events and sets IGNORABLE.
Body:
    1   scheme        1
    4   key_version
    12  nonce         with an event's offset it makes the IV of that event
"""

from __future__ import annotations

from dataclasses import dataclass

from binlake.events.base import Event
from binlake.events.body.fields import U8, U32, fixed


@dataclass(slots=True)
class StartEncryptionEvent(Event):
    """How the events after this one are encrypted; the key is not in the log."""

    layout = {"scheme": U8, "key_version": U32, "nonce": fixed(12)}

    scheme: int
    key_version: int
    nonce: bytes
