"""The identity of `serve`: never that of the server that wrote the logs, which may still run.

Replicas refuse a source that has their own server_uuid or server_id, and distinguish sources by
them. So an archive gets its own identity, the same at every start: derived from the identity of
the server in its logs, not from its location.
"""

from __future__ import annotations

import uuid

from binlake.format.event_header import HEADER_BYTES, LENGTH_AT, SERVER_ID_AT
from binlake.format.magic import FIRST_EVENT
from binlake.serve.library import Library
from binlake.serve.login import Identity
from binlake.serve.settings import Settings

_NAMESPACE = uuid.UUID("6f1f2a52-6c0b-5c3e-9b7e-62696e6c616b")
# People number their servers from 1, and MySQL prints numbers above 2**31 as negative.
_FIRST_SERVER_ID = 1 << 30


def identity(settings: Settings, library: Library) -> Identity:
    """Return the identity of a served archive. Raises BinlogError."""
    file = library.chain.files[-1]
    with library.open(file) as log:
        header = log.reader.read_at(FIRST_EVENT, HEADER_BYTES)
    of = f"{library.flavour}/{file.base}/{int.from_bytes(header[SERVER_ID_AT:LENGTH_AT], 'little')}"
    made = uuid.uuid5(_NAMESPACE, of)
    server_id = settings.server_id or _FIRST_SERVER_ID + made.int % _FIRST_SERVER_ID
    return Identity(
        version=library.format.server_version,
        flavour=library.flavour,
        server_id=server_id,
        server_uuid=settings.server_uuid or str(made),
    )
