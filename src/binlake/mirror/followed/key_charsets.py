"""Keys in character sets in which a character may have two codes: two rows of the server can be one row in the lake."""

from __future__ import annotations

from collections.abc import Iterator

from binlake.format.collations import charset_of
from binlake.format.sql_names import quoted_name
from binlake.snapshot.tables import SourceTable
from binlake.values.charset_text import lower_case

#: The character sets, as MySQL and MariaDB convert them to Unicode: 0x8790 and 0x81E0 of cp932 are both ≒.
WITH_TWO_CODES = frozenset({"armscii8", "cp932", "eucjpms", "sjis", "ujis"})


def remarks_on_keys(table: SourceTable) -> Iterator[str]:
    """Yield a sentence for each such column of a table's key."""
    key = set(map(lower_case, table.key))
    for column in table.definition.columns:
        charset = charset_of(column.collation_id)
        if lower_case(column.name) in key and charset in WITH_TWO_CODES:
            yield (
                f"{table.full_name}: some characters have two codes in {charset}, the character set of {quoted_name(column.name)} in the"
                " key: rows whose keys differ in such codes only are one row in the lake"
            )
