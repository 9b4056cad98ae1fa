"""Resolve paths to chains of log files: which files they mean, and in which order.

A chain consists of the files of one base name in one place, in the order of their index file if
you give one, else by their number (1000000 after 999999). A path can be:

    a file              any name, any number of them; "-" is standard input
    a glob              quoted, so that the shell leaves it: 'logs/binlog.*'
    a directory         its files named <base>.<six or more digits>, or <base>-<digits>.ibb as
                        MariaDB's InnoDB binlog; of three to five digits (MySQL 3.23 and 4.0), if an
                        index names them or they begin as logs do; the others are left and counted.
                        One without logs stands for its sub-directories that are archives
    an index file       <base>.index: its lines, in its order, relative ones beside it
    a live server       mysql://user@host/: its logs; mysql://user@host/binlog.000012: that one
    a URI               s3://, s3a://, hdfs://, file:// …: file, directory, glob or index file

If a directory has binary logs and relay logs, as the data directory of a replica, a read leaves out
the relay logs unless it names them. Every name may end in .gz or .zst. This module reads no more of a
log than the header of its first event.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from binlake.core.events.frames import read_frame
from binlake.errors import OptionError, SourceError
from binlake.format.event_header import HEADER_BYTES
from binlake.format.event_types import FORMAT_DESCRIPTION_EVENT
from binlake.format.flags import LOG_EVENT_RELAY_LOG_F
from binlake.format.magic import BINLOG_MAGIC, ENCRYPTED_MAGIC, FIRST_EVENT
from binlake.source.bytes import local_path, open_reader
from binlake.source.chain import Chain, LogPath, named_apart
from binlake.source.locations import Listed, Location, has_wildcards, location
from binlake.source.replica.url import ServerUrl, is_server_url
from binlake.values.log_names import LogName

#: One path or several, as callers of the Python API give them.
Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

_COMPRESSED = re.compile(r"\.(?:gz|zst)$")
# Servers write at least six digits, which distinguishes logs in a directory from error.log.1 and
# the like.
_SURE_DIGITS = 6
# Old servers wrote three digits: files with so few have to pass further checks.
_MIN_DIGITS = 3
# MariaDB's Aria engine numbers its logs, too, in the data directory: usually beside binary logs.
_OF_ENGINES = re.compile(r"(?:aria|maria)_log\.\d{8}")
_MAGICS = (BINLOG_MAGIC, ENCRYPTED_MAGIC)
# Around an entry of an index file; the name itself may contain any other character.
_ENTRY_SPACE = " \t\r"
# Files that servers keep beside their logs: the index, MariaDB's GTID indexes and its last state.
# And those of binlake: the indexes of each log, the state of an archive.
_BESIDE_LOGS = re.compile(
    r"(?:\.index|\.\d+\.idx|\.state|\.\d+\.(?:index\.parquet|keys\.arrow)|(?:^|/)archive\.(?:json|lock))$"
)
#: The file that distinguishes an archive from other directories (archive/layout.py).
ARCHIVE_STATE = "archive.json"


@dataclass(slots=True)
class _Found:
    """The logs that one argument means. `index`: the index file that gives the order, or "". `relay`: the chains
    of relay logs beside binary logs.
    """

    files: list[LogPath]
    ignored: list[str]
    missing: list[str] = field(default_factory=list)
    index: str = ""
    relay: set[tuple[str, str]] = field(default_factory=set)


def path_texts(paths: Paths) -> list[str]:
    """Return the paths that a caller gives, one or several, as texts. Raises OptionError for other values."""
    try:
        given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
        return [os.fsdecode(path) for path in given]
    except TypeError:
        raise OptionError(
            f"paths: expected a path or several, not {paths!r}", name="paths", value=paths
        ) from None


def resolve(paths: Sequence[str], index_directories: Sequence[str] = ()) -> list[Chain]:
    """Return the chains that `paths` mean, in the order in which their first files were named.

    Files of one base name are one chain if they lie in the same directory; different directories
    are different servers. An index file may name logs in its own directory and in
    `index_directories`. Raises SourceError for a path without logs, and for an index file that
    names a file that does not exist, or one in another directory.
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
    """Return the same as `resolve`, but with the missing files of an index file in the chain
    (`missing`).

    Such a chain may have no file at all. Raises SourceError for a path without logs.
    """
    if not paths:
        raise SourceError("no log file is given")
    groups: dict[tuple[str, str], list[LogPath]] = {}
    indexes: dict[tuple[str, str], str] = {}
    missing: dict[tuple[str, str], list[str]] = {}
    ignored: dict[tuple[str, str], list[str]] = {}
    left: list[str] = []
    taken: set[tuple[tuple[str, str], str]] = set()
    relay: set[tuple[str, str]] = set()
    named: set[tuple[str, str]] = set()
    for path in paths:
        found = _expand(path, index_directories)
        relay |= found.relay
        for file in found.files:
            key = file.chain
            if key not in found.relay:
                named.add(key)
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
        raise SourceError(f"{', '.join(left)}: not a binary log")
    ignored.setdefault(next(iter(groups)), []).extend(left)
    chains = []
    for key, files in groups.items():
        if key not in indexes:
            files.sort(key=lambda file: (file.number is None, file.number or 0))
        kept, copies = _without_copies(files)
        left_out = (*ignored.get(key, ()), *copies)
        lost = tuple(dict.fromkeys(missing.get(key, ())))
        index = indexes.get(key, "")
        facts = (key[1], tuple(kept), left_out, lost, index, key[0])
        chains.append(Chain(*facts, is_relay_beside=key in relay - named))
    return named_apart(chains)


