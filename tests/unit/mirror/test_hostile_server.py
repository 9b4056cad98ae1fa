"""A mirror, `state --from URL` and `verify` with a server that sends arbitrary answers."""

from __future__ import annotations

import datetime
import os
import random
import socket
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pymysql")

from binlake.errors import BinlogError, ConnectionLostError, SchemaError, ServerError
from binlake.format import column_types as ct
from binlake.mirror.source.refusals import is_of_table
from binlake.snapshot.bounds import even_bounds, walked_bounds
from binlake.snapshot.chunks import _moment_us
from binlake.snapshot.table_rows import RowSelect, text_rows
from binlake.snapshot.tables import SourceTable, read_tables
from binlake.source.replica.answers import AnswerLimits
from binlake.source.replica.connection import ServerConnection, connect
from binlake.source.replica.prepared import BatchLimits, _payload
from binlake.source.replica.receiver import CompressedReceiver
from binlake.source.replica.url import ServerUrl
from binlake.values.plan import ColumnDefinition, TableDefinition
from support.servers.fake_server import OK, Conversation, fake_server

EOF = b"\xfe\0\0\2\0"
_LONG, _VARCHAR = 3, 253
COLUMNS = (_LONG, _VARCHAR)
TABLE = SourceTable(
    "shop", "t",
    TableDefinition(
        "shop", "t",
        (ColumnDefinition(0, "id", 3, 4, unsigned=False), ColumnDefinition(1, "name", 15, 80, collation_id=255)),
        primary_key=(0,),
    ),
    ("id",),
)  # fmt: skip
CREATE = "CREATE TABLE `t` (`id` int NOT NULL, PRIMARY KEY (`id`)) ENGINE=InnoDB"

CASES = int(os.environ.get("BINLAKE_FUZZ_CASES", "0")) // 10 or 60


def column(code: int) -> bytes:
    return (
        b"\3def" + b"\0" * 3 + b"\1c\1c" + b"\x0c"
        + struct.pack("<HIBHB", 255, 999, code, 0, 0) + b"\0\0"
    )  # fmt: skip


def row(number: int, name: bytes) -> bytes:
    """A row in the binary protocol."""
    return b"\0\0" + struct.pack("<i", number) + bytes([len(name)]) + name


def send_all(talk: Conversation, packets: list[bytes]) -> None:
    for sequence, packet in enumerate(packets, 1):
        talk.send(packet, sequence & 255)


def prepared(codes: tuple[int, ...]) -> list[bytes]:
    head = b"\0" + struct.pack("<IHHBH", 1, len(codes), 0, 0, 0)
    return [head, *map(column, codes), EOF]


def result(codes: tuple[int, ...], rows: list[bytes]) -> list[bytes]:
    return [bytes([len(codes)]), *map(column, codes), EOF, *rows, EOF]


@contextmanager
def connected(
    talk: Callable[[Conversation], None], options: str = "", limits: AnswerLimits | None = None
) -> Iterator[ServerConnection]:
    """A connection to a server that believes every login, then talks so."""

    def converse(conversation: Conversation) -> None:
        conversation.login()
        conversation.hear()
        conversation.send(OK, 1)
        talk(conversation)

    with fake_server(converse) as (port, _):
        url = f"mysql://ada:pw@127.0.0.1:{port}/?ssl-mode=disabled&option-file=none{options}"
        with connect(ServerUrl.parse(url), limits or AnswerLimits()) as server:
            yield server


def binary(*answers: list[bytes], patience_s: float = 60) -> Callable[[Conversation], None]:
    """A server that answers one command after the other. It closes the connection of a client that waits
    for more, after `patience_s`.
    """

    def talk(conversation: Conversation) -> None:
        conversation.sock.settimeout(patience_s)
        for packets in answers:
            conversation.hear()
            send_all(conversation, packets)

    return talk


def text(*rows: tuple[str, ...]) -> Callable[[Conversation], None]:
    def talk(conversation: Conversation) -> None:
        conversation.hear()
        if rows:
            conversation.result(*rows)
        else:
            send_all(conversation, [b"\1", column(_VARCHAR), EOF, EOF])

    return talk


def read(server: ServerConnection) -> list[pa.RecordBatch]:
    limits = BatchLimits()
    return list(RowSelect(TABLE, limits, TABLE.types).batches(server))


def test_rows_of_an_honest_server_are_read() -> None:
    rows = [row(7, b"seven"), row(8, b"eight")]
    with connected(binary(prepared(COLUMNS), result(COLUMNS, rows))) as server:
        assert pa.Table.from_batches(read(server)).to_pylist() == [
            {"id": 7, "name": "seven"},
            {"id": 8, "name": "eight"},
        ]


