"""Encrypted logs read as the plain ones that they were made of, at every window and cut."""

from __future__ import annotations

import io
import random
import struct
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from binlake.errors import (
    BinlogError,
    ChecksumError,
    FormatError,
    KeyringError,
    MalformedError,
    TruncatedError,
    UnsupportedError,
)
from binlake.source.keyring import Keyring
from binlake.source.log_file import Damage, LogFile
from binlake.source.reader import ByteReader
from binlake.source.resync import first_sync
from binlake.source.streams import StreamReader
from binlake.values.ledger import Ledger
from support.logs.encrypted_log import (
    KEY,
    KEY_NAME,
    component_keyring,
    encrypt_events,
    encrypt_file,
    key_file,
    start_encryption,
)
from support.logs.log_builder import MARIADB_GTID, RELAY, ROWS, LogBuilder
from support.logs.mutations import every_or_some

HEADER = 512  # of MySQL's files
SOME_CUTS = 100
MARIADB = "10.11.6-MariaDB"


class MemoryReader(ByteReader):
    def __init__(self, data: bytes) -> None:
        self.name = "memory/binlog.000001"
        self.data = data
        self.size = len(data)

    def read_at(self, offset: int, size: int) -> bytes:
        return self.data[offset : offset + size]

    def close(self) -> None:
        pass


class Case:
    """A log, plain and encrypted, and where in the file the log begins."""

    def __init__(self, plain: bytes, encrypted: bytes, offsets: list[int], lead: int) -> None:
        self.plain = plain
        self.encrypted = encrypted
        self.offsets = offsets
        self.lead = lead


def mysql(alg: int = 1) -> Case:
    built = fill(LogBuilder("8.0.36", alg))
    return Case(built.bytes(), encrypt_file(built.bytes()), built.offsets, HEADER)


def mariadb(*, ctr: bool = False, alg: int = 1, flags: int = 0, **how: int) -> Case:
    built = LogBuilder(MARIADB, alg, flags)
    event = start_encryption(len(built.data), crc=alg == 1, **how)
    built._append(164, event)
    start = len(built.data)
    fill(built, MARIADB_GTID)
    return Case(
        built.bytes(), encrypt_events(built.bytes(), start, ctr=ctr), built.offsets, 0
    )  # fmt: skip


def fill(built: LogBuilder, gtid: int = 33) -> LogBuilder:
    chance = random.Random(1)
    for n in range(6):
        built.transaction(chance.randbytes(n), chance.randbytes(17 * n), chance.randbytes(900), gtid=gtid)  # fmt: skip
    return built


CASES: dict[str, Callable[[], Case]] = {
    "mysql": mysql,
    "mysql-nochecksum": lambda: mysql(0),
    "mariadb-cbc": mariadb,
    "mariadb-ctr": lambda: mariadb(ctr=True),
    "mariadb-cbc-nochecksum": lambda: mariadb(alg=0),
    "mariadb-ctr-nochecksum": lambda: mariadb(alg=0, ctr=True),
}
every_case = pytest.mark.parametrize("name", CASES)


@pytest.fixture
def keyring(tmp_path: Path) -> Callable[[str], Keyring]:
    def make(name: str, key: bytes = KEY) -> Keyring:
        path = tmp_path / f"{name}.keys"
        mine = name.startswith("mysql")
        path.write_bytes(component_keyring({KEY_NAME: key}) if mine else key_file(key))
        return Keyring(str(path))

    return make


def open_bytes(data: bytes, keys: Keyring | None) -> LogFile:
    return LogFile(MemoryReader(data), "binlog.000001", 0, keys)


def open_stream(data: bytes, keys: Keyring | None) -> LogFile:
    reader = StreamReader("-", lambda: io.BytesIO(data), reopenable=False, spill_bytes=100)
    return LogFile(reader, "binlog.000001", 0, keys)


def events(log: LogFile, **how: object) -> tuple[dict[int, bytes], BinlogError | None]:
    """The bytes of the delivered events by offset, and the error that ended them."""
    found: dict[int, bytes] = {}
    try:
        for window in log.windows(**how):  # type: ignore[arg-type]
            found |= {window.frame(i).offset: bytes(window.raw(i)) for i in range(len(window))}
    except BinlogError as error:
        return found, error
    return found, None


def plain_events(case: Case) -> dict[int, bytes]:
    bounds = [*case.offsets, len(case.plain)]
    return {a: case.plain[a:b] for a, b in pairwise(bounds)}


