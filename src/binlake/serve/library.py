"""The served logs: one chain of files that may grow, and facts about the whole chain.

`chain` is updated whenever the directory or its last file changes, so a running `archive` (or
server) may add events and files, and remove old files. Threads that wait for more are woken: one
thread checks modification time and size, with a few system calls each time; the threads of
replicas check nothing themselves.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from binlake.errors import BinlogError, OptionError, SourceError
from binlake.events.mariadb.gtid_list import GtidListEvent
from binlake.events.mysql.previous_gtids import PreviousGtidsEvent
from binlake.format.event_types import GTID_LOG_EVENT, GTID_TAGGED_LOG_EVENT
from binlake.source.access import Access
from binlake.source.bytes import is_uri, local_path
from binlake.source.chain import Chain, LogPath, without_relay_logs
from binlake.source.keyring import Keyring
from binlake.source.locations import location
from binlake.source.log_file import LogFile
from binlake.source.reader import without_secrets
from binlake.source.replica.url import is_server_url
from binlake.source.resolve import survey
from binlake.stream.positions.gtid_search import AnyGtidSet, executed, head_event
from binlake.values.frame import EventFormat
from binlake.values.gtid import GtidSet, MariaGtidIntervals

# An object store is asked for its list of files less often than a directory for its time.
_REMOTE_POLL_SECONDS = 2.0
_LIST_SECONDS = 1.0
_WINDOW_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Head:
    """The content of the beginning of a file: its format, and the GTIDs executed before it.

    `before` is a PreviousGtidsEvent, a GtidListEvent, or None if the file does not record them.
    """

    format: EventFormat
    before: PreviousGtidsEvent | GtidListEvent | None


class Library:
    """The files of one server, oldest first. Safe to use from many threads.

    `problem` is the reason why the last look at the files failed, empty if it did not.
    `start` begins to watch, `stop` ends it and wakes all that wait.
    """

    def __init__(
        self,
        path: str,
        source: str = "",
        keyring: Keyring | None = None,
        poll_seconds: float = 0.02,
    ) -> None:
        """Raise SourceError and OptionError if `path` is not one chain of logs."""
        self.path, self.chain = _find(local_path(path), source)
        self.access = Access(keyring)
        self.version = 0
        self.problem = ""
        self._poll_seconds = _REMOTE_POLL_SECONDS if is_uri(self.path) else poll_seconds
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._watcher: threading.Thread | None = None
        self._heads: dict[str, Head] = {}
        self._compressed_sizes: dict[str, int] = {}
        self._executed: tuple[tuple[str, int | None], AnyGtidSet] | None = None
        self._signs = self._look()
        newest = self._newest_head()
        if newest is None:
            raise SourceError(f"{self.path}: no log contains a complete first event")
        self.flavour = newest.format.flavour
        self._refuse_relay_logs()

    # -- files -------------------------------------------------------------------------------------

    def find(self, name: str) -> LogPath | None:
        """Return the file of that base name; a name can mean no other file."""
        return next((file for file in self.chain.files if file.name == name), None)

    def after(self, chain: Chain, name: str) -> LogPath | None:
        """The file that follows `name` in `chain`, None if it is the last."""
        names = chain.names
        at = names.index(name) + 1 if name in names else len(names)
        return chain.files[at] if at < len(names) else None

    def open(self, file: LogPath) -> LogFile:
        """Open one of the files as long as it is now. Raises BinlogError."""
        try:
            return self.access.open(file.path)
        except SourceError:  # perhaps just compressed: the same log at another path
            self._refresh()
            again = self.find(file.name)
            if again is None or again.path == file.path:
                raise
            return self.access.open(again.path)

    def size(self, file: LogPath) -> int:
        """Return the length of a log, as positions count. Raises BinlogError."""
        known = self._compressed_sizes.get(file.path)
        if known is not None:
            return known
        with self.open(file) as log:
            size = log.size
            if size is None:
                for _ in log.windows(verify=False):  # its length is known only at its end
                    pass
                size = self._compressed_sizes[file.path] = log.reader.size or 0
            return size

    def head(self, file: LogPath) -> Head | None:
        """Return the content of its beginning; None while that is incomplete. Raises BinlogError."""
        known = self._heads.get(file.name)
        if known is not None:
            return known
        with self.open(file) as log:
            if log.format is None:
                return None
            before = head_event(log)
            head = Head(log.format, before)
        if before is not None or self.after(self.chain, file.name) is not None:
            self._heads[file.name] = head
        return head

    # -- as a whole --------------------------------------------------------------------------------

    @property
    def format(self) -> EventFormat:
        """The format of the newest file whose beginning is there."""
        head = self._newest_head()
        if head is None:
            raise SourceError(f"{self.path}: its logs no longer exist")
        return head.format

    def executed(self) -> AnyGtidSet:
        """All GTIDs up to the end of the last file, and before the first. Raises BinlogError."""
        last = self.chain.files[-1]
        key = (last.name, _size_of(last))
        if self._executed is None or self._executed[0] != key:
            self._executed = (key, executed(self.chain, self.access))
        found = self._executed[1]
        if self.flavour == "mariadb" and not found:
            return MariaGtidIntervals()
        return found

    def purged(self) -> GtidSet:
        """The GTIDs executed before the first file (MySQL). Raises BinlogError."""
        head = self.head(self.chain.files[0])
        before = None if head is None else head.before
        return before.gtids if isinstance(before, PreviousGtidsEvent) else GtidSet()

    def has_gtids(self) -> bool:
        """Whether the newest transaction has a GTID (MySQL's gtid_mode=ON). Raises BinlogError."""
        for file in reversed(self.chain.files):
            with self.open(file) as log:
                for window in log.windows(verify=False, window_bytes=_WINDOW_BYTES):
                    codes = set(bytes(window.block.type_code[: len(window)]))
                    if codes & {GTID_LOG_EVENT, GTID_TAGGED_LOG_EVENT}:
                        return True
                    if codes - {15, 35, 4, 3}:
                        return False
            head = self.head(file)
            if head and isinstance(head.before, PreviousGtidsEvent) and head.before.gtids:
                return True
        return False

    # -- growth ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to watch the files."""
        self._watcher = threading.Thread(target=self._watch, name="binlake-watch", daemon=True)
        self._watcher.start()

    def stop(self) -> None:
        """Stop watching; `wait` does not wait any more."""
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()
        if self._watcher is not None:
            self._watcher.join()

    def wait(self, seen: int, seconds: float) -> None:
        """Return when `version` is not `seen`, after `seconds`, or when watching ends."""
        with self._changed:
            self._changed.wait_for(
                lambda: self.version != seen or self._stopping.is_set(), timeout=seconds
            )

    def _watch(self) -> None:
        listed_at = time.monotonic()
        while not self._stopping.wait(self._poll_seconds):
            try:
                listed_at = self._follow(listed_at)
                self.problem = ""
            except (BinlogError, OSError) as error:
                # a directory that cannot be read just now (unmounted) may come back
                self.problem = f"cannot read the archive: {error}"

    def _follow(self, listed_at: float) -> float:
        """Notice changes of the files since the listing at a time; return the time of the newest."""
        signs, now = self._look(), time.monotonic()
        # two changes within one tick of the file system's clock look like one
        if signs == self._signs and now - listed_at < _LIST_SECONDS:
            return listed_at
        if self._refresh() or signs != self._signs:
            self._signs = signs
            with self._changed:
                self.version += 1
                self._changed.notify_all()
        return now

    def _look(self) -> object:
        """Return a cheap fingerprint that differs after a change."""
        if is_uri(self.path):
            return tuple(survey([self.path])[0].files)
        named = Path(self.path)
        directory = named if named.is_dir() else named.parent  # an index file, or a glob
        last = Path(self.chain.files[-1].path)
        sizes = last.stat().st_size if last.exists() else -1
        index = named.stat().st_mtime_ns if named.is_file() else 0
        return directory.stat().st_mtime_ns, index, sizes

    def _refresh(self) -> bool:
        """List the files again; return whether they have changed."""
        chain = _the_chain(without_relay_logs(survey([self.path])), self.path)
        before, self.chain = self.chain, chain
        if before.names[-1] not in chain.names:  # RESET: the same names start again
            self._heads.clear()
            self._compressed_sizes.clear()
            self._executed = None
        return chain.paths != before.paths

    def _newest_head(self) -> Head | None:
        for file in reversed(self.chain.files):
            head = self.head(file)
            if head is not None:
                return head
        return None

    def _refuse_relay_logs(self) -> None:
        with self.open(self.chain.files[-1]) as log:
            if log.is_relay:
                raise OptionError(
                    f"{self.path} contains relay logs, whose positions belong to another server",
                    hint="serve the binary logs of a server",
                )


def _find(path: str, source: str) -> tuple[str, Chain]:
    """Return the path and chain that `path` means: its own, or the path and chain of the one server below it."""
    if is_server_url(path):
        raise OptionError(
            f"{without_secrets(path)} is a live server; let replicas follow it directly",
            hint="use binlake archive to copy its logs to a directory, and serve that",
        )
    below = _servers_below(path)
    if not below:
        chain = _the_chain(without_relay_logs(survey([path])), path)
        if source:
            raise OptionError(
                f"{path} is not an archive of several servers",
                name="source",
                hint="omit the option, or name the directory that contains a directory for each server",
            )
        return path, chain
    if source:
        if source not in below:
            raise OptionError(
                f"{path} has no server {source!r}", name="source", hint=_one_of(below)
            )
        return _find(below[source], "")
    if len(below) > 1:
        raise OptionError(
            f"{path} contains the logs of {len(below)} servers",
            name="source",
            hint=f"set --source to {_one_of(below)}",
        )
    # its own directory, because that is the one to watch
    [only] = below.values()
    return _find(only, "")


def _servers_below(path: str) -> dict[str, str]:
    """Return the directories below one that contain logs, as `archive` makes them for each server;
    none if it has logs itself.
    """
    store = location(path)
    if store.kind() != "directory":
        return {}
    directories = store.directories()
    with suppress(SourceError):
        files = [file for chain in survey([path]) for file in chain.files]
        if any(file.path.rpartition("/")[0] not in directories for file in files):
            return {}
    found = {}
    for directory in directories:
        with suppress(SourceError):
            survey([directory])
            found[directory.rpartition("/")[2]] = directory
    return found


def _one_of(names: dict[str, str]) -> str:
    return "one of " + ", ".join(names)


def _the_chain(chains: list[Chain], path: str) -> Chain:
    chains = [chain for chain in chains if chain.files] or chains
    if len(chains) > 1:
        bases = ", ".join(chain.base for chain in chains)
        raise OptionError(
            f"{path} contains {len(chains)} chains of logs: {bases}",
            hint="give its index file or a glob: 'DIR/binlog.*'",
        )
    if not chains[0].files:
        raise SourceError(f"{path} does not name an existing log")
    return chains[0]


def _size_of(file: LogPath) -> int | None:
    with suppress(OSError):
        return Path(file.path).stat().st_size
    return file.size
