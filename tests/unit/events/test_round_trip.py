"""decode(encode(event)) == event for events of any fields, family by family."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlake.errors import BinlogError
from binlake.events.body.encoding import encode_body
from binlake.events.registry import EVENT_CLASSES, decode_event
from binlake.format import event_types as types
from binlake.format.column_types import COLUMN_TYPES, MYSQL_TYPE_TYPED_ARRAY
from binlake.format.query_status import STATUS_VARIABLES
from binlake.values.frame import EventFormat, Frame
from binlake.values.gtid import GNO_END, GtidSet, MariaGtid
from support.logs.event_bytes import MARIADB, MYSQL

u8, u16, u32, u64 = (st.integers(0, (1 << bits) - 1) for bits in (8, 16, 32, 64))
i63 = st.integers(0, (1 << 63) - 1)
raw = st.binary(max_size=40)
short = st.binary(max_size=255)
name = st.binary(max_size=40).map(lambda text: text.replace(b"\0", b"x"))
text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=15)
sid = st.binary(min_size=16, max_size=16)


def tuples(of: st.SearchStrategy[Any], size: int = 4) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(of, max_size=size).map(tuple)


def optional(of: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | of


@st.composite
def gtid_sets(draw: Any, tags: st.SearchStrategy[str]) -> GtidSet:
    found = GtidSet()
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(1, GNO_END - 100))
        found.add_interval(draw(sid), draw(tags), start, start + draw(st.integers(1, 90)))
    return found


tags = st.sampled_from(["", "tag", "_x9"])


def status_value(code: int) -> st.SearchStrategy[Any]:
    variable = STATUS_VARIABLES[code]
    if variable.widths is not None:
        return st.tuples(*(st.integers(0, (1 << 8 * width) - 1) for width in variable.widths))
    return {
        "text8": short,
        "text8_nul": short,
        "text8_twice": st.tuples(short, short),
        "nul_texts": optional(tuples(name)),
        "gtid_flags3": st.tuples(st.sampled_from([0, 1, 2])) | st.tuples(st.just(4), u64),
        "collation_pairs": tuples(st.tuples(u16, u16)),
    }[variable.layout]


STATUS_CODES = [code for code, v in STATUS_VARIABLES.items() if v.layout != "padding"]
status_items = tuples(
    st.sampled_from(STATUS_CODES).flatmap(lambda code: st.tuples(st.just(code), status_value(code)))
)
unknown_status = st.just(b"") | raw.map(lambda rest: b"\xc8" + rest)
QUERY = {
    "thread_id": u32,
    "exec_time": u32,
    "error_code": u16,
    "database": text,
    "status_items": status_items,
    "status_unknown": unknown_status,
    "sql_raw": raw,
}


@st.composite
def rows(draw: Any, code: int) -> dict[str, Any]:
    kind = types.EVENT_TYPES[code]
    width = draw(st.integers(0, 300))
    bitmap = st.binary(min_size=(width + 7) // 8, max_size=(width + 7) // 8)
    updates = kind.operation == "update" and kind.rows_version
    return {
        "table_id": draw(st.integers(0, (1 << 48) - 1)),
        "flags": draw(u16),
        "partition_id": None,
        "source_partition_id": None,
        "ndb": None,
        # of an unknown type, so that it is kept and not read
        "extra_raw": draw(raw.map(lambda rest: b"\x77" + rest)) if kind.rows_version == 2 else b"",
        "width": width,
        "present": draw(bitmap),
        "present_after": draw(bitmap) if updates else None,
        "rows": memoryview(draw(raw)),
    }


@st.composite
def mysql_gtids(draw: Any) -> dict[str, Any]:
    """The optional fields end somewhere: none follows one that is missing."""
    made: dict[str, Any] = {"flags": draw(u8), "sid": draw(sid), "gno": draw(i63)}
    parts = draw(st.integers(0, 5))
    if parts > 0:
        made |= {"clock_type": 2, "last_committed": draw(i63), "sequence_number": draw(i63)}
    for at, (fields_of_part, strategy) in enumerate(
        (
            (("immediate_commit_us", "original_commit_us"), st.integers(0, (1 << 55) - 1)),
            (("transaction_length",), u64),
            (
                ("immediate_server_version", "original_server_version"),
                st.integers(0, (1 << 31) - 1),
            ),
            (("commit_group_ticket",), u64),
        ),
        1,
    ):
        if parts > at:
            made |= {field: draw(strategy) for field in fields_of_part}
    return made


@st.composite
def tagged_gtids(draw: Any) -> dict[str, Any]:
    values = {
        "flags": draw(u64), "sid": draw(sid), "gno": draw(i63), "tag": draw(tags),
        "last_committed": draw(st.integers(-(1 << 63), (1 << 63) - 1)),
        "sequence_number": draw(i63), "immediate_commit_us": draw(u64),
        "original_commit_us": draw(u64), "transaction_length": draw(u64),
        "immediate_server_version": draw(u64), "original_server_version": draw(u64),
        "commit_group_ticket": draw(u64),
    }  # fmt: skip
    return values | {"field_ids": tuple(range(12)), "last_needed": draw(st.integers(0, 12))}


@st.composite
def mariadb_gtids(draw: Any) -> dict[str, Any]:
    has_commit_id, has_xid = draw(st.booleans()), draw(st.booleans())
    extra = draw(st.none() | st.sampled_from([0, 1, 2, 4, 8, 16, 1 | 4 | 16]))
    return {
        "seq_no": draw(u64),
        "domain_id": draw(u32),
        "flags": 1 | 2 * has_commit_id | 64 * has_xid,
        "commit_id": draw(u64) if has_commit_id else None,
        "format_id": draw(u32) if has_xid else None,
        "gtrid": draw(raw) if has_xid else None,
        "bqual": draw(raw) if has_xid else None,
        "flags_extra": extra,
        "extra_engines": draw(u8) if extra and extra & 1 else 0,
        "start_alter_seq_no": draw(u64) if extra and extra & 12 else None,
        "thread_id": draw(u32) if extra and extra & 16 else None,
    }


@st.composite
def formats(draw: Any) -> dict[str, Any]:
    version, checked = draw(st.sampled_from([(b"5.1.60-log", False), (b"9.7.4", True)]))
    return {
        "binlog_version": 4,
        "server_version_raw": version.ljust(50, b"\0"),
        "created": draw(u32),
        "header_length": draw(st.integers(19, 255)),
        "post_header_lengths": draw(st.binary(max_size=60)),
        "checksum_alg": draw(st.sampled_from([0, 1])) if checked else None,
        "checksum": None,
    }


@st.composite
def user_vars(draw: Any) -> dict[str, Any]:
    type_code = draw(st.sampled_from([None, 0, 1, 2, 3]))
    if type_code is None:
        return {"name_raw": draw(raw), "type_code": None, "collation_id": None, "value_raw": None}
    size = {"min_size": 8, "max_size": 8} if type_code in (1, 2) else {"max_size": 40}
    return {
        "name_raw": draw(raw),
        "type_code": type_code,
        "collation_id": draw(u32),
        "value_raw": draw(st.binary(**size)),
        "tail": draw(raw),
    }


def loads(code: int) -> st.SearchStrategy[dict[str, Any]]:
    old, whole = code == types.LOAD_EVENT, code != types.CREATE_FILE_EVENT
    delimiter = st.binary(min_size=1, max_size=1) if old else short
    made: dict[str, st.SearchStrategy[Any]] = {
        "thread_id": u32,
        "exec_time": u32,
        "skip_lines": u32,
        "delimiters_raw": st.tuples(*[delimiter] * 5),
        "opt_flags": u8,
        "empty_flags": u8 if old else st.none(),
        "field_names_raw": tuples(short),
        "table_raw": short,
        "database_raw": short,
        "file_raw": raw if whole else name,
    }
    return st.fixed_dictionaries(made if whole else made | {"file_id": u32, "block": raw})


def plain(**made: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(made)


heartbeat_unknown = tuples(st.tuples(st.integers(3, (1 << 64) - 1), raw), 2)
payload_fields = st.permutations([1, 2, 3]).map(lambda order: tuple((kind, b"") for kind in order))

#: By type code: the fields of an event, and the format that it is in.
EVENTS: dict[int, st.SearchStrategy[dict[str, Any]]] = {
    types.START_EVENT_V3: plain(
        binlog_version=u16, server_version_raw=st.binary(min_size=50, max_size=50), created=u32
    ),
    types.QUERY_EVENT: plain(**QUERY, flavour=st.just("mysql"), logs_cascades=st.just(True)),
    types.QUERY_COMPRESSED_EVENT: plain(**QUERY, flavour=st.just("mariadb"), logs_cascades=st.just(False)),
    types.EXECUTE_LOAD_QUERY_EVENT: plain(
        **QUERY, flavour=st.just("mysql"), logs_cascades=st.just(True), file_id=u32, file_name_start=u32, file_name_end=u32,
        duplicate_handling=u8,
    ),
    types.STOP_EVENT: plain(),
    types.ROTATE_EVENT: plain(position=u64, next_file_raw=raw),
    types.INTVAR_EVENT: plain(kind=u8, value=u64),
    **{code: loads(code) for code in (types.LOAD_EVENT, types.NEW_LOAD_EVENT, types.CREATE_FILE_EVENT)},
    types.APPEND_BLOCK_EVENT: plain(file_id=u32, block=raw),
    types.BEGIN_LOAD_QUERY_EVENT: plain(file_id=u32, block=raw),
    types.EXEC_LOAD_EVENT: plain(file_id=u32),
    types.DELETE_FILE_EVENT: plain(file_id=u32),
    types.RAND_EVENT: plain(seed1=u64, seed2=u64),
    types.USER_VAR_EVENT: user_vars(),
    types.FORMAT_DESCRIPTION_EVENT: formats(),
    types.XID_EVENT: plain(xid=u64),
    types.XA_PREPARE_LOG_EVENT: plain(
        one_phase=st.booleans(), format_id=u32, gtrid=raw, bqual=raw
    ),
    types.INCIDENT_EVENT: plain(number=u16, message_raw=optional(short)),
    types.HEARTBEAT_LOG_EVENT: plain(position=u64, file_raw=raw),
    types.HEARTBEAT_LOG_EVENT_V2: plain(position=u64, file_raw=raw, unknown=heartbeat_unknown),
    types.IGNORABLE_LOG_EVENT: plain(body=raw),
    types.ROWS_QUERY_LOG_EVENT: plain(length_byte=u8, query_raw=raw),
    types.ANNOTATE_ROWS_EVENT: plain(query_raw=raw),
    types.GTID_LOG_EVENT: mysql_gtids(),
    types.ANONYMOUS_GTID_LOG_EVENT: mysql_gtids(),
    types.GTID_TAGGED_LOG_EVENT: tagged_gtids(),
    types.GTID_EVENT: mariadb_gtids(),
    types.PREVIOUS_GTIDS_LOG_EVENT: st.one_of(
        plain(gtids=gtid_sets(tags), tagged=st.just(True)),
        plain(gtids=gtid_sets(st.just("")), tagged=st.just(False)),
    ),
    types.GTID_LIST_EVENT: plain(
        flags=st.sampled_from([0, 1 << 28, 3 << 28]),
        gtids=tuples(st.builds(MariaGtid, u32, u32, u64)),
    ),
    types.TRANSACTION_CONTEXT_EVENT: plain(
        server_uuid_raw=short, thread_id=u32, gtid_specified=u8, snapshot_raw=raw,
        write_set=tuples(raw), read_set=tuples(raw),
    ),
    types.VIEW_CHANGE_EVENT: plain(
        view_id_raw=st.binary(min_size=40, max_size=40), sequence_number=u64,
        entries_raw=tuples(st.tuples(raw, raw)),
    ),
    types.TRANSACTION_PAYLOAD_EVENT: plain(
        compression=u64, uncompressed_size=u64, fields=payload_fields,
        payload=raw.map(memoryview),
    ),
    types.LARGE_TRANSACTION_HEADER_EVENT: plain(
        version=st.just(1), terminating_event_offset=u64, terminating_event_type=u8
    ),
    types.BINLOG_CHECKPOINT_EVENT: plain(file_raw=raw),
    types.START_ENCRYPTION_EVENT: plain(
        scheme=u8, key_version=u32, nonce=st.binary(min_size=12, max_size=12)
    ),
    types.PARTIAL_ROW_DATA_EVENT: plain(
        total=u32, sequence=u32, flags=st.just(1), original_size=u64, chunk=raw.map(memoryview)
    ) | plain(
        total=u32, sequence=u32, flags=st.just(0), original_size=st.none(),
        chunk=raw.map(memoryview),
    ),
    **{code: rows(code) for code in types.codes_of(types.Role.ROWS)},
}  # fmt: skip


def format_of(code: int) -> EventFormat:
    return MARIADB if types.EVENT_TYPES[code].flavour == "mariadb" else MYSQL


def test_every_type_is_here() -> None:
    # table maps are made of bytes below: their fields hang together
    assert set(EVENTS) | {types.TABLE_MAP_EVENT} == set(EVENT_CLASSES)


@pytest.mark.parametrize("code", sorted(EVENTS), ids=types.event_name)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_encoded_and_decoded_it_is_the_same(code: int, data: st.DataObject) -> None:
    made = data.draw(EVENTS[code])
    # the length counts, and a heartbeat's position is in its header
    frame = Frame(4, code, 0, 1, 2, made["position"] & 0xFFFFFFFF if code == 27 else 3, 0)
    if code == types.HEARTBEAT_LOG_EVENT:
        made["position"] = frame.log_pos
    fmt = format_of(code)
    event = EVENT_CLASSES[code](frame, **made)
    body = encode_body(event, fmt)
    event.frame = frame._replace(length=19 + len(body) + 4)
    assert decode_event(event.frame, body, fmt) == event


TYPES = sorted(set(COLUMN_TYPES) - {243, 244, 247, 248})


@st.composite
def table_maps(draw: st.DrawFn) -> bytes:
    """Bytes as a server writes them, of columns of any types and any optional metadata."""
    codes = draw(st.lists(st.sampled_from(TYPES), max_size=20))
    metadata = b"".join(draw(metadata_of(code)) for code in codes)
    described = b""
    key = draw(st.sampled_from([8, 9]))  # a table has one
    kinds = st.sampled_from([*range(1, 8), key, *range(10, 14), 99])
    for kind in draw(st.lists(kinds, unique=True, max_size=8)):
        value = draw(optional_value(kind))
        described += bytes((kind, len(value))) + value
    return (
        draw(st.binary(min_size=8, max_size=8))
        + b"\x02db\x00\x01t\x00"
        + bytes((len(codes),)) + bytes(codes)
        + bytes((len(metadata),)) + metadata
        + draw(st.binary(min_size=(len(codes) + 7) // 8, max_size=(len(codes) + 7) // 8))
        + described
    )  # fmt: skip


def metadata_of(code: int) -> st.SearchStrategy[bytes]:
    if code == MYSQL_TYPE_TYPED_ARRAY:
        return st.sampled_from([b"\x03", b"\x0f\x01\x02\x03", b"\xf6\x05\x02"])
    if code == 254:
        return st.sampled_from([b"\xf7\x01", b"\xf8\x08", b"\xfe\x20", b"\xce\xfd", b"\xee\xff"])
    if code == 16:
        return st.integers(1, 64).map(lambda bits: bytes((bits % 8, bits // 8)))
    if code == 246:
        return st.sampled_from([b"\x0a\x02", b"\x41\x1e", b"\x01\x00"])
    if code in (4, 5):
        return st.just(bytes((COLUMN_TYPES[code].value_bytes or 0,)))
    if code in (17, 18, 19):
        return st.integers(0, 6).map(lambda digits: bytes((digits,)))
    if COLUMN_TYPES[code].metadata_bytes == 1:
        return st.integers(1, 4).map(lambda width: bytes((width,)))
    return st.binary(
        min_size=COLUMN_TYPES[code].metadata_bytes, max_size=COLUMN_TYPES[code].metadata_bytes
    )


def optional_value(kind: int) -> st.SearchStrategy[bytes]:
    small = st.integers(0, 250)
    if kind in (1, 12, 99):
        return raw
    if kind == 4:
        return st.lists(text, max_size=3).map(
            lambda names: b"".join(bytes((len(each.encode()),)) + each.encode() for each in names)
        )
    if kind in (5, 6):
        return st.lists(st.lists(st.binary(max_size=5), max_size=3), max_size=3).map(
            lambda lists: b"".join(
                bytes((len(each),)) + b"".join(bytes((len(m),)) + m for m in each) for each in lists
            )
        )
    if kind in (2, 10):
        pairs = st.dictionaries(small, small, max_size=4)
        return st.tuples(small, pairs).map(
            lambda made: bytes((made[0],)) + b"".join(bytes(pair) for pair in made[1].items())
        )
    if kind == 9:
        return st.lists(st.tuples(small, small), max_size=4).map(
            lambda pairs: b"".join(map(bytes, pairs))
        )
    return st.lists(small, max_size=5).map(bytes)


@settings(max_examples=300, deadline=None)
@given(body=table_maps())
def test_table_maps_are_the_same_bytes_again(body: bytes) -> None:
    frame = Frame(4, types.TABLE_MAP_EVENT, 19 + len(body) + 4, 1, 2, 3, 0)
    assert encode_body(decode_event(frame, body, MYSQL), MYSQL) == body


@settings(max_examples=500, deadline=None)
@given(code=st.integers(0, 255), body=st.binary(max_size=120))
def test_decoded_events_encode_to_equal_events(code: int, body: bytes) -> None:
    """No field is lost, even in bytes that no server writes."""
    frame = Frame(4, code, 19 + len(body) + 4, 1, 2, 3, 0)
    try:
        event = decode_event(frame, body, MYSQL)
        again = encode_body(event, MYSQL)
    except BinlogError:
        return
    assert decode_event(frame, again, MYSQL) == event
