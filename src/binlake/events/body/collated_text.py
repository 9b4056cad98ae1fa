"""Text of events whose character set is known by a collation id."""

from __future__ import annotations

from binlake.events.base import text_or_hex
from binlake.format.charsets import CHARSETS
from binlake.format.collations import COLLATIONS
from binlake.values.charset_text import decode


def collation_text(collation_id: int | None, raw: bytes) -> str:
    """`raw` in the character set of the collation; 0x… in hex when it is not text there.

    UTF-8 is assumed where there is no collation, or where its character set is `binary`.
    """
    collation = None if collation_id is None else COLLATIONS.get(collation_id)
    if collation is None or collation.charset not in CHARSETS:
        return text_or_hex(raw)
    try:
        return decode(collation.charset, raw)
    except UnicodeDecodeError:
        return "0x" + raw.hex()
