"""The place in the log that rows of a table belong to, as a dump or a user names it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from binlake.errors import OptionError
from binlake.values.gtid import GtidSet, MariaGtidSet
from binlake.values.option_texts import parse_file_position
from binlake.values.position import FilePosition

_FILE = re.compile(
    rb"^(?:-- )?CHANGE (?:MASTER|REPLICATION SOURCE) TO (?:MASTER|SOURCE)_LOG_FILE='([^'\n]{1,512})',"
    rb" ?(?:MASTER|SOURCE)_LOG_POS=(\d{1,18})",
    re.MULTILINE,
)
_PURGED = re.compile(
    rb"^(?:/\* )?SET @@GLOBAL\.GTID_PURGED\s*=\s*(?:/\*!\d{5}\s*'\+'\s*\*/\s*)?'\+?([\w:,\s-]*)'",
    re.MULTILINE,
)
# Before this version, mysqldump --single-transaction read GTID_PURGED after the snapshot, without a lock.
_FIRST_EXACT = (8, 0, 32)
_MYSQLDUMP = re.compile(
    rb"^-- MySQL dump [\d.]+ +Distrib (\d{1,4})\.(\d{1,4})\.(\d{1,4})(?![^,\n]*MariaDB)",
    re.MULTILINE,
)
_SLAVE_POS = re.compile(rb"^(?:-- )?SET GLOBAL gtid_slave_pos='([\d,-]*)'", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Origin:
    """All transactions before `position`, or the transactions of the GTID set, are in the rows, and no others.

    `mysqldump` is the version of the mysqldump that wrote the dump; () if it is unknown, or another program.
    """

    position: FilePosition | None = None
    mysql: GtidSet | None = None
    mariadb: MariaGtidSet | None = None
    mysqldump: tuple[int, ...] = ()

    @property
    def may_be_later(self) -> bool:
        """Whether the GTIDs may contain transactions that are not in the rows. With a position, mysqldump holds a
        lock while it reads both.
        """
        return self.position is None and () < self.mysqldump < _FIRST_EXACT

    @property
    def is_known(self) -> bool:
        """Whether there is a place."""
        return not (self.position is None and self.mysql is None and self.mariadb is None)


def origin_in_dump(text: bytes, known: Origin) -> Origin:
    """Complete an origin from the text of a dump between two tables."""
    position, mysql, mariadb = known.position, known.mysql, known.mariadb
    tool = known.mysqldump
    if not tool and (found := _MYSQLDUMP.search(text)):
        tool = tuple(map(int, found.groups()))
    if position is None and (found := _FILE.search(text)):
        position = FilePosition(found[1].decode("utf-8", "replace"), int(found[2]))
    if mysql is None and (found := _PURGED.search(text)):
        mysql = _set_of(found[1].decode())
    if mariadb is None and (found := _SLAVE_POS.search(text)):
        mariadb = MariaGtidSet.parse(found[1].decode())
    return Origin(position, mysql, mariadb, tool)


def _set_of(text: str) -> GtidSet | None:
    try:
        return GtidSet.parse(text)
    except ValueError:
        return None


def given_origin(position: str | None, gtid: str | None) -> Origin:
    """The origin that a user gives. Raises OptionError."""
    if position is not None and gtid is not None:
        raise OptionError(
            "--from-position and --from-gtid cannot be combined", name="from_position"
        )
    if position is not None:
        try:
            place = parse_file_position(position)
        except ValueError as error:
            raise OptionError(
                f"--from-position {position!r}: {error}", name="from_position"
            ) from None
        if not place.file:
            raise OptionError(
                f"--from-position {position}: expected FILE:POS, for example binlog.000012:4",
                name="from_position",
            )
        return Origin(position=place)
    if gtid is None:
        return Origin()
    for parse in (GtidSet.parse, MariaGtidSet.parse):
        try:
            found = parse(gtid)
        except ValueError:
            continue
        return Origin(mysql=found) if isinstance(found, GtidSet) else Origin(mariadb=found)
    raise OptionError(
        f"--from-gtid {gtid!r}: expected a GTID set of MySQL, or a GTID position of MariaDB",
        name="from_gtid",
    )
