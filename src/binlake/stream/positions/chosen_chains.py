"""Decide which of several chains of logs a read means.

Files of different servers, or of different histories of one server, have the same names, and a
position or a GTID does not identify its source. So a read by position reads the one chain that has
the file, and a read by GTID the one that holds a transaction of the set. If several do, the option
`source` has to name one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from binlake.errors import BinlogError, OptionError
from binlake.format.magic import BINLOG_MAGIC, ENCRYPTED_MAGIC, FIRST_EVENT
from binlake.source.access import Access
from binlake.source.bytes import is_uri, local_path, open_reader, pipe_in
from binlake.source.chain import Chain, LogPath, names_of, of_source, several_sources
from binlake.source.replica.url import is_server_url
from binlake.stream.positions.gtid_search import holds_any
from binlake.values.gtid_filter import parse_gtid_filter
from binlake.values.option_texts import parse_at
from binlake.values.options import ReadOptions
from binlake.values.position import FilePosition


def chosen_chains(
    chains: Sequence[Chain],
    options: ReadOptions,
    say: Callable[[str], object] = lambda _: None,
) -> list[Chain]:
    """Return the chains that a read with these options means, in their order. `say` receives a
    message about chains that are excluded because of a position or a GTID.

    Raises OptionError if several chains match, if none has the file, and if the file ends before a
    position where the read should start.
    """
    chains = wanted_chains(chains, options)
    chosen = chains
    positions = list(_positions(options))
    for name, place in positions:
        if len(chains) > 1:
            having = _having(name, place, chains)
            chosen = [chain for chain in chosen if chain in having]
            if not chosen:
                raise OptionError(
                    "options start and stop are positions in the logs of different sources",
                    name=name,
                )
    if len(chosen) > 1 and positions:
        name, place = positions[0]
        raise several_sources(f"position {place} does not name one source", chosen, name)
    for name, place in positions:
        if name != "stop":
            _check_inside(name, place, chosen[0])
    if len(chosen) > 1:
        for name, text in _gtids(options):
            chosen = _holding(name, text, chosen, options)
    if len(chosen) < len(chains):
        say(only_read(chosen))
    return chosen


def wanted_chains(chains: Sequence[Chain], options: ReadOptions) -> list[Chain]:
    """Return the chains of the option `source`. Without it, return all except relay logs beside binary logs; but relay logs
    that a position names are wanted. Raises OptionError.
    """
    wanted = of_source(chains, options.source)
    if options.source is not None:
        return wanted
    files = {place.file for _, place in _positions(options)}
    files -= {name for chain in wanted for name in chain.names}
    return [chain for chain in chains if chain in wanted or not files.isdisjoint(chain.names)]


def only_read(chosen: Sequence[Chain]) -> str:
    """Return the message that a position or a GTID belongs to one chain, so that the others are
    excluded.
    """
    return f"reading the logs of {chosen[0].source} only: no other source has this position or GTID"


def the_only_chain(chains: Sequence[Chain], why: str, name: str = "FILE") -> Chain:
    """Return the chain, if there is one. Raises OptionError with a message that begins with `why`."""
    if len(chains) > 1:
        raise several_sources(why, chains, name)
    return chains[0]


def _positions(options: ReadOptions) -> Iterator[tuple[str, FilePosition]]:
    """The options that are positions."""
    if options.start is not None:
        yield "start", options.start
    if options.stop is not None:
        yield "stop", options.stop
    if options.at is not None:
        place = parse_at(options.at)
        if isinstance(place, FilePosition):
            yield "at", place


def _gtids(options: ReadOptions) -> Iterator[tuple[str, str]]:
    """The options that choose transactions by GTID."""
    if options.at is not None and not isinstance(parse_at(options.at), FilePosition):
        yield "at", options.at
    if options.gtid is not None:
        yield "gtid", options.gtid


def _having(name: str, position: FilePosition, chains: Sequence[Chain]) -> list[Chain]:
    """Return the chains that can contain a position. Raises OptionError if there is none."""
    if not position.file:
        return list(chains)
    having = [chain for chain in chains if position.file in chain.names]
    if not having:
        raise OptionError(
            f"option {name}: the input has no file {position.file}",
            name=name,
            value=str(position),
            hint="they are " + ", ".join(f"{chain.source}/{chain.shown}" for chain in chains),
        )
    if position.directory:
        return [chain for chain in having if _lies_in(chain, position.directory)] or having
    return having


def _check_inside(name: str, position: FilePosition, chain: Chain) -> None:
    """Raise OptionError if the file ends before a position.

    The log is then another one, or has lost its end, and the read would start with the next file
    without a word.
    """
    for file in chain.files if position.file else chain.files[:1]:
        length = _length(file) if position.file in ("", file.name) else None
        if length is not None and position.offset > length:
            raise OptionError(
                f"option {name}: {file.shown} ends at {length}, before {position.offset}",
                name=name,
                value=str(position),
                hint="check the position, and whether this is the log that it belongs to",
            )


def _length(file: LogPath) -> int | None:
    """Return the length of a log whose positions are offsets in the file. None for other logs: a
    pipe cannot be read twice, and a compressed file would have to be inflated. Raises SourceError.
    """
    if is_server_url(file.path):
        return file.size
    if file.path == "-" or not (is_uri(file.path) or Path(local_path(file.path)).is_file()):
        return None
    reader = open_reader(local_path(file.path), file.size)
    try:
        begins = reader.read_at(0, FIRST_EVENT)
        return reader.size if begins in (BINLOG_MAGIC, ENCRYPTED_MAGIC) else None
    finally:
        reader.close()


def _lies_in(chain: Chain, directory: str) -> bool:
    """Whether a user may call a chain's directory that."""
    return directory in names_of(chain) or chain.directory.endswith(f"/{directory}")


def _holding(name: str, text: str, chains: Sequence[Chain], options: ReadOptions) -> list[Chain]:
    """Return the one chain that holds a transaction of a set, or all if none does. Raises
    OptionError.
    """
    wanted, access = parse_gtid_filter(text), Access.of(options)
    holding = [
        chain for chain in chains if _may_hold(chain, lambda c: holds_any(c, wanted, access))
    ]
    if len(holding) > 1:
        raise several_sources(f"transactions of {text} are in the logs of several", holding, name)
    return holding or list(chains)


def _may_hold(chain: Chain, holds: Callable[[Chain], bool]) -> bool:
    """Whether a chain holds such a transaction, as far as a damaged one can be read."""
    if pipe_in(chain.paths) is not None:
        return True  # it cannot be read twice
    try:
        return holds(chain)
    except BinlogError:
        return True