@every_case
@pytest.mark.parametrize("window_bytes", [1, 19, 23, 64, 300, 1000, 1 << 20])
def test_every_window_gives_the_plain_events(
    name: str, window_bytes: int, keyring: Callable[[str], Keyring]
) -> None:
    case = CASES[name]()
    for opener in (open_bytes, open_stream):
        with opener(case.encrypted, keyring(name)) as log:
            ledger = Ledger()
            found, error = events(log, window_bytes=window_bytes, ledger=ledger)
            assert error is None
            assert found == plain_events(case)
            assert log.size == len(case.plain)
            assert ledger.total.events == len(case.offsets)


@every_case
def test_any_range_is_that_of_the_plain_log(name: str, keyring: Callable[[str], Keyring]) -> None:
    case = CASES[name]()
    chance = random.Random(2)
    log = open_bytes(case.encrypted, keyring(name))
    for _ in range(2000):
        start = chance.randrange(len(case.plain) + 10)
        size = chance.choice((0, 1, 4, 15, 16, 19, 100, 1000, 5000))
        assert log.reader.read_at(start, size) == case.plain[start : start + size]


def test_a_long_event_is_read_from_its_middle(keyring: Callable[[str], Keyring]) -> None:
    built = LogBuilder(MARIADB)
    built._append(164, start_encryption(len(built.data), crc=True))
    start = len(built.data)
    built.add(ROWS, random.Random(3).randbytes(100_000))
    built.transaction(b"x", gtid=MARIADB_GTID)
    plain = built.bytes()
    for ctr in (False, True):
        log = open_bytes(encrypt_events(plain, start, ctr=ctr), keyring("mariadb"))
        for at in (start + 35, start + 36, start + 37, start + 50_001, len(plain) - 40):
            for size in (1, 16, 100, 60_000):
                assert log.reader.read_at(at, size) == plain[at : at + size]


@pytest.mark.fuzz
@every_case
def test_every_cut_gives_the_events_before_it(name: str, keyring: Callable[[str], Keyring]) -> None:
    case = CASES[name]()
    keys = keyring(name)
    whole = plain_events(case)
    ends = {at + len(raw): at for at, raw in whole.items()}
    at_bounds = [place + case.lead for place in (*whole, *ends)]
    for size in every_or_some(range(4, len(case.encrypted)), SOME_CUTS, at_bounds):
        cut = size - case.lead
        try:
            log = open_bytes(case.encrypted[:size], keys)
        except TruncatedError:
            assert cut < 0
            continue
        found, error = events(log)
        assert found == {at: raw for at, raw in whole.items() if at + len(raw) <= cut}, size
        if cut in ends or cut == len(case.plain):
            assert error is None
        else:
            assert isinstance(error, TruncatedError), (size, error)
            assert error.message.startswith("the file ")  # ends inside an event, or is empty


@every_case
def test_without_a_keyring_the_error_names_the_key(name: str) -> None:
    case = CASES[name]()
    with pytest.raises(KeyringError) as caught:
        list(open_bytes(case.encrypted, None).windows())
    shown = KEY_NAME if name.startswith("mysql") else "key id 1 in version 1"
    assert shown in caught.value.message
    assert "option keyring" in str(caught.value)
    assert caught.value.file == "binlog.000001"


@every_case
def test_a_wrong_key_is_reported(name: str, keyring: Callable[..., Keyring]) -> None:
    case = CASES[name]()
    wrong = keyring(name, KEY[::-1])
    with pytest.raises(KeyringError, match="does not open the log") as caught:
        list(open_bytes(case.encrypted, wrong).windows())
    assert KEY.hex()[:6] not in str(caught.value)
    assert KEY[::-1].hex()[:6] not in str(caught.value)
    with pytest.raises(KeyringError):  # not damage that could be skipped
        list(open_bytes(case.encrypted, wrong).windows(on_damage=Damage.SKIP))


def test_a_key_version_that_is_not_there(keyring: Callable[[str], Keyring]) -> None:
    case = mariadb(version=7)
    with pytest.raises(KeyringError, match="does not contain the key id 1 in version 7"):
        list(open_bytes(case.encrypted, keyring("mariadb")).windows())


def test_unencrypted_events_precede_the_keyring_error() -> None:
    case = mariadb()
    found, error = events(open_bytes(case.encrypted, None))
    assert list(found) == case.offsets[:1]
    assert isinstance(error, KeyringError)
    assert error.event_pos == case.offsets[1]


