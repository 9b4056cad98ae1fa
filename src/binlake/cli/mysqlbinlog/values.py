"""Parse the options of `binlake mysqlbinlog` that are not plain numbers or texts."""

from __future__ import annotations

import math
from pathlib import Path

from binlake.cli.common.flags import local_moment
from binlake.errors import OptionError
from binlake.values.gtid import GtidSet, MariaGtid


def position_or_gtids(flag: str, text: str | None) -> int | dict[int, int] | None:
    """Parse a byte position, or MariaDB's GTIDs as sequence numbers by domain. Raises OptionError."""
    if text is None:
        return None
    if text.isdecimal():
        return int(text)
    try:
        gtids = [MariaGtid.parse(part) for part in text.split(",") if part]
    except ValueError:
        raise OptionError(
            f"{flag} {text!r}: expected a position or MariaDB GTIDs", name=flag, value=text
        ) from None
    found = {gtid.domain_id: gtid.seq_no for gtid in gtids}
    if len(found) != len(gtids):
        raise OptionError(f"{flag} {text!r}: a domain appears twice", name=flag)
    return found


def local_seconds(flag: str, text: str | None) -> int | None:
    """Parse a time (`local_moment`) to seconds since 1970, rounded up: an event's time has no fraction.

    Raises OptionError.
    """
    if text is None:
        return None
    try:
        return math.ceil(local_moment(text).timestamp())
    except OptionError as error:
        raise OptionError(f"{flag} {error}", name=flag) from None


def id_numbers(flag: str, texts: list[str] | None) -> frozenset[int]:
    """Parse numbers separated by commas, from all uses of an option. Raises OptionError."""
    words = [word.strip() for text in texts or () for word in text.split(",")]
    if bad := [word for word in words if not word.isdecimal()]:
        raise OptionError(f"{flag}: {bad[0]!r} is not a number", name=flag)
    return frozenset(map(int, words))


def gtid_set(flag: str, texts: list[str] | None) -> GtidSet | None:
    """Parse MySQL's GTIDs from all uses of an option; None without any. Raises OptionError."""
    if not texts:
        return None
    try:
        return GtidSet.parse(",".join(texts))
    except ValueError as error:
        raise OptionError(f"{flag}: {error}", name=flag) from None


def charset_name(name: str | None) -> str | None:
    """Parse the name of a character set. Raises OptionError."""
    if name is not None and not name.isalnum():
        raise OptionError(f"--set-charset: {name!r} is not the name of a character set")
    return name


def load_folder(path: str | None) -> str | None:
    """Check that a folder exists. Raises OptionError."""
    if path is not None and not Path(path).is_dir():
        raise OptionError(f"--local-load: {path} is not a directory", name="--local-load")
    return path
