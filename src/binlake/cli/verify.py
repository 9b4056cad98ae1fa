"""`binlake verify FILE|DIR…`: is every log whole, and do they follow one another."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from binlake.cli.flags import with_flags, with_options
from binlake.cli.terminal import note
from binlake.format.event_types import event_name
from binlake.source.keyring import Keyring
from binlake.stream.problems import Kind
from binlake.stream.reencode import Reencoding
from binlake.stream.verify import VerifyReport
from binlake.stream.verify import verify as check
from binlake.stream.verify_file import FileReport
from binlake.table.image_check import RowImages
from binlake.table.logged_fractions import LoggedFractions
from binlake.table.row_bytes import RowBytes
from binlake.table.schema_file import declared_schema
from binlake.values.ledger import counted
from binlake.values.options import ReadOptions

__all__ = ["verify"]

_NAMED = 3  # of the files that are left out


@with_options("schema", "keyring", "keyring_password_file")
def verify(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE|DIR…", help="Logs, directories, .index files.")
    ],
    options: ReadOptions,
    as_json: Annotated[bool, typer.Option("--json", help="The report as one JSON object.")] = False,
    reencode: Annotated[
        bool,
        typer.Option("--reencode", help="Encode every event again, too, and compare the bytes."),
    ] = False,
) -> None:
    """Verify checksums and framing of every event, and the chain of files.

    In a log without checksums, every event and every row image is decoded.

    The chain: no number missing, each file named by the one before it and ended by ROTATE or
    STOP, and GTIDs (PREVIOUS_GTIDS, GTID_LIST) without gap or overlap. Exit code 0 if all is
    well (a file in use alone is no failure), 1 if there are problems.

    It looks at all of a log, so it takes no filters. --schema declares tables of which the logs hold no
    DDL: where MariaDB's old temporal formats need that, their rows are judged, too.

    --reencode asks whether binlake understands all of a log: every event is decoded, encoded from
    its fields, its rows from their values, and compared byte for byte (what is compressed: by what
    it inflates to).

    Examples:
      binlake verify /var/lib/mysql/

      binlake verify --json s3://logs/shop/binlog.index | jq .chain

      binlake verify --reencode binlog.000012
    """
    keyring = Keyring.of(options)
    schema = declared_schema(options)
    compared, decoded = LoggedFractions(schema), LoggedFractions(schema)
    reencoding = Reencoding(lambda: RowBytes(compared), keyring)
    checks = [reencoding] if reencode else []
    report = check(files, images=lambda: RowImages(decoded), checks=checks, keyring=keyring)
    if as_json:
        print(json.dumps(report.to_json(), ensure_ascii=False, indent=1))
    else:
        _print_report(report)
    if reencode:
        note(f"the same when they are encoded again: {reencoding.events:,} events")
    if not report.ok:
        raise typer.Exit(1)


def _print_report(report: VerifyReport) -> None:
    for file in report.files:
        print(_file_line(file))
        for problem in file.problems:
            print(f"    {problem.kind.value} at {problem.pos}: {with_flags(problem.message)}")
    for link in report.chain:
        print(f"{link.file}: {link.kind.value}: {link.message}")
    if report.ignored:
        names = [path.rpartition("/")[2] for path in report.ignored]
        listed = ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
        count = counted(len(names), "file")
        note(f"left out, not named like a log or a second copy: {count} ({listed})")
    problems = sum(p.kind is not Kind.IN_USE for f in report.files for p in f.problems)
    total = problems + len(report.chain)
    events = sum(f.types.total() for f in report.files)
    verdict = "all is well" if report.ok else counted(total, "problem")
    print(f"{counted(len(report.files), 'file')}, {counted(events, 'event')}: {verdict}")


def _file_line(file: FileReport) -> str:
    if not file.types:
        return f"{file.file}: PROBLEMS, {file.bytes:,} bytes, no event that can be read"
    top = ", ".join(f"{event_name(code)} {count:,}" for code, count in file.types.most_common(3))
    if file.algorithm is None:
        checksums = "no checksums (old server)"
    elif file.algorithm == "NONE":
        checksums = "checksums off"
    else:
        checksums = f"{file.verified:,} checksums verified, {file.bad:,} bad"
    state = "ok" if file.ok else "PROBLEMS"
    return f"{file.file}: {state}, {file.bytes:,} bytes, {file.types.total():,} events ({top}), {checksums}"
