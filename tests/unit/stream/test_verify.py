from __future__ import annotations

import json
from pathlib import Path

import pytest

from binlake.errors import SourceError
from binlake.source.keyring import Keyring
from binlake.stream.verify.chains import VerifyReport, verify
from binlake.stream.verify.log_file import LISTED_BAD
from binlake.stream.verify.problems import Kind
from binlake.stream.verify.reencode import Reencoding
from binlake.table.checks.image_check import RowImages
from binlake.values.gtid import GtidSet, MariaGtid, MariaGtidSet
from support.logs.corpus_files import keys_beside
from support.logs.encrypted_log import KEY, KEY_NAME, component_keyring, encrypt_file
from support.logs.log_builder import IN_USE, QUERY, RELAY, ROWS, TABLE_MAP, query_body
from support.logs.stream_log import (
    GTID_LIST,
    INCIDENT,
    SID,
    STOP,
    StreamLog,
    inner_event,
    rows_body,
    table_map_body,
)

HEARTBEAT_V2 = 41
# its file's length takes three bytes, where a server writes one
NOT_SHORTEST = bytes.fromhex("01 fc0300") + b"abc" + bytes.fromhex("02 01 04 00")


def gtids(numbers: str) -> bytes:
    return GtidSet.parse(f"{SID}:{numbers}" if numbers else "").encode()


def gtid_list(*seqs: int) -> bytes:
    listed = MariaGtidSet([MariaGtid(0, 1, seq) for seq in seqs])
    return len(seqs).to_bytes(4, "little") + b"".join(
        g.domain_id.to_bytes(4, "little") + g.server_id.to_bytes(4, "little") + g.seq_no.to_bytes(8, "little")
        for g in listed
    )  # fmt: skip


def kinds(report: VerifyReport) -> list[str]:
    found = [p.kind.value for f in report.files for p in f.problems]
    return found + [p.kind.value for p in report.chain]


def good_chain(folder: Path) -> None:
    StreamLog().previous(gtids("")).plain(1).plain(2).rotate("binlog.000002").write(folder)
    middle = StreamLog().previous(gtids("1-2")).plain(3)
    middle.add(STOP)
    middle.write(folder, "binlog.000002")
    StreamLog(flags=IN_USE).previous(gtids("1-3")).plain(4).write(folder, "binlog.000003")


def test_a_sound_chain(tmp_path: Path) -> None:
    good_chain(tmp_path)
    report = verify([str(tmp_path)])
    assert report.ok
    assert kinds(report) == ["in use"]
    document = json.loads(json.dumps(report.to_json()))
    assert list(document) == ["ok", "files", "chain", "remarks"]
    first = document["files"][0]
    assert first == {
        "file": "binlog.000001",
        "bytes": (tmp_path / "binlog.000001").stat().st_size,
        "events": 13,
        "types": {"2": 2, "4": 1, "15": 1, "16": 2, "19": 2, "30": 2, "33": 2, "35": 1},
        "checksum": {"algorithm": "CRC32", "verified": 13, "bad": 0},
        "problems": [],
    }
    assert document["files"][2]["problems"] == [
        {"pos": 4, "kind": "in use", "message": "the server has not closed this file"}
    ]


def test_a_missing_file_and_its_gtids(tmp_path: Path) -> None:
    good_chain(tmp_path)
    (tmp_path / "binlog.000002").unlink()
    report = verify([str(tmp_path)])
    assert not report.ok
    assert [(p.file, p.kind) for p in report.chain] == [
        ("binlog.000003", Kind.MISSING_FILE),
        ("binlog.000003", Kind.GTID_GAP),
    ]
    assert f"{SID}:3" in report.chain[1].message