@pytest.mark.parametrize("name", ["mysql", "mariadb-cbc", "mariadb-ctr"])
def test_damage_inside_an_event(name: str, keyring: Callable[[str], Keyring]) -> None:
    """Damage of one event: with `skip` reading continues at the next transaction."""
    case = CASES[name]()
    bad = next(at for at, raw in plain_events(case).items() if len(raw) > 800)
    data = bytearray(case.encrypted)
    data[case.lead + bad + 500] ^= 1
    found, error = events(open_bytes(bytes(data), keyring(name)))
    assert list(found) == [at for at in case.offsets if at < bad]
    assert isinstance(error, ChecksumError)
    ledger = Ledger()
    log = open_bytes(bytes(data), keyring(name))
    found, error = events(log, on_damage=Damage.SKIP, ledger=ledger)
    assert error is None
    assert case.offsets[-1] in found
    (lost,) = ledger.skipped
    assert lost.start == bad


def test_the_first_encrypted_event_may_be_damaged(keyring: Callable[[str], Keyring]) -> None:
    case = mariadb()
    data = bytearray(case.encrypted)
    data[case.offsets[2] + 5] ^= 1
    _, error = events(open_bytes(bytes(data), keyring("mariadb")))
    assert isinstance(error, ChecksumError)
    assert error.event_pos == case.offsets[2]


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("mariadb")])
@pytest.mark.parametrize("value", [0, 18, 19, 60, 700, 5000, 0x7FFFFFFF, 0xFFFFFFFF])
@pytest.mark.parametrize("window_bytes", [64, 1000, 1 << 20])
def test_a_damaged_length_costs_its_transaction(
    name: str, value: int, window_bytes: int, keyring: Callable[[str], Keyring]
) -> None:
    """The chain of lengths breaks; with `skip` the key finds the next event."""
    case = CASES[name]()
    data = bytearray(case.encrypted)
    bad = case.offsets[6]
    struct.pack_into("<I", data, bad + 9, value)
    found, error = events(open_bytes(bytes(data), keyring(name)), window_bytes=window_bytes)
    assert list(found)[:6] == case.offsets[:6]
    assert len(found) == 6 or "nochecksum" in name
    assert isinstance(error, FormatError)
    for opener in (open_bytes, open_stream):
        ledger = Ledger()
        with opener(bytes(data), keyring(name)) as log:
            found, error = events(log, on_damage=Damage.SKIP, ledger=ledger, window_bytes=window_bytes)  # fmt: skip
        assert error is None
        (lost,) = ledger.skipped
        # without checksums, a length that is only too long is believed
        assert lost.start == bad or ("nochecksum" in name and lost.start == bad + value)
        resumed = next(
            at for at in case.offsets if at > lost.start and case.plain[at + 4] == MARIADB_GTID
        )
        whole = plain_events(case)
        for at in (at for at in case.offsets if at < bad or at >= resumed):
            assert found[at] == whole[at]
        assert lost.end == resumed


def test_damage_of_start_encryption_itself(keyring: Callable[[str], Keyring]) -> None:
    case = mariadb()
    data = bytearray(case.encrypted)
    data[case.offsets[1] + 25] ^= 1
    found, error = events(open_bytes(bytes(data), keyring("mariadb")))
    assert list(found) == case.offsets[:1]
    assert isinstance(error, ChecksumError)


@pytest.mark.parametrize("length", [0, 18, 19, 22, 39, 41, 1 << 20, 1 << 31])
def test_a_start_encryption_of_another_length(
    length: int, keyring: Callable[[str], Keyring]
) -> None:
    case = mariadb()
    data = bytearray(case.encrypted)
    struct.pack_into("<I", data, case.offsets[1] + 9, length)
    found, error = events(open_bytes(bytes(data), keyring("mariadb")))
    assert list(found) == case.offsets[:1]
    assert isinstance(error, FormatError)


def test_a_stream_that_the_server_has_decrypted() -> None:
    """START_ENCRYPTION is there, marked as one that may be ignored; nothing is encrypted."""
    case = mariadb(flags=0)
    built = LogBuilder(MARIADB)
    built._append(164, start_encryption(len(built.data), crc=True, flags=0x80))
    fill(built, MARIADB_GTID)
    found, error = events(open_bytes(built.bytes(), None))
    assert error is None
    assert list(found) == built.offsets
    assert len(found) == len(case.offsets)


