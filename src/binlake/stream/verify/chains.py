"""Verification of chains of log files: `binlake verify`.

Each file is verified by itself (`verify_file`), then the joins between files: their numbers have
no gaps, each file is named by the one before it and ends with ROTATE or STOP, and the GTID sets
fit. A file begins with the GTIDs executed before it (PREVIOUS_GTIDS, GTID_LIST). They have to be
those at the beginning of the file before it, and those in that file.

    report = verify(paths)
    report.ok, report.to_json()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from binlake.source.access import Access
from binlake.source.chain import Chain, LogPath, names_in_gap
from binlake.source.keyring import Keyring
from binlake.source.resolve import Paths, beside_logs, log_name, path_texts, survey
from binlake.stream.verify.bodies import ImageCheck, no_images
from binlake.stream.verify.log_file import FileReport, verify_file
from binlake.stream.verify.problems import ChainProblem, Kind
from binlake.values.frame import DEFAULT_MAX_MEMORY
from binlake.values.gtid import GtidSet, MariaGtidSet
from binlake.values.log_names import LogName

#: A further check of a file: takes the file, its ordinal in the chain, and its report, to which it
#: adds.
FileCheck = Callable[[LogPath, int, FileReport], None]


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The result of a verification. `ok`: no problems, or only files in use.

    `remarks` are observations between files that are not problems: a server has crashed, and
    nothing is missing. `ignored` are paths that were left out: files of a directory that are not
    logs, and second copies.
    """

    files: tuple[FileReport, ...]
    chain: tuple[ChainProblem, ...]
    ignored: tuple[str, ...] = ()
    remarks: tuple[ChainProblem, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether all is well: the exit code of `binlake verify`."""
        return not self.chain and all(file.ok for file in self.files)

    def to_json(self) -> dict[str, Any]:
        """The document of `binlake verify --json`."""
        return {
            "ok": self.ok,
            "files": [file.to_json() for file in self.files],
            "chain": [_link_json(link) for link in self.chain],
            "remarks": [_link_json(link) for link in self.remarks],
        }


def _link_json(link: ChainProblem) -> dict[str, str]:
    return {"file": link.file, "kind": link.kind.value, "message": link.message}


def verify(
    paths: Paths,
    progress: Callable[[FileReport], None] = lambda _: None,
    images: Callable[[], ImageCheck] = lambda: no_images,
    checks: Sequence[FileCheck] = (),
    *,
    keyring: Keyring | None = None,
    max_memory: int = DEFAULT_MAX_MEMORY,
    index_directories: Sequence[str] = (),
) -> VerifyReport:
    """Verify the chains that `paths` mean, as for `binlake.open`. `progress` is called after every file.

    `images` makes, for every file, the check of the row images of a log without checksums.
    `checks` are further checks of each file. `keyring` opens encrypted logs; a log that it cannot
    open is a problem of kind LOCKED. `max_memory` and `index_directories` are the options of these
    names.

    Problems in the logs are in the report. Raises SourceError for logs that cannot be read at all.
    """
    access = Access(keyring, max_memory)
    access.expect_keyring()
    files: list[FileReport] = []
    problems: list[ChainProblem] = []
    remarks: list[ChainProblem] = []
    ignored: list[str] = []
    for chain in survey(path_texts(paths), index_directories):
        reports = _verify_files(chain, progress, images, checks, access)
        files += reports
        lost = [log_name(entry) for entry in chain.missing]
        found, noted = chain_problems(reports, lost)
        problems += _named(chain, [*(_lost(name, chain.index) for name in lost), *found])
        remarks += _named(chain, noted)
        for report in reports if chain.source else ():
            report.file = f"{chain.source}/{report.file}"
        ignored += (path for path in chain.ignored if not beside_logs(path))
    return VerifyReport(tuple(files), tuple(problems), tuple(ignored), tuple(remarks))


def _named(chain: Chain, links: Sequence[ChainProblem]) -> Iterator[ChainProblem]:
    """Yield the problems with the source in the names of files, if there are several sources."""
    for link in links:
        yield link._replace(file=f"{chain.source}/{link.file}") if chain.source else link


def _verify_files(
    chain: Chain,
    progress: Callable[[FileReport], None],
    images: Callable[[], ImageCheck],
    checks: Sequence[FileCheck],
    access: Access,
) -> list[FileReport]:
    reports = []
    for ordinal, path in enumerate(chain.files):
        reports.append(verify_file(path, ordinal, images(), access=access))
        for check in checks:
            check(path, ordinal, reports[-1])
        progress(reports[-1])
    return reports


def _lost(name: str, index: str) -> ChainProblem:
    return ChainProblem(
        name,
        Kind.MISSING_FILE,
        f"named in {log_name(index)}, but the file does not exist: purged, or the index is of"
        " another directory",
    )


def chain_problems(
    reports: Sequence[FileReport], lost: Sequence[str] = ()
) -> tuple[list[ChainProblem], list[ChainProblem]]:
    """Return the problems between the files of one chain, in order, and the remarks.

    `lost` are the names of files that are known and reported as missing.
    """
    problems: list[ChainProblem] = []
    remarks: list[ChainProblem] = []
    executed = _Executed()
    for index, report in enumerate(reports):
        gtids = executed.check(report)
        if index:
            before = reports[index - 1]
            problems += _joint_problems(before, report, lost)
            if not before.terminated and before.complete:
                why = _crash(before, report) if not gtids else ""
                into = remarks if why else problems
                into.append(_no_terminator(before, report, why))
        problems += gtids
    return problems, remarks


def _crash(before: FileReport, after: FileReport) -> str:
    """Return why a log that does not end in ROTATE or STOP is whole nevertheless; "" if nothing
    shows it.

    A crash of the server leaves such a log, and the next one begins with the start of the server.
    The GTIDs executed before that are all in the logs, or there are none.
    """
    torn = any(problem.kind is Kind.TORN_TAIL for problem in before.problems)
    if not after.at_startup or torn or _missing_numbers(before, after, ())[0]:
        return ""
    if after.previous is not None and (before.gtids or len(before.maria_gtids)):
        return "the server crashed; the GTIDs at the beginning of the next log show that nothing is missing"
    return "the server crashed; without GTIDs a missing transaction cannot be detected"


def _no_terminator(before: FileReport, after: FileReport, crash: str) -> ChainProblem:
    why = crash or "the server crashed, or the file is cut"
    if after.at_startup is False and not after.is_relay:
        why = "without a start of the server in between, this is an incomplete copy"
    message = f"ends without ROTATE or STOP, but {after.file} follows: {why}"
    return ChainProblem(before.file, Kind.NO_TERMINATOR, message)


def _joint_problems(
    before: FileReport, after: FileReport, lost: Sequence[str]
) -> list[ChainProblem]:
    """Is `after` the file that follows `before`?"""
    problems = []
    missing, known = _missing_numbers(before, after, lost)
    if missing and not known:
        message = f"{missing} missing before this file"
        problems.append(ChainProblem(after.file, Kind.MISSING_FILE, message))
    if before.successor is not None and before.successor != after.file and not missing:
        message = f"its last event names {before.successor}, but {after.file} follows"
        problems.append(ChainProblem(before.file, Kind.WRONG_SUCCESSOR, message))
    return problems


def _missing_numbers(
    before: FileReport, after: FileReport, lost: Sequence[str]
) -> tuple[str, bool]:
    """Return the files whose numbers lie between those of two, as text; "" if there are none.

    Also return whether all of them are among the `lost`.
    """
    if before.number is None or after.number is None or after.number <= before.number + 1:
        return "", False
    named = LogName.parse(after.file)
    assert named is not None, "it has a number"
    count = after.number - before.number - 1
    known = count <= len(lost) and set(lost).issuperset(
        named.numbered(before.number + 1 + n) for n in range(count)
    )
    return names_in_gap(after.file, range(before.number + 1, after.number)), known


class _Executed:
    """The transactions of the chain so far, of either flavour."""

    def __init__(self) -> None:
        self._mysql: GtidSet | None = None
        self._mariadb: MariaGtidSet | None = None

    def check(self, report: FileReport) -> list[ChainProblem]:
        """Compare with the GTIDs that the file presumes, and add those that it contains."""
        problems: list[ChainProblem] = []
        if isinstance(report.previous, GtidSet):
            if self._mysql is not None:
                problems = _mysql_problems(report.file, self._mysql, report.previous)
            self._mysql = report.previous | report.gtids
        elif self._mysql is not None:
            self._mysql |= report.gtids
        if isinstance(report.previous, MariaGtidSet):
            if self._mariadb is not None:
                problems = _mariadb_problems(report.file, self._mariadb, report.previous)
            self._mariadb = report.previous.copy()
        if self._mariadb is not None:
            for gtid in report.maria_gtids:
                self._mariadb.add(gtid)
        return problems


def _mysql_problems(file: str, executed: GtidSet, previous: GtidSet) -> list[ChainProblem]:
    problems = []
    if gap := previous - executed:
        message = f"{gap} was executed before this file, but no earlier file contains it"
        problems.append(ChainProblem(file, Kind.GTID_GAP, message))
    if overlap := executed - previous:
        message = f"{overlap} is in earlier files, but this file does not list it as executed"
        problems.append(ChainProblem(file, Kind.GTID_OVERLAP, message))
    return problems


def _mariadb_problems(
    file: str, executed: MariaGtidSet, previous: MariaGtidSet
) -> list[ChainProblem]:
    problems = []
    for gtid in previous:
        last = executed.last(gtid.domain_id, gtid.server_id)
        if last is None or last < gtid.seq_no:
            reached = "none" if last is None else f"{gtid.domain_id}-{gtid.server_id}-{last}"
            message = (
                f"{gtid} was executed before this file, but the earlier files end at {reached}"
            )
            problems.append(ChainProblem(file, Kind.GTID_GAP, message))
    for gtid in executed:
        last = previous.last(gtid.domain_id, gtid.server_id)
        if last is None or last < gtid.seq_no:
            message = f"{gtid} is in earlier files, but this file does not list it as executed"
            problems.append(ChainProblem(file, Kind.GTID_OVERLAP, message))
    return problems