def test_a_file_that_the_index_names_and_that_does_not_exist(tmp_path: Path) -> None:
    good_chain(tmp_path)
    index = tmp_path / "binlog.index"
    index.write_text("".join(f"./binlog.00000{n}\n" for n in (1, 2, 3, 4)))
    (tmp_path / "binlog.000002").unlink()
    report = verify([str(index)])
    assert [file.file for file in report.files] == ["binlog.000001", "binlog.000003"]
    assert [(p.file, p.kind) for p in report.chain] == [
        ("binlog.000002", Kind.MISSING_FILE),
        ("binlog.000004", Kind.MISSING_FILE),
        ("binlog.000003", Kind.GTID_GAP),
    ]
    assert not report.ok
    for path in tmp_path.glob("binlog.0*"):
        path.unlink()
    assert kinds(verify([str(index)])) == ["missing file"] * 4


@pytest.mark.parametrize("named", ["", "/binlog.0*"])
def test_a_gap_in_the_numbers(named: str, tmp_path: Path) -> None:
    good_chain(tmp_path)
    (tmp_path / "binlog.000002").unlink()
    assert "missing file" in kinds(verify([f"{tmp_path}{named}"]))


def test_unknown_files_beside_the_logs_are_reported(tmp_path: Path) -> None:
    good_chain(tmp_path)
    for name in ("binlog.index", "binlog.000001.idx", "binlog.state", "ibdata1"):
        (tmp_path / name).write_bytes(b"")
    assert verify([str(tmp_path)]).ignored == (f"{tmp_path}/ibdata1",)


def test_a_wrong_successor(tmp_path: Path) -> None:
    StreamLog().plain(1).rotate("binlog.000007").write(tmp_path)
    StreamLog().plain(2).write(tmp_path, "binlog.000002")
    assert kinds(verify([str(tmp_path)])) == ["wrong successor"]


def test_no_terminator(tmp_path: Path) -> None:
    StreamLog().plain(1).write(tmp_path)
    StreamLog().plain(2).write(tmp_path, "binlog.000002")
    report = verify([str(tmp_path)])
    assert kinds(report) == ["no terminator"]
    assert report.chain[0].message.endswith("this is an incomplete copy")


def test_a_crash_is_a_remark_where_nothing_is_missing(tmp_path: Path) -> None:
    """The next log begins with the start of the server, and with all GTIDs of the log before."""
    StreamLog().previous(gtids("")).plain(1).write(tmp_path)
    restarted = StreamLog(created=1_700_000_000).previous(gtids("1")).plain(2)
    restarted.write(tmp_path, "binlog.000002")
    report = verify([str(tmp_path)])
    assert (report.ok, report.chain) == (True, ())
    [remark] = report.remarks
    assert (remark.file, remark.kind) == ("binlog.000001", Kind.NO_TERMINATOR)
    assert "the beginning of the next log show that nothing is missing" in remark.message
    assert report.to_json()["remarks"][0]["message"] == remark.message


def test_a_crash_without_gtids_is_a_remark(tmp_path: Path) -> None:
    log = StreamLog().query(b"BEGIN").rows().xid()
    log.write(tmp_path)
    StreamLog(created=1_700_000_000).query(b"BEGIN").rows().xid().write(tmp_path, "binlog.000002")
    report = verify([str(tmp_path)])
    assert report.ok
    assert "without GTIDs a missing transaction cannot be detected" in report.remarks[0].message


@pytest.mark.parametrize("case", ["gap", "missing file", "no start of the server", "torn"])
def test_a_log_that_may_be_cut_is_a_problem(case: str, tmp_path: Path) -> None:
    first = StreamLog().previous(gtids("")).plain(1)
    path = first.write(tmp_path)
    created = 0 if case == "no start of the server" else 1_700_000_000
    following = StreamLog(created=created).previous(gtids("1-2" if case == "gap" else "1")).plain(3)
    following.write(tmp_path, "binlog.000003" if case == "missing file" else "binlog.000002")
    if case == "torn":
        path.write_bytes(first.bytes()[:-3])
    report = verify([str(tmp_path)])
    assert not report.ok
    assert "no terminator" in kinds(report)
    assert not report.remarks


@pytest.mark.parametrize(
    ("previous", "expected"),
    [
        ("1-2", []),
        ("1-5", ["GTID gap"]),
        ("1", ["GTID overlap"]),
        ("2-3", ["GTID gap", "GTID overlap"]),
    ],
)
def test_sets_of_mysql(previous: str, expected: list[str], tmp_path: Path) -> None:
    StreamLog().previous(gtids("")).plain(1).plain(2).rotate("binlog.000002").write(tmp_path)
    StreamLog().previous(gtids(previous)).plain(9).write(tmp_path, "binlog.000002")
    assert kinds(verify([str(tmp_path)])) == expected


