"""The GTIDs of the options `gtid` and `exclude_gtid`, of either flavour."""

from __future__ import annotations

from dataclasses import dataclass

from binlake.values.gtid import (
    GNO_END,
    MARIA_STREAM,
    UUID,
    Gtid,
    GtidSet,
    MariaGtid,
    MariaGtidIntervals,
    is_mariadb,
    parse_uuid,
)

_EXPECTED_GTIDS = "expected GTIDs like uuid:1-5, uuid:tag:7 (MySQL) or 0-1-5, 0-1:1-5 (MariaDB)"


@dataclass(frozen=True, slots=True, eq=False)
class GtidFilter:
    """The value of the options `gtid` and `exclude_gtid`: GTIDs of either flavour."""

    mysql: GtidSet
    mariadb: MariaGtidIntervals

    def contains_mysql(self, sid: bytes, tag: str, gno: int) -> bool:
        """Whether a MySQL GTID is in it."""
        return self.mysql.contains(sid, gno, tag)

    def contains_mariadb(self, domain_id: int, server_id: int, seq_no: int) -> bool:
        """Whether a MariaDB GTID is in it."""
        return MariaGtid(domain_id, server_id, seq_no) in self.mariadb

    def bounds_of(self, source: str) -> list[int]:
        """The numbers of one source that are in it, as an interval set. `source` is a GTID without
        its number: `uuid`, `uuid:tag`, or MariaDB's `domain-server`. Raises ValueError.
        """
        stream = MARIA_STREAM.fullmatch(source)
        if stream is not None:
            return self.mariadb.bounds_of((int(stream[1]), int(stream[2])))
        uuid, _, tag = source.partition(":")
        return self.mysql.bounds_of((parse_uuid(uuid), tag))

    def contains_text(self, gtid: str) -> bool:
        """Return whether a GTID in the text form of its flavour is in it. Raises ValueError."""
        if ":" in gtid:
            return Gtid.parse(gtid) in self.mysql
        return self.contains_mariadb(*MariaGtid.parse(gtid))


def parse_gtid_filter(text: str) -> GtidFilter:
    """Parse the GTIDs that a user gives to choose transactions.

    A comma-separated list: MySQL sets as the server spells them (`uuid:1-5:7:tag:9`), MariaDB
    GTIDs (`0-1-5`, which is this GTID only), and ranges of one MariaDB server in MySQL's manner
    (`0-1:1-5:7`). Raises ValueError.
    """
    mysql = GtidSet()
    mariadb = MariaGtidIntervals()
    for entry in "".join(text.split()).split(","):
        if not entry or mariadb.add_stream(entry):
            continue
        head, *parts = entry.split(":")
        if not any(parts) and UUID.fullmatch(head):
            raise ValueError(
                f"a UUID alone names no transaction; {head}:1-{GNO_END - 1} are all of that source"
                " (but those with a tag)"
            )
        if ":" in entry:
            mysql |= GtidSet.parse(entry)
        elif is_mariadb(entry):
            gtid = MariaGtid.parse(entry)
            mariadb.add_interval(gtid.domain_id, gtid.server_id, gtid.seq_no, gtid.seq_no + 1)
        else:
            raise ValueError(f"{entry!r} is no GTID; {_EXPECTED_GTIDS}")
    if not mysql and not mariadb:
        raise ValueError(_EXPECTED_GTIDS)
    return GtidFilter(mysql, mariadb)