def test_zero_dates_are_counted_by_column() -> None:
    columns = (ColumnDefinition(0, "id", 3, 4), ColumnDefinition(1, "born", ct.MYSQL_TYPE_DATE))
    table = SourceTable(
        "shop", "t", TableDefinition("shop", "t", columns, primary_key=(0,)), ("id",)
    )
    codes = (_LONG, ct.MYSQL_TYPE_DATE)
    # a date without bytes is 0000-00-00
    days = (
        b"\0",
        b"\4" + struct.pack("<HBB", 2026, 11, 27),
        b"\4" + struct.pack("<HBB", 2026, 0, 0),
    )
    rows = [b"\0\0" + struct.pack("<i", number) + day for number, day in enumerate(days)]
    with connected(binary(prepared(codes), result(codes, rows))) as server:
        select = RowSelect(table, BatchLimits())
        found = pa.Table.from_batches(select.batches(server))
    assert found["born"].to_pylist() == [None, datetime.date(2026, 11, 27), None]
    assert select.zero_dates == {"born": 2}


def test_mutated_answers_are_errors_of_binlake() -> None:
    """Lengths, counts, types and values: conversations, each with a few changed bytes."""
    chance = random.Random(11)
    honest = [prepared(COLUMNS), result(COLUMNS, [row(n, b"name") for n in range(5)])]
    failed = 0
    for _ in range(CASES):
        answers = [[bytearray(packet) for packet in packets] for packets in honest]
        for _change in range(chance.randint(1, 3)):
            packet = chance.choice(chance.choice(answers))
            at = chance.randrange(len(packet))
            packet[at] = chance.choice((0, 1, 0x7F, 0xFB, 0xFC, 0xFE, 0xFF, chance.randrange(256)))
        if chance.random() < 0.2:
            chance.choice(answers).pop()
        with connected(
            binary(*[[bytes(p) for p in packets] for packets in answers], patience_s=0.2)
        ) as server:
            try:
                read(server)
            except BinlogError as error:
                assert len(str(error)) < 3000
                failed += 1
    assert failed > CASES // 4


def test_the_text_of_an_error_among_rows_is_short() -> None:
    refused = b"\xff" + struct.pack("<H", 1317) + b"#70100" + b"x\n" * 1_000_000
    answer = [bytes([2]), *map(column, COLUMNS), EOF, row(1, b"one"), refused]
    with (
        connected(binary(prepared(COLUMNS), answer)) as server,
        pytest.raises(BinlogError) as raised,
    ):
        read(server)
    assert len(str(raised.value)) < 3000


@pytest.mark.parametrize("value", [b"\xff\xfe", b"9" * 200])
def test_sums_that_are_no_text_are_no_crash(value: bytes) -> None:
    codes = (_VARCHAR,)
    rows = [b"\0\0" + bytes([len(value)]) + value]
    with connected(binary(prepared(codes), result(codes, rows))) as server:
        [[found]] = text_rows(server, "SELECT CONCAT(1)", 1)
    assert found == value.decode(errors="replace")


@pytest.mark.parametrize(
    "limits", [AnswerLimits(seconds=0.2), AnswerLimits(silence_s=0.2)], ids=["seconds", "silence_s"]
)
def test_sums_that_take_longer_than_a_query_may(limits: AnswerLimits) -> None:
    """The server sends the head of a result with its first row, when it has added up all rows of the table."""
    codes = (_VARCHAR,)

    def talk(conversation: Conversation) -> None:
        binary(prepared(codes))(conversation)
        conversation.hear()
        time.sleep(1.0)
        send_all(conversation, result(codes, [b"\0\0\x017"]))

    with connected(talk, limits=limits) as server:
        assert text_rows(server, "SELECT CONCAT(1)", 1) == [("7",)]


def test_sums_without_an_end_are_refused() -> None:
    codes = (_VARCHAR,)

    def talk(conversation: Conversation) -> None:
        binary(prepared(codes))(conversation)
        conversation.hear()
        send_all(conversation, [b"\1", column(_VARCHAR), EOF])
        packet = b"\0\0\xc8" + b"x" * 200
        block = (len(packet).to_bytes(3, "little") + b"\0" + packet) * 1000
        while True:
            conversation.sock.sendall(block)

    with connected(talk) as server, pytest.raises(ServerError, match="more than 1 MB: refused"):
        text_rows(server, "SELECT CONCAT(1)", 1, most_bytes=1 << 20)


def listing(create_table: str) -> Callable[[Conversation], None]:
    """A server with one table, which has this definition."""

    def talk(conversation: Conversation) -> None:
        text(("shop", "t", "InnoDB", "5", "40"))(conversation)
        text(("t", create_table))(conversation)

    return talk