@pytest.mark.parametrize(
    ("listed", "expected"),
    [((2,), []), ((5,), ["GTID gap"]), ((1,), ["GTID overlap"]), ((), ["GTID overlap"])],
)
def test_lists_of_mariadb(listed: tuple[int, ...], expected: list[str], tmp_path: Path) -> None:
    first = StreamLog(version="10.11.6-MariaDB")
    first.add(GTID_LIST, gtid_list())
    first.maria(1).rows().xid().maria(2).rows().xid().rotate("binlog.000002").write(tmp_path)
    second = StreamLog(version="10.11.6-MariaDB")
    second.add(GTID_LIST, gtid_list(*listed))
    second.maria(3).rows().xid().write(tmp_path, "binlog.000002")
    assert kinds(verify([str(tmp_path)])) == expected


def test_a_transaction_that_is_there_twice(tmp_path: Path) -> None:
    log = StreamLog().previous(gtids("1-4")).plain(5).plain(4).plain(6)
    [found] = verify([str(log.write(tmp_path))]).files[0].problems
    assert (found.kind, found.pos) == (Kind.GTID_REPEATED, log.offsets[7])
    relay = StreamLog(flags=RELAY).previous(gtids("1-4")).plain(5).plain(5)
    assert verify([str(relay.write(tmp_path, "relay.000001"))]).ok


def test_counting_continues_after_a_bad_checksum(tmp_path: Path) -> None:
    log = StreamLog().plain(1).plain(2)
    for event in (2, 7):
        log.data[log.offsets[event] + 20] ^= 1
    [report] = verify([str(log.write(tmp_path))]).files
    assert [(p.kind, p.pos) for p in report.problems] == [
        (Kind.BAD_CHECKSUM, log.offsets[2]),
        (Kind.BAD_CHECKSUM, log.offsets[7]),
    ]
    assert (report.types.total(), report.verified, report.bad) == (11, 9, 2)


def test_a_bad_length_ends_the_walk(tmp_path: Path) -> None:
    log = StreamLog().plain(1).plain(2)
    log.data[log.offsets[6] + 9 : log.offsets[6] + 13] = b"\x05\0\0\0"
    [report] = verify([str(log.write(tmp_path))]).files
    assert [(p.kind, p.pos) for p in report.problems] == [(Kind.BAD_LENGTH, log.offsets[6])]
    assert report.types.total() == 6


@pytest.mark.parametrize("cut", [3, 19, 25])
def test_a_torn_tail(cut: int, tmp_path: Path) -> None:
    log = StreamLog().plain(1)
    path = tmp_path / "binlog.000001"
    path.write_bytes(log.bytes()[: log.offsets[-1] + cut])
    [report] = verify([str(path)]).files
    assert [(p.kind, p.pos) for p in report.problems] == [(Kind.TORN_TAIL, log.offsets[-1])]
    assert report.types.total() == 5
    assert not report.ok


def test_in_use_with_a_torn_tail_is_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "binlog.000001"
    path.write_bytes(StreamLog(flags=IN_USE).plain(1).bytes()[:-3])
    report = verify([str(path)])
    assert kinds(report) == ["in use", "torn tail"]
    assert not report.ok


def test_an_incident(tmp_path: Path) -> None:
    log = StreamLog()
    log.add(INCIDENT, b"\x01\x00\x04lost")
    [found] = verify([str(log.write(tmp_path))]).files[0].problems
    assert (found.kind, found.message) == (Kind.INCIDENT, "LOST_EVENTS: lost")


