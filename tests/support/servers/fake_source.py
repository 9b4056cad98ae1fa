"""A fake server that sends a log to replicas: whole, cut off, or damaged on the way."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from binlake.archive.archiver import ArchiveOptions, Archiver
from binlake.archive.folders import open_folder
from binlake.errors import BinlogError
from binlake.source.replica.commands import COM_BINLOG_DUMP, COM_REGISTER_SLAVE, BinlogDump
from binlake.source.replica.packets import event_packet, framed
from binlake.source.replica.url import ServerUrl
from support.logs.log_builder import ARTIFICIAL, FORMAT, ROTATE, LogBuilder, event
from support.servers.fake_server import OK, Conversation, fake_server

__all__ = [
    "EOF",
    "NAME",
    "UUID",
    "Stream",
    "archive",
    "cut",
    "damaged",
    "dump_of",
    "source",
    "whole",
]

NAME = "binlog.000001"
UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
EOF = b"\xfe\0\0\2\0"
Stream = Callable[[Conversation, bytes], None]


def dump_of(made: LogBuilder, offset: int) -> bytes:
    """All that a source sends of a log from an event on, without an end."""
    body = struct.pack("<Q", offset) + NAME.encode()
    events = [event(ROTATE, body, 0, flags=ARTIFICIAL, log_pos=0, timestamp=0)]
    if offset > 4:
        description = bytes(made.data[23 : made.offsets[1] - 4])
        events.append(event(FORMAT, description, 4, log_pos=0))
    ends = [*made.offsets[1:], len(made.data)]
    for start, end in zip(made.offsets, ends, strict=True):
        if start >= offset:
            events.append(bytes(made.data[start:end]))
    return b"".join(event_packet(raw, number + 1) for number, raw in enumerate(events))


def source(
    made: LogBuilder, streams: list[Stream], asked: list[BinlogDump], *, end: int | None = None
) -> Callable[[Conversation], None]:
    """A source that answers a replica's questions, and sends by the next of `streams`."""
    size = str(len(made.data) if end is None else end)
    answers = {
        "SHOW BINARY LOGS": (NAME, size),
        "SHOW MASTER STATUS": (NAME, size, "", ""),
        "SELECT @@GLOBAL.server_uuid": (UUID,),
        "SELECT @@GLOBAL.server_id": ("7",),
        "SHOW REPLICAS": ("8", "other", "3306", "7"),
    }

    def talk(conversation: Conversation) -> None:
        conversation.login()
        while True:
            command = conversation.hear()
            if command[0] == COM_BINLOG_DUMP:
                asked.append(BinlogDump.decode(command[1:]))
                streams.pop(0)(conversation, dump_of(made, asked[-1].offset))
                return
            sql = command[1:].decode("utf-8", "replace")
            if command[0] != COM_REGISTER_SLAVE and sql in answers:
                conversation.result(answers[sql])
            else:
                conversation.send(OK, 1)

    return talk


def whole(conversation: Conversation, packets: bytes) -> None:
    conversation.sock.sendall(packets + b"".join(framed(EOF)))


def cut(conversation: Conversation, packets: bytes) -> None:
    conversation.sock.sendall(packets[: len(packets) // 2])


def damaged(conversation: Conversation, packets: bytes) -> None:
    conversation.sock.sendall(packets[:-6] + bytes([packets[-6] ^ 1]) + packets[-5:])


def archive(
    root: Path,
    log: LogBuilder,
    streams: list[Stream],
    say: Callable[[str], None] = lambda _: None,
    **given: Any,
) -> tuple[BinlogError | None, list[BinlogDump]]:
    """Archive to the end, with options; what it raised, and the dumps that it asked for."""
    asked: list[BinlogDump] = []
    options = ArchiveOptions(**{"until_current": True, "attempts": 5, "backoff_s": 0.01, **given})
    with fake_server(source(log, streams, asked)) as (port, _):
        url = f"mysql://ada:pw@127.0.0.1:{port}/?ssl-mode=disabled&option-file=none"
        try:
            Archiver([ServerUrl.parse(url)], open_folder(str(root)), options, say).run()
        except BinlogError as error:
            return error, asked
    return None, asked
