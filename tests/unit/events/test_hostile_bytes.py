"""Cut and changed bodies: an event or a BinlogError, never anything else."""

from __future__ import annotations

import json
import random

import pytest

from binlake.errors import BinlogError, FormatError
from binlake.events.base import Event
from binlake.events.common.rows import RowsEvent
from binlake.events.common.table_map import TableMapEvent
from binlake.events.mysql.transaction_payload import TransactionPayloadEvent
from binlake.events.registry import EVENT_CLASSES
from binlake.values.frame import EventFormat
from support.logs.event_bytes import event_of
from support.logs.event_samples import SAMPLES

MUTATIONS = 400
SEED = 20_171_127


def use(event: Event) -> None:
    """Everything that reads more of an event than `decode_event` did."""
    json.dumps(event.to_fields())
    if isinstance(event, TableMapEvent):
        event.definition()
    elif isinstance(event, RowsEvent):
        event.inflate()
    elif isinstance(event, TransactionPayloadEvent):
        for chunk in event.inflate():
            assert len(chunk) <= 1 << 20


def error_of(code: int, body: bytes, fmt: EventFormat | None) -> BinlogError | None:
    """Decode and use a body; the error, if it is one of ours (others pass through)."""
    try:
        use(event_of(code, body, fmt))
    except BinlogError as error:
        return error
    return None


def check(code: int, body: bytes, fmt: EventFormat | None) -> None:
    error = error_of(code, body, fmt)
    assert error is None or (error.event_pos, bool(error.event_type)) == (4, True)


def test_every_typed_family_has_a_sample() -> None:
    sampled = {EVENT_CLASSES[code] for code, _, _ in SAMPLES.values() if code in EVENT_CLASSES}
    assert sampled == set(EVENT_CLASSES.values())


@pytest.mark.parametrize("sample", SAMPLES)
def test_every_cut(sample: str) -> None:
    code, body, fmt = SAMPLES[sample]
    use(event_of(code, body, fmt))
    for cut in range(len(body)):
        check(code, body[:cut], fmt)


@pytest.mark.parametrize("sample", SAMPLES)
def test_mutations(sample: str) -> None:
    code, body, fmt = SAMPLES[sample]
    chance = random.Random(f"{SEED}{sample}")
    for _ in range(MUTATIONS if body else 0):
        changed = bytearray(body)
        for _ in range(chance.randint(1, 4)):
            changed[chance.randrange(len(changed))] = chance.choice(
                (0, 1, 0x7F, 0x80, 0xFB, 0xFE, 0xFF, chance.randrange(256))
            )
        if chance.random() < 0.2:
            changed += chance.randbytes(chance.randint(1, 9))
        check(code, bytes(changed), fmt)


def test_errors_name_the_place() -> None:
    code, body, fmt = SAMPLES["query"]
    with pytest.raises(FormatError) as caught:
        event_of(code, body[:20], fmt)
    assert caught.value.event_type == "QUERY_EVENT"
    assert caught.value.event_pos == 4
    assert caught.value.field == "status"
    assert caught.value.offset == 13
