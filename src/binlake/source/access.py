"""The keys and the memory limit with which a read opens its logs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from binlake.source.chain import LogPath
from binlake.source.keyring import Keyring
from binlake.source.log_file import LogFile
from binlake.source.stores.heads import ObjectHeads
from binlake.values.frame import DEFAULT_MAX_MEMORY
from binlake.values.options import ReadOptions


@dataclass(frozen=True, slots=True)
class Access:
    """Opens all logs of a read in the same way. `keyring` opens encrypted ones; `max_memory` is
    the option of that name, in bytes. `heads` keeps the beginnings of objects for callers that
    open them repeatedly. Picklable without `heads`.
    """

    keyring: Keyring | None = None
    max_memory: int = DEFAULT_MAX_MEMORY
    heads: ObjectHeads | None = None

    @classmethod
    def of(cls, options: ReadOptions) -> Self:
        """The access that the options describe. Raises OptionError."""
        return cls(Keyring.of(options), options.max_memory)

    def expect_keyring(self) -> None:
        """Raise SourceError if a keyring is named and does not exist, even if no log is encrypted."""
        if self.keyring is not None:
            self.keyring.expect_file()

    def open(
        self,
        path: str | LogPath,
        ordinal: int = 0,
        start: int = 0,
        before: Callable[[], LogFile] | None = None,
    ) -> LogFile:
        """Open a log as `LogFile.open` does."""
        kept = None
        if self.heads is not None and isinstance(path, LogPath) and path.version:
            kept = self.heads.of(path.path, path.version)
        return LogFile.open(path, ordinal, None, self.keyring, start, self.max_memory, kept, before)


#: Without keys, and with the default of max_memory.
DEFAULT_ACCESS = Access()