def test_encryption_that_begins_later_is_refused(keyring: Callable[[str], Keyring]) -> None:
    built = LogBuilder(MARIADB)
    built.transaction(b"x", gtid=MARIADB_GTID)
    built._append(164, start_encryption(len(built.data), crc=True))
    built.data += b"\x99" * 300
    found, error = events(open_bytes(built.bytes(), keyring("mariadb")))
    assert list(found) == built.offsets[:-1]
    assert isinstance(error, UnsupportedError)


def test_relay_logs_have_the_positions_of_another_file(keyring: Callable[[str], Keyring]) -> None:
    built = LogBuilder(MARIADB, 1, RELAY)
    built._append(164, start_encryption(len(built.data), crc=True))
    start = len(built.data)
    for n in range(4):
        built.add(ROWS, bytes(50 * n), log_pos=77 + n)
    for ctr in (False, True):
        data = encrypt_events(built.bytes(), start, ctr=ctr)
        found, error = events(open_bytes(data, keyring("mariadb")))
        assert error is None
        assert list(found) == built.offsets


def header_with(**changes: bytes) -> bytes:
    data = bytearray(mysql().encrypted)
    for at, value in changes.items():
        data[int(at[1:]) : int(at[1:]) + len(value)] = value
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "kind", "text"),
    [
        (header_with(_4=b"\x02"), UnsupportedError, "version 2"),
        (header_with(_5=b"\x09"), MalformedError, "type 9"),
        (header_with(_5=b"\x00"), MalformedError, "incomplete"),
        (header_with(_6=b"\xff"), MalformedError, "incomplete"),
        (header_with(_7=b"X"), KeyringError, "does not contain the key XySQL"),
        (header_with(_70=b"\x00" * 10), KeyringError, "does not open"),
        (header_with(_512=b"\x00"), KeyringError, "does not open"),
        (mysql().encrypted[:511], TruncatedError, "encryption header"),
        (mysql().encrypted[:9], TruncatedError, "encryption header"),
    ],
)
def test_invalid_headers(
    data: bytes, kind: type[BinlogError], text: str, keyring: Callable[[str], Keyring]
) -> None:
    with pytest.raises(kind, match=text) as caught:
        open_bytes(data, keyring("mysql"))
    assert caught.value.file == "binlog.000001"


def test_where_reading_may_begin(keyring: Callable[[str], Keyring]) -> None:
    """MySQL's counter mode can be cut anywhere; MariaDB's events are known only by their chain."""
    case = mysql()
    log = open_bytes(case.encrypted, keyring("mysql"))
    plain = open_bytes(case.plain, None)
    assert log.is_splittable
    for at in range(0, len(case.plain) + 600, 37):
        assert first_sync(log, at) == first_sync(plain, at)
    log = open_bytes(mariadb().encrypted, keyring("mariadb"))
    assert not log.is_splittable
    assert first_sync(log, 500) == log.size
    assert first_sync(log, 4) == 4


class StrictReader(MemoryReader):
    """A stream: bytes before both marks are gone."""

    seekable = False

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.released = 0
        self.retained: int | None = None

    def read_at(self, offset: int, size: int) -> bytes:
        floor = self.released if self.retained is None else min(self.released, self.retained)
        assert offset >= floor, f"byte {offset} has gone by, kept from {floor}"
        return super().read_at(offset, size)

    def retain(self, offset: int | None) -> None:
        self.retained = offset

    def release(self, offset: int) -> None:
        self.released = offset


@every_case
def test_a_stream_keeps_retained_bytes_for_another_read(
    name: str, keyring: Callable[[str], Keyring]
) -> None:
    case = CASES[name]()
    reader = StrictReader(case.encrypted)
    log = LogFile(reader, "binlog.000001", 0, keyring(name))
    held = None
    for window in log.windows(window_bytes=400):
        if held is None or window.start > held + 3000:
            held = window.start
            log.reader.retain(held)
        size = window.end - held
        assert log.reader.read_at(held, size) == case.plain[held : held + size]
    assert reader.released > len(case.plain) // 2


def test_without_the_library_the_error_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, keyring: Callable[[str], Keyring]
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers", None)
    for name, case in (("mysql", mysql()), ("mariadb", mariadb())):
        with pytest.raises(BinlogError, match=r"pip install 'binlake\[crypto\]'"):
            open_bytes(case.encrypted, keyring(name))
    assert open_bytes(mysql().plain, keyring("mysql")).format is not None
