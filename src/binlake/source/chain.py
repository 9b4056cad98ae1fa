"""Which files are meant, and in which order: paths become chains of log files.

A chain is the files of one base name in one place, in the order of their index file where one
is given, else by their number (1000000 after 999999). What a path may be:

    a file              any name, any number of them; "-" is standard input
    a glob              quoted, so that the shell leaves it: 'logs/binlog.*'
    a directory         its files named <base>.<six or more digits>, or <base>-<digits>.ibb as
                        MariaDB's InnoDB binlog; of three to five digits (MySQL 3.23 and 4.0), if an
                        index names them or they begin as logs do; the others are left and counted.
                        One without logs stands for its sub-directories that are archives
    an index file       <base>.index: its lines, in its order, relative ones beside it
    a live server       mysql://user@host/: its logs; mysql://user@host/binlog.000012: that one
    a URI               s3://, s3a://, hdfs://, file:// …: file, directory, glob or index file

Every name may end in .gz or .zst. Of a log no more than its magic is read here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from binlake.errors import SourceError
from binlake.format.magic import BINLOG_MAGIC, ENCRYPTED_MAGIC, FIRST_EVENT
from binlake.source.bytes import local_path, open_reader
from binlake.source.chain_names import named_apart
from binlake.source.locations import Location, has_wildcards, location
from binlake.source.replica.url import ServerUrl, is_server_url
from binlake.values.log_names import LogName

__all__ = [
    "ARCHIVE_STATE",
    "Chain",
    "LogPath",
    "beside_logs",
    "log_name",
    "names_in_gap",
    "resolve",
    "survey",
]

_COMPRESSED = re.compile(r"\.(?:gz|zst)$")
# Servers write at least six digits; in a directory that tells logs from error.log.1 and the like.
_SURE_DIGITS = 6
# Old ones wrote three: of files with so few, more is asked.
_MIN_DIGITS = 3
# MariaDB's Aria engine numbers its logs, too, in the data directory: beside binary logs, as a rule.
_OF_ENGINES = re.compile(r"(?:aria|maria)_log\.\d{8}")
_MAGICS = (BINLOG_MAGIC, ENCRYPTED_MAGIC)
# What servers keep beside their logs: the index, MariaDB's GTID indexes and its last state. And what
# we do: an index of each log, the state of an archive.
_BESIDE_LOGS = re.compile(
    r"(?:\.index|\.\d+\.idx|\.state|\.\d+\.index\.parquet|(?:^|/)archive\.(?:json|lock))$"
)
#: What tells an archive from any other directory (archive/layout.py).
ARCHIVE_STATE = "archive.json"


@dataclass(frozen=True, slots=True)
class LogPath:
    """One log file: `path` as it is opened, `name` its base name without .gz or .zst.

    `number` is the numeric suffix (None if the name has none), `size` the length in bytes
    where it was seen without opening the file. `source` is the name of its chain where the input has
    several (source/chain_names.py), else "".
    """

    path: str
    name: str
    number: int | None = None
    size: int | None = None
    source: str = ""

    @property
    def base(self) -> str:
        """The name without its number: what `log_bin_basename` ends in."""
        named = LogName.parse(self.name)
        return self.name if named is None else named.base

    @property
    def chain(self) -> tuple[str, str]:
        """What the files of its chain, and no others, have in common: directory and base name."""
        return _directory(self.path), self.base

    @property
    def shown(self) -> str:
        """The name, behind that of its chain where there are several: `source/binlog.000001`."""
        return f"{self.source}/{self.name}" if self.source else self.name


@dataclass(frozen=True, slots=True)
class Chain:
    """Log files that follow one another, oldest first. `base` is their common name.

    `ignored` are paths that were found and left out: in a directory, those that do not look
    like logs; anywhere, a second copy of a log (binlog.000001.gz beside binlog.000001).
    `missing` are the entries of `index`, an index file, that are not there (`survey` only).
    `directory` is where the files lie. `source` tells the chain from the others of its input; "" if it
    is the only one.
    """

    base: str
    files: tuple[LogPath, ...]
    ignored: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    index: str = ""
    directory: str = ""
    source: str = ""

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(file.path for file in self.files)

    @property
    def names(self) -> tuple[str, ...]:
        """The base names of its files."""
        return tuple(file.name for file in self.files)

    @property
    def known_bytes(self) -> int | None:
        """The length of all its files; None if the length of one is not known."""
        sizes = [file.size for file in self.files]
        return None if None in sizes else sum(size or 0 for size in sizes)

    def gap_before(self, ordinal: int) -> str:
        """A sentence about the numbers left out between a file and the one before it, or ""."""
        if ordinal == 0:
            return ""
        after = self.files[ordinal]
        gap = range((self.files[ordinal - 1].number or 0) + 1, after.number or 0)
        if not gap:
            return ""
        return f"{names_in_gap(after.name, gap)} missing before {after.name}: what they hold is not read"


@dataclass(slots=True)
class _Found:
    """What one argument stands for. `index`: the index file that gives the order, or ""."""

    files: list[LogPath]
    ignored: list[str]
    missing: list[str] = field(default_factory=list)
    index: str = ""


def resolve(paths: Sequence[str], index_directories: Sequence[str] = ()) -> list[Chain]:
    """The chains that `paths` mean, in the order in which their first files were named.

    Files of one base name are one chain if they lie in the same directory; different
    directories are different servers. An index file may name logs in its own directory and in
    `index_directories`. Raises SourceError for a path that stands for nothing, and for an index
    file that names a file that is not there, or one in another directory.
    """
    chains = survey(paths, index_directories)
    for chain in chains:
        if chain.missing:
            raise SourceError(
                f"{chain.missing[0]}, named in {chain.index}, does not exist",
                hint="the server has purged it, or the index belongs to another directory",
            )
    return chains


def survey(paths: Sequence[str], index_directories: Sequence[str] = ()) -> list[Chain]:
    """`resolve`, but what an index file names and is not there is told by the chain (`missing`).

    Such a chain may have no file at all. Raises SourceError for a path that stands for nothing.
    """
    if not paths:
        raise SourceError("no log file given")
    groups: dict[tuple[str, str], list[LogPath]] = {}
    indexes: dict[tuple[str, str], str] = {}
    missing: dict[tuple[str, str], list[str]] = {}
    ignored: dict[tuple[str, str], list[str]] = {}
    left: list[str] = []
    taken: set[tuple[tuple[str, str], str]] = set()
    for path in paths:
        found = _expand(path, index_directories)
        for file in found.files:
            key = file.chain
            group = groups.setdefault(key, [])
            if (key, file.path) not in taken:
                taken.add((key, file.path))
                group.append(file)
            if found.index:
                indexes[key] = found.index
        if found.missing:
            first = found.files[0] if found.files else _log_path(found.missing[0], None)
            key = first.chain
            groups.setdefault(key, [])
            indexes[key] = found.index
            missing.setdefault(key, []).extend(found.missing)
        if found.files:
            first = found.files[0]
            ignored.setdefault(first.chain, []).extend(found.ignored)
        else:
            left += found.ignored
    if not groups:
        raise SourceError(f"{', '.join(left)}: no binary log")
    ignored.setdefault(next(iter(groups)), []).extend(left)
    chains = []
    for key, files in groups.items():
        if key not in indexes:
            files.sort(key=lambda file: (file.number is None, file.number or 0))
        kept, copies = _without_copies(files)
        left_out = (*ignored.get(key, ()), *copies)
        lost = tuple(dict.fromkeys(missing.get(key, ())))
        index = indexes.get(key, "")
        chains.append(Chain(key[1], tuple(kept), left_out, lost, index, key[0]))
    return named_apart(chains)


def names_in_gap(name: str, gap: range) -> str:
    """The files of a gap before the file `name`, as the subject of a sentence and its verb."""
    named = LogName.parse(name)
    assert named is not None, "only numbers have gaps"
    first, last = (named.numbered(number) for number in (gap[0], gap[-1]))
    return f"{first} is" if first == last else f"{first} to {last} are"


def beside_logs(path: str) -> bool:
    """Whether a path names what servers keep beside their logs: an index or state file."""
    return _BESIDE_LOGS.search(path) is not None


def log_name(path: str) -> str:
    """The base name of a log, as ROTATE events and positions spell it: no directory, no .gz.

    Bytes of a file's name that are no UTF-8 are escaped: results hold the name as text.
    """
    if is_server_url(path):
        return ServerUrl.parse(path).log_name
    name = _COMPRESSED.sub("", re.split(r"[/\\]", path.rstrip("/"))[-1])
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _expand(path: str, index_directories: Sequence[str]) -> _Found:
    if not path:
        raise SourceError(
            "the name of a log is empty", hint="is a variable not set? . is this directory"
        )
    if path == "-":
        return _Found([LogPath("-", "-")], [])
    if is_server_url(path):
        from binlake.source.replica.server_log import server_logs  # network code, for URLs only

        return _Found([_log_path(url, size) for url, _, size in server_logs(path)], [])
    path = local_path(path)
    store = location(path)
    kind = store.kind()
    if kind == "directory":
        return _directory_logs(store)
    if kind == "missing":
        if not has_wildcards(path):
            raise SourceError(f"{store.shown} does not exist")
        matches = store.matches()
        logs = [match for match in matches if not beside_logs(match[0])]
        if not logs:
            raise SourceError(f"nothing matches {store.shown}")
        ignored = [match for match, _ in matches if beside_logs(match)]
        return _Found(_sorted(_log_path(*match) for match in logs), ignored)
    if path.endswith(".index"):
        return _index_logs(store, index_directories)
    if beside_logs(path):  # a shell has made it of binlog.*
        return _Found([], [path])
    return _Found([_log_path(path, store.size())], [])


def _directory_logs(store: Location) -> _Found:
    found = _Found([], [])
    _add_logs(found, store.entries())
    if not found.files:
        for path in store.directories():
            _add_archive(found, location(path))
    if not found.files:
        raise SourceError(
            f"no binary log in {store.shown}{_what_is_there(len(found.ignored))}",
            hint="logs are named <base>.<six digits> or <base>-<six digits>.ibb; give the path of a file"
            " that has another name",
        )
    return found


def _what_is_there(files: int) -> str:
    if not files:
        return ": it has no files"
    return ": its only file is not one" if files == 1 else f": none of its {files} files is one"


def _add_archive(found: _Found, store: Location) -> None:
    """The logs of a sub-directory, if it is an archive."""
    entries = store.entries()
    if any(log_name(path) == ARCHIVE_STATE for path, _ in entries):
        _add_logs(found, entries)


def _add_logs(found: _Found, entries: Sequence[tuple[str, int | None]]) -> None:
    """The logs of one directory, in their order; what is none is ignored."""
    names = [log_name(path) for path, _ in entries]
    indexes = {name.removesuffix(".index") for name in names if name.endswith(".index")}
    logs = []
    for path, size in entries:
        if _is_log(path, indexes):
            logs.append(_log_path(path, size))
        else:
            found.ignored.append(path)
    found.files += _sorted(logs)


def _is_log(path: str, indexes: set[str]) -> bool:
    """Whether a file of a directory is a log; `indexes` are the bases that have an index there."""
    name = log_name(path)
    named = LogName.parse(name)
    if named is None or len(named.digits) < _MIN_DIGITS or _OF_ENGINES.fullmatch(name):
        return False
    if len(named.digits) >= _SURE_DIGITS or named.base in indexes:
        return True
    try:
        with open_reader(path) as reader:
            return reader.read_at(0, FIRST_EVENT) in _MAGICS
    except SourceError:
        return False


def _index_logs(store: Location, directories: Sequence[str]) -> _Found:
    """The files of an index file, in its order.

    Whoever writes an index must not choose which files are opened: only regular files in the
    directory of the index and in `directories` are. An absolute entry is looked for beside the index
    too, since a copied data directory keeps the paths of the server. So is an entry that has been
    compressed since. Raises SourceError.
    """
    files: list[LogPath] = []
    missing: list[str] = []
    beside = store.files_beside()
    below = location(_directory(store.shown) or ".")
    allowed = [location(local_path(directory)) for directory in directories]
    entries = [line.strip() for line in os.fsdecode(store.read()).splitlines()]
    for entry in filter(None, dict.fromkeys(entries)):
        name = entry.replace("\\", "/").rpartition("/")[2]
        name = name.removesuffix(".gz").removesuffix(".zst")
        has_directory = "/" in entry.removeprefix("./")
        found = beside.get(name) or beside.get(f"{name}.gz") or beside.get(f"{name}.zst")
        if allowed or (found is None and has_directory):
            path = store.beside(entry)  # an absolute one is itself
            other = (directory.regular_file(path) for directory in (*allowed, below))
            found = next(filter(None, other), None) or found
        if found is not None:
            files.append(_log_path(*found))
        elif name in beside or (has_directory and store.is_elsewhere(entry)):
            raise SourceError(
                f"{store.shown} names {entry}, which is not in the directory of the index file",
                hint="allow its directory with option index_directory, or name the logs themselves",
            )
        else:
            missing.append(entry)
    if not files and not missing:
        raise SourceError(f"the index file {store.shown} names no log")
    return _Found(files, [], missing, store.shown)


def _log_path(path: str, size: int | None) -> LogPath:
    name = log_name(path)
    named = LogName.parse(name)
    return LogPath(path, name, None if named is None else named.number, size)


def _sorted(files: Iterable[LogPath]) -> list[LogPath]:
    return sorted(files, key=lambda file: (file.base, file.number or 0, file.name, file.path))


def _without_copies(files: list[LogPath]) -> tuple[list[LogPath], list[str]]:
    """One file per name, the uncompressed one first; and the paths of the others."""
    best: dict[str, LogPath] = {}
    for file in files:
        known = best.get(file.name)
        if known is None or (_COMPRESSED.search(known.path) and not _COMPRESSED.search(file.path)):
            best[file.name] = file
    kept = [file for file in files if best[file.name] is file]
    return kept, [file.path for file in files if best[file.name] is not file]


def _directory(path: str) -> str:
    return path.rpartition("/")[0]