HOSTILE: dict[str, tuple[Callable[[ServerConnection], Any], Callable[[Conversation], None]]] = {
    "no clock": (_moment_us, text()),
    "two clocks": (_moment_us, text(("2026-01-01",), ("2026-01-02",))),
    "a clock of words": (_moment_us, text(("noon",))),
    "no least key": (lambda s: even_bounds(s, TABLE, 10), text()),
    "keys of words": (lambda s: even_bounds(s, TABLE, 10), text(("least", "most"))),
    "a table twice": (read_tables, text(*[("shop", "t", "InnoDB", "5", "40")] * 2)),
    "a key of another table": (read_tables, listing(CREATE.replace("KEY (`id`)", "KEY (`nope`)"))),
    "a key of 5,000 digits": (
        lambda s: even_bounds(s, TABLE, 10), binary([b"\2", column(253), column(253), EOF,
        (b"\xfc" + struct.pack("<H", 5000) + b"9" * 5000) * 2, EOF]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_answers_of_another_shape_are_errors(name: str) -> None:
    ask, talk = HOSTILE[name]
    with connected(talk) as server, pytest.raises((ServerError, SchemaError)):
        ask(server)


def test_a_table_does_not_divide_without_end() -> None:
    huge = SourceTable("shop", "t", TABLE.definition, ("id",), rows=10**19)
    with connected(text(("0", "9" * 19))) as server:
        found = even_bounds(server, huge, 10, most_bounds=10)
    assert found is not None
    assert len(found) == 9

    codes = (_VARCHAR,)
    rows = [b"\0\0" + bytes([len(key)]) + key for key in (b"%d" % n for n in range(100))]
    talk = binary(*(packets for row in rows for packets in (prepared(codes), result(codes, [row]), [])))  # fmt: skip
    with connected(talk) as server, pytest.raises(ServerError, match="more than 10 parts"):
        list(walked_bounds(server, TABLE, 10, most_bounds=10))


@pytest.mark.parametrize(
    ("rows", "most", "parts"),
    [
        (1000, 15_000, 10),  # with gaps
        (1000, 16_001, None),  # one row has an id that is far away
        (1_000_000, 2**62, None),  # ids that begin with a time
        (0, 50, 1),  # the server has not counted the rows yet
        (0, 1000, 10),
    ],
)
def test_only_a_range_with_few_gaps_is_divided_evenly(
    rows: int, most: int, parts: int | None
) -> None:
    table = SourceTable("shop", "t", TABLE.definition, ("id",), rows=rows)
    with connected(text(("1", str(most)))) as server:
        found = even_bounds(server, table, 100)
    assert (None if found is None else len(found) + 1) == parts


def test_rows_that_cannot_be_read_concern_their_table() -> None:
    """After ten attempts, the mirror quarantines the table; otherwise the error would end it at each start."""
    cut = row(7, b"seven")[:-3]
    with (
        connected(binary(prepared(COLUMNS), result(COLUMNS, [cut]))) as server,
        pytest.raises(ServerError, match="sent a malformed row") as caught,
    ):
        read(server)
    assert is_of_table(caught.value)


@pytest.mark.parametrize("drips", [0, 6000])
def test_a_server_that_sends_no_more_rows_is_lost(drips: int) -> None:
    """Silent, or sending a row byte by byte: the limit holds for a row, however it arrives."""
    ended = threading.Event()

    def talk(conversation: Conversation) -> None:
        conversation.hear()
        send_all(conversation, prepared(COLUMNS))
        conversation.hear()
        send_all(conversation, result(COLUMNS, [row(7, b"seven")])[:-1])
        with suppress(OSError):
            conversation.sock.sendall(struct.pack("<I", 1 << 20)[:4])
            for _ in range(drips):
                conversation.sock.sendall(b"\0")
                if ended.wait(0.01):
                    break
        ended.wait(60)

    with connected(talk, "&read-timeout=0.5") as server:
        begun = time.monotonic()
        with pytest.raises(ConnectionLostError) as caught:
            read(server)
        took_s = time.monotonic() - begun
        ended.set()
    assert "the server has sent no row for 0.5 seconds" in str(caught.value)
    assert "read-timeout" in str(caught.value.hint)
    assert took_s < 30


def test_a_row_of_a_compressed_connection_does_not_inflate_without_bound() -> None:
    """80 MB that cost the server 80 kB."""
    ours, theirs = socket.socketpair()
    largest = b"\xff\xff\xff\0" + bytes((1 << 24) - 1)
    small = zlib.compress(largest[: 1 << 23]), zlib.compress(largest[1 << 23 :])
    sizes = 1 << 23, len(largest) - (1 << 23)

    def send() -> None:
        with suppress(OSError):
            for _ in range(5):
                for packed, size in zip(small, sizes, strict=True):
                    head = len(packed).to_bytes(3, "little") + b"\0" + size.to_bytes(3, "little")
                    theirs.sendall(head + packed)
            theirs.close()

    with ours:
        threading.Thread(target=send, daemon=True).start()
        with pytest.raises(ServerError, match="out of proportion"):
            _payload(CompressedReceiver(ours, "zlib", freely_bytes=20 << 20))
