"""No event type and no column type is without a test; docs/event-types.md says where."""

from __future__ import annotations

import pytest

from binlake.events.registry import EVENT_CLASSES
from binlake.format.column_types import COLUMN_TYPES
from binlake.format.event_types import EVENT_TYPES
from dev.tested import column_properties, golden_use, types_by_hand

#: Names of codes that no server writes: such events are kept as bytes.
WITHOUT_FIELDS = {0, 7}
#: In no log of a server; dev/gen_docs.py says why.
IN_NO_LOG = {0, 20, 243, 244}


@pytest.mark.parametrize("code", sorted(EVENT_TYPES))
def test_event_types(code: int) -> None:
    tested = golden_use().events.get(code) or types_by_hand().get(code)
    assert bool(tested) == (code not in WITHOUT_FIELDS)
    assert (code in EVENT_CLASSES) == (code not in WITHOUT_FIELDS)


@pytest.mark.parametrize("code", sorted(COLUMN_TYPES))
def test_column_types(code: int) -> None:
    tested = code in golden_use().columns or code in column_properties()
    assert tested == (code not in IN_NO_LOG)
