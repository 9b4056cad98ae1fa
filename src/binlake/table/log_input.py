"""The logs that a command, or a `Log` of the Python API, reads: their paths are resolved once.

    logs = LogInput(paths, options)
    for reader in logs.readers(ledger): …
    for made in logs.changes(ledger, Target.TEXT, logs.schema(), shape): …

Commands use it instead of a `Log`, whose batches are typed: they show values as text while they read, and may stop
early.

To resolve the paths again would list directories or log in to a server again, and could find other files. A method
imports what it needs: finding the logs needs no pyarrow, whose import takes longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from binlake.source.chain import Chain, about_relay_logs
from binlake.source.resolve import resolve
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions

if TYPE_CHECKING:
    from binlake.stream.log_reader import LogReader
    from binlake.table.batches import Changes
    from binlake.table.schema.declared import DeclaredSchema
    from binlake.table.types.base import Target

T = TypeVar("T")


class LogInput:
    """Paths as a user gives them, and the options of a read of their logs.

    The paths are resolved when the logs are first used. All methods raise SourceError for a path without logs, and
    OptionError for options that do not fit the logs.
    """

    def __init__(self, paths: Sequence[str], options: ReadOptions) -> None:
        self.paths = tuple(paths)
        self.options = options

    @cached_property
    def _resolved(self) -> tuple[Chain, ...]:
        return tuple(resolve(self.paths, self.options.index_directory))

    @cached_property
    def found(self) -> tuple[Chain, ...]:
        """The chains that the paths mean, as `wanted_chains` of `chosen_chains`."""
        from binlake.stream.positions.chosen_chains import wanted_chains

        return tuple(wanted_chains(self._resolved, self.options))

    @cached_property
    def _chosen(self) -> tuple[tuple[Chain, ...], tuple[str, ...]]:
        from binlake.stream.positions.chosen_chains import chosen_chains

        left = [chain for chain in self._resolved if chain not in self.found]
        said = [] if self.options.source is not None else about_relay_logs(left)
        return tuple(chosen_chains(self.found, self.options, said.append)), tuple(said)

    @property
    def chains(self) -> tuple[Chain, ...]:
        """The chains to read: all that were found, or the one that a position or GTID means."""
        return self._chosen[0]

    @property
    def remarks(self) -> tuple[str, ...]:
        """Messages about chains that are not read: because of a position or a GTID, or as relay logs."""
        return self._chosen[1]

    def only(self, why: str) -> Chain:
        """Return the chain to read, if there is one only. Raises OptionError with a message that begins with `why`."""
        from binlake.stream.positions.chosen_chains import the_only_chain

        return the_only_chain(self.chains, why)

    def with_options(self, options: ReadOptions) -> LogInput:
        """Return the same chains for a read with other options, which choose no other chains."""
        same = LogInput(self.paths, options)
        same.found, same._chosen = self.found, self._chosen
        return same

    def again(self) -> LogInput:
        """Return an input whose paths are resolved again, for logs that have grown since."""
        return LogInput(self.paths, self.options)

    def schema(self) -> DeclaredSchema:
        """Return the declared tables: those of the option schema, and of the server whose logs are read.

        Raises SchemaError.
        """
        from binlake.table.schema.schema_file import declared_schema

        return declared_schema(self.options, self.paths)

    def readers(self, ledger: Ledger) -> Iterator[LogReader]:
        """Return a reader for each chain, as `LogReader.of_chains`. Raises BinlogError."""
        from binlake.stream.log_reader import LogReader

        return LogReader.of_chains(self.chains, self.options, ledger)

    def changes(
        self, ledger: Ledger, target: Target, schema: DeclaredSchema, shape: Callable[[Changes], T]
    ) -> Iterator[T]:
        """Yield the row changes of all chains, as `read_changes`. Raises BinlogError."""
        from binlake.table.reading import read_changes

        return read_changes(self.chains, self.options, ledger, target, schema, shape)
