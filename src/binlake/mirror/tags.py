"""Tags of the mirror: names of snapshots before statements that emptied, dropped or replaced a table.

A tag keeps its snapshot and the data files of that. Iceberg computes the age of a tag from its
snapshot, which may be years older than the statement. So the mirror counts from the time at which
it first saw the tag.
"""

from __future__ import annotations

import json
import re

from binlake.mirror.iceberg.jvm import IcebergTable

__all__ = ["expire_tags"]

# Names of the mirror's tags: the statement and its position. Other programs may also name a tag `before-…`.
_OURS = re.compile(r"before-(?:convert|copy|drop|rename|truncate)-.+-\d+")
_SEEN = "binlake.tags-seen"


def expire_tags(table: IcebergTable, keep_s: int, now_s: float) -> list[str]:
    """Drop the mirror's tags that are older than `keep_s` seconds at `now_s` (Unix time); return their names.

    Raises SourceError, CommitConflictError.
    """
    names = [name for name in table.tags() if _OURS.fullmatch(name)]
    known: dict[str, int] = json.loads(table.describe()["properties"].get(_SEEN, "{}"))
    seen = {name: known.get(name, int(now_s)) for name in names}
    old = [name for name, since in seen.items() if since + keep_s <= now_s]
    for name in old:
        table.drop_tag(name)
    left = {name: since for name, since in seen.items() if name not in old}
    if left != known:
        table.set_properties({_SEEN: json.dumps(left, sort_keys=True)})
    return old