def beside_logs(path: str) -> bool:
    """Whether a path is a file that servers keep beside their logs: an index or state file."""
    return _BESIDE_LOGS.search(path) is not None


def log_name(path: str) -> str:
    """Return the base name of a log, as in ROTATE events and positions: no directory, no .gz.

    Bytes of a file's name that are not UTF-8 are escaped: results contain the name as text.
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
        logs = [match for match in matches if not beside_logs(match.path)]
        if not logs:
            raise SourceError(f"nothing matches {store.shown}")
        ignored = [match.path for match in matches if beside_logs(match.path)]
        return _Found(_sorted(_log_path(*match) for match in logs), ignored)
    if path.endswith(".index"):
        return _index_logs(store, index_directories)
    if beside_logs(path):  # a shell has expanded binlog.* to it
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
            hint="the names of logs are <base>.<six digits> or <base>-<six digits>.ibb; give the path of a file"
            " with another name",
        )
    return found


def _what_is_there(files: int) -> str:
    if not files:
        return ": it has no files"
    return ": its only file is not a log" if files == 1 else f": none of its {files} files is a log"


def _add_archive(found: _Found, store: Location) -> None:
    """Add the logs of a sub-directory, if it is an archive."""
    entries = store.entries()
    if any(log_name(entry.path) == ARCHIVE_STATE for entry in entries):
        _add_logs(found, entries)


def _add_logs(found: _Found, entries: Sequence[Listed]) -> None:
    """Add the logs of one directory, in order; other files are ignored."""
    names = [log_name(entry.path) for entry in entries]
    indexes = {name.removesuffix(".index") for name in names if name.endswith(".index")}
    logs = []
    for entry in entries:
        if _is_log(entry.path, indexes):
            logs.append(_log_path(*entry))
        else:
            found.ignored.append(entry.path)
    logs = _sorted(logs)
    found.files += logs
    found.relay |= _relay_logs(logs)


def _relay_logs(files: Sequence[LogPath]) -> set[tuple[str, str]]:
    """Return the chains of relay logs among the files of a directory, if it has binary logs, too: the data
    directory of a replica.
    """
    chains: dict[tuple[str, str], list[LogPath]] = {}
    for file in files:
        chains.setdefault(file.chain, []).append(file)
    if len(chains) < 2:
        return set()
    relay = {chain for chain, logs in chains.items() if _are_relay_logs(reversed(logs))}
    return relay if len(relay) < len(chains) else set()


def _are_relay_logs(newest_first: Iterable[LogPath]) -> bool:
    """Whether the newest log that has its first header is marked as a relay log."""
    for log in newest_first:
        try:
            return (
                _is_relay_log(log.path, log.version) if log.version else _has_relay_mark(log.path)
            )
        except _NoHeaderError:
            continue
        except SourceError:
            return False
    return False


class _NoHeaderError(Exception):
    """A log whose first header is not written yet."""


# streams and `serve` list their input every second or two, and the head of an object costs a request
@lru_cache(maxsize=256)
def _is_relay_log(path: str, _version: str) -> bool:
    """`_has_relay_mark` for a version of an object."""
    return _has_relay_mark(path)


def _has_relay_mark(path: str) -> bool:
    """Whether the first event of a log marks it as a relay log. Raises SourceError, _NoHeaderError."""
    with open_reader(path) as reader:
        head = reader.read_at(0, FIRST_EVENT + HEADER_BYTES)
    if len(head) < FIRST_EVENT + HEADER_BYTES:
        raise _NoHeaderError
    frame = read_frame(head, 0, FIRST_EVENT)
    is_begin = frame.type_code == FORMAT_DESCRIPTION_EVENT and head.startswith(BINLOG_MAGIC)
    return is_begin and bool(frame.flags & LOG_EVENT_RELAY_LOG_F)


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
    """Return the files of an index file, in its order.

    The writer of an index must not choose which files are opened. So binlake opens only regular
    files in the directory of the index and in `directories`. It looks for an absolute entry beside
    the index too, since a copied data directory keeps the paths of the server, and for an entry
    that has been compressed since. Raises SourceError.
    """
    files: list[LogPath] = []
    missing: list[str] = []
    # the index first: a log that the server begins in between would make the one before it look cut off
    entries = [os.fsdecode(line).strip(_ENTRY_SPACE) for line in store.read().split(b"\n")]
    beside = store.files_beside()
    below = location(store.shown.rpartition("/")[0] or ".")
    allowed = [location(local_path(directory)) for directory in directories]
    for entry in filter(None, dict.fromkeys(entries)):
        name = entry.replace("\\", "/").rpartition("/")[2]
        name = name.removesuffix(".gz").removesuffix(".zst")
        has_directory = "/" in entry.removeprefix("./")
        found = beside.get(name) or beside.get(f"{name}.gz") or beside.get(f"{name}.zst")
        if allowed or (found is None and has_directory):
            path = store.beside(entry)  # an absolute entry as it is
            other = (directory.regular_file(path) for directory in (*allowed, below))
            found = next(filter(None, other), None) or found
        if found is not None:
            files.append(_log_path(*found))
        elif name in beside or (has_directory and store.is_elsewhere(entry)):
            raise SourceError(
                f"{store.shown} names {entry}, which is not in the directory of the index file",
                hint="allow its directory with the option index_directory, or give the paths of the logs",
            )
        else:
            missing.append(entry)
    if not files and not missing:
        raise SourceError(f"the index file {store.shown} lists no log")
    return _Found(files, [], missing, store.shown)


def _log_path(path: str, size: int | None, version: str = "") -> LogPath:
    name = log_name(path)
    named = LogName.parse(name)
    return LogPath(path, name, None if named is None else named.number, size, version=version)


def _sorted(files: Iterable[LogPath]) -> list[LogPath]:
    return sorted(files, key=lambda file: (file.base, file.number or 0, file.name, file.path))


def _without_copies(files: list[LogPath]) -> tuple[list[LogPath], list[str]]:
    """Return one file per name, the uncompressed one first, and the paths of the others."""
    best: dict[str, LogPath] = {}
    for file in files:
        known = best.get(file.name)
        if known is None or (_COMPRESSED.search(known.path) and not _COMPRESSED.search(file.path)):
            best[file.name] = file
    kept = [file for file in files if best[file.name] is file]
    return kept, [file.path for file in files if best[file.name] is not file]