def test_files_that_are_not_logs(tmp_path: Path) -> None:
    for name, content, kind in (
        ("a.000001", b"\x00" * 40, "bad magic"),
        ("b.000001", b"\xfdbin" + bytes(600), "unsupported"),
        ("c.000001", b"", "torn tail"),
        ("d.000001", b"\xfebin" + StreamLog().bytes()[4:30], "torn tail"),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        assert kinds(verify([str(path)])) == [kind]
    with pytest.raises(SourceError):
        verify([str(tmp_path / "nothing")])


def test_a_control_event_that_cannot_be_decoded(tmp_path: Path) -> None:
    log = StreamLog().previous(b"\x05\0\0\0\0\0\0\0").plain(1)
    [found] = verify([str(log.write(tmp_path))]).files[0].problems
    assert (found.kind, found.pos) == (Kind.BAD_EVENT, log.offsets[1])


def test_logs_without_checksums(tmp_path: Path) -> None:
    for log, algorithm in (
        (StreamLog(alg=0), "NONE"),
        (StreamLog(version="5.5.40", alg=None), None),
    ):
        log.add(QUERY, query_body(b"BEGIN"))
        [report] = verify([str(log.write(tmp_path))]).files
        assert (report.algorithm, report.verified, report.bad) == (algorithm, 0, 0)


def problems_of(log: StreamLog, folder: Path) -> list[tuple[Kind, int]]:
    [report] = verify([str(log.write(folder))], images=RowImages).files
    return [(p.kind, p.pos) for p in report.problems]


@pytest.mark.parametrize("event", [2, 3, 4])  # BEGIN, TABLE_MAP, rows
def test_without_checksums_a_body_is_vouched_for_by_decoding_it(event: int, tmp_path: Path) -> None:
    log = StreamLog(alg=0).plain(1).plain(2)
    assert problems_of(log, tmp_path) == []
    start, end = log.offsets[event], log.offsets[event + 1]
    log.data[start + 20 : end] = b"\xfb" * (end - start - 20)
    found = problems_of(log, tmp_path)
    assert found[0] == (Kind.BAD_EVENT, start)
    assert all(pos < log.offsets[6] for _, pos in found)  # the next transaction is sound


def test_without_checksums_row_images_are_decoded(tmp_path: Path) -> None:
    log = StreamLog(alg=0).plain(1).gtid(2).query(b"BEGIN")
    log.add(TABLE_MAP, table_map_body())
    log.add(ROWS, rows_body(2)[:-1])  # the last INT has three bytes
    log.add(ROWS, rows_body(1))
    log.xid().plain(3)
    assert problems_of(log, tmp_path) == [(Kind.BAD_EVENT, log.offsets[9])]
    rotten = StreamLog(alg=0).gtid(1)
    rotten.payload(inner_event(TABLE_MAP, table_map_body()) + inner_event(ROWS, rows_body(1)[:-1]))
    assert problems_of(rotten, tmp_path) == [(Kind.BAD_EVENT, rotten.offsets[2])]


def test_without_checksums_an_unknown_type_may_be_damage(tmp_path: Path) -> None:
    log = StreamLog(alg=0).plain(1)
    log.add(99, b"", flags=0x80)
    assert problems_of(log, tmp_path) == []
    log.add(99, b"")
    assert problems_of(log, tmp_path) == [(Kind.UNSUPPORTED, log.offsets[-1])]


def test_a_relay_log_may_begin_inside_a_statement(tmp_path: Path) -> None:
    log = StreamLog(alg=0, flags=RELAY)
    log.add(ROWS, rows_body(1))
    log.xid().plain(2)
    assert problems_of(log, tmp_path) == []


def test_the_corpus_log_with_a_corrupt_body(corpus: Path) -> None:
    [path] = (corpus / "public").rglob("corrupt-relay-bin.000624")
    [report] = verify([str(path)], images=RowImages).files
    assert [(p.kind, p.pos) for p in report.problems] == [(Kind.BAD_EVENT, 91204)]


def test_the_corpus_of_sound_chains(corpus: Path) -> None:
    for scenario in sorted((corpus / "generated").glob("*/*")):
        if scenario.name == "rotation":
            continue  # it holds a crash
        logs = [str(path) for path in scenario.glob("binlog.0*[0-9]*")]
        keys = keys_beside(scenario / "binlog.000001")
        keyring = Keyring(keys["keyring"]) if keys else None
        assert verify(logs, keyring=keyring).ok, scenario


def test_encrypted_logs(tmp_path: Path) -> None:
    """One that cannot be opened is a problem, and the others are verified."""
    plain = StreamLog().plain(1).bytes()
    (tmp_path / "binlog.000001").write_bytes(encrypt_file(plain))
    (tmp_path / "binlog.000002").write_bytes(plain)
    (tmp_path / "keys").write_bytes(component_keyring({KEY_NAME: KEY}))
    locked, clear = verify([str(tmp_path)]).files
    [problem] = locked.problems
    assert (problem.kind, problem.pos) == (Kind.LOCKED, 0)
    assert KEY_NAME in problem.message
    assert "option keyring" in problem.message
    assert clear.verified
    opened, clear = verify([str(tmp_path)], keyring=Keyring(str(tmp_path / "keys"))).files
    assert opened.verified == clear.verified
    assert opened.bytes == clear.bytes


def test_a_crash_is_seen(corpus: Path) -> None:
    for server in sorted((corpus / "generated").glob("*/rotation")):
        logs = [str(path) for path in server.glob("binlog.0*[0-9]")]
        report = verify(logs)
        assert not report.chain
        assert [remark.kind for remark in report.remarks] == [Kind.NO_TERMINATOR]


# --- encoded again


def test_events_are_the_same_encoded_again(tmp_path: Path) -> None:
    good_chain(tmp_path)
    again = Reencoding()
    report = verify([str(tmp_path)], checks=[again])
    assert (report.ok, kinds(report)) == (True, ["in use"])
    assert again.events == sum(file.types.total() for file in report.files)


def test_an_event_that_is_not_written_so_by_any_server(tmp_path: Path) -> None:
    """A length in more bytes than it needs decodes, but no server writes it."""
    log = StreamLog()
    pos = log.add(HEARTBEAT_V2, NOT_SHORTEST)
    log.write(tmp_path)
    again = Reencoding()
    report = verify([str(tmp_path)], checks=[again])
    assert not report.ok
    (problem,) = report.files[0].problems
    assert (problem.pos, problem.kind) == (pos, Kind.REENCODED)
    assert problem.message.startswith(
        "HEARTBEAT_LOG_EVENT_V2: encoded again, it differs from byte 9 on"
    )
    assert again.events == report.files[0].types.total() - 1


def test_an_event_whose_checksum_is_wrong_has_one_problem(tmp_path: Path) -> None:
    path = StreamLog().plain(1).plain(2).write(tmp_path)
    data = bytearray(path.read_bytes())
    data[-8] ^= 0xFF  # in the XID
    path.write_bytes(data)
    report = verify([str(tmp_path)], checks=[Reencoding()])
    assert kinds(report) == ["bad checksum"]


def test_a_body_that_does_not_decode(tmp_path: Path) -> None:
    log = StreamLog()
    log.add(HEARTBEAT_V2, b"\x01\x09abc")
    log.write(tmp_path)
    report = verify([str(tmp_path)], checks=[Reencoding()])
    assert kinds(report) == ["bad event"]


def test_only_so_many_problems_are_listed(tmp_path: Path) -> None:
    log = StreamLog()
    for _ in range(LISTED_BAD + 5):
        log.add(HEARTBEAT_V2, b"\x01\x09abc")
    log.write(tmp_path)
    problems = verify([str(tmp_path)], checks=[Reencoding()]).files[0].problems
    assert len(problems) == LISTED_BAD + 1
    assert problems[-1].message == "5 more events after it"


def test_events_inside_a_payload(tmp_path: Path) -> None:
    log = StreamLog()
    log.payload(inner_event(QUERY, query_body(b"BEGIN")) + inner_event(HEARTBEAT_V2, NOT_SHORTEST))
    log.write(tmp_path)
    (problem,) = verify([str(tmp_path)], checks=[Reencoding()]).files[0].problems
    assert problem.kind is Kind.REENCODED
    assert "HEARTBEAT_LOG_EVENT_V2: encoded again, it differs" in problem.message
