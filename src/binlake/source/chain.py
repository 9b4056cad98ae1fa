"""A chain: the log files of one base name in one place, in order, and the names by which users choose one of several.

A chain lies in a directory and has a base name. Its name, for the option `source`, is the shortest of these that
distinguishes it from the others of the input: the directory's own name, the base name,
`directory/base`, the whole path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from binlake.errors import OptionError
from binlake.source.replica.url import is_server_url
from binlake.values.builds import PickledByName
from binlake.values.log_names import LogName
from binlake.values.quantities import first_to_last

_MOST_NAMED = 10


@dataclass(frozen=True, slots=True)
class LogPath(PickledByName):
    """One log file: `path` as it is opened, `name` its base name without .gz or .zst.

    `number` is the numeric suffix (None if the name has none), `size` the length in bytes if it is
    known without opening the file. `source` is the name of its chain where the input has several, else "". `version` is that of the listing (`Listed`).
    """

    path: str
    name: str
    number: int | None = None
    size: int | None = None
    source: str = ""
    version: str = ""

    @property
    def base(self) -> str:
        """The name without its number: what `log_bin_basename` ends in."""
        named = LogName.parse(self.name)
        return self.name if named is None else named.base

    @property
    def chain(self) -> tuple[str, str]:
        """The common parts of the paths of its chain, and of no other: directory and base name."""
        return self.path.rpartition("/")[0], self.base

    @property
    def shown(self) -> str:
        """The name, after the name of its chain if there are several: `source/binlog.000001`."""
        return f"{self.source}/{self.name}" if self.source else self.name


@dataclass(frozen=True, slots=True)
class Chain:
    """Log files that follow one another, oldest first. `base` is their common name.

    `ignored` are paths that were found and left out: files of a directory that do not look like
    logs, and second copies of a log (binlog.000001.gz beside binlog.000001). `missing` are entries
    of `index`, an index file, that do not exist (`survey` only). `directory` is where the files
    lie. `source` identifies the chain among those of its input; "" if it is the only one.
    `is_relay_beside`: relay logs that a directory contains beside the binary logs of its server, which a
    read leaves out unless it names them.
    """

    base: str
    files: tuple[LogPath, ...]
    ignored: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    index: str = ""
    directory: str = ""
    source: str = ""
    is_relay_beside: bool = False

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(file.path for file in self.files)

    @property
    def names(self) -> tuple[str, ...]:
        """The base names of its files."""
        return tuple(file.name for file in self.files)

    @property
    def shown(self) -> str:
        """The files in the form that messages use."""
        return first_to_last(self.names)

    @property
    def known_bytes(self) -> int | None:
        """The total length of its files; None if the length of one is not known."""
        sizes = [file.size for file in self.files]
        return None if None in sizes else sum(size or 0 for size in sizes)

    def gap_before(self, ordinal: int) -> str:
        """Return a sentence about the logs missing between a file and the one before it, or "" if there are none."""
        if ordinal == 0:
            return ""
        after = self.files[ordinal]
        gap = range((self.files[ordinal - 1].number or 0) + 1, after.number or 0)
        if not gap:
            return ""
        return f"{names_in_gap(after.name, gap)} missing before {after.name}"


def names_in_gap(name: str, gap: range) -> str:
    """Return the files of a gap before the file `name`, as the subject of a sentence and its verb."""
    named = LogName.parse(name)
    assert named is not None, "only numbers have gaps"
    first, last = (named.numbered(number) for number in (gap[0], gap[-1]))
    return f"{first} is" if first == last else f"{first} to {last} are"


def named_apart(chains: Sequence[Chain]) -> list[Chain]:
    """Return the same chains; if there are several, each file has the name of its chain as
    `source`.
    """
    if len(chains) < 2:
        return list(chains)
    if len(own := without_relay_logs(chains)) == 1:  # it is read as if it were alone
        return [*own, *(_named(chain, chain.base) for chain in chains if chain.is_relay_beside)]
    for spelling in _SPELLINGS:
        names = [spelling(chain) for chain in chains]
        if len(set(names)) == len(names):
            break
    return [_named(chain, name) for chain, name in zip(chains, names, strict=True)]


def _named(chain: Chain, name: str) -> Chain:
    files = tuple(replace(file, source=name) for file in chain.files)
    return replace(chain, source=name, files=files)


def without_relay_logs(chains: Sequence[Chain]) -> list[Chain]:
    """Return the chains without relay logs beside binary logs."""
    return [chain for chain in chains if not chain.is_relay_beside]


def by_files_or_source(chain: Chain) -> str:
    """Return what to do to read a chain of relay logs, for a read that has the option `source`."""
    return f"name their files or set the option source to {chain.source}"


def about_relay_logs(
    chains: Sequence[Chain], remedy: Callable[[Chain], str] = by_files_or_source
) -> list[str]:
    """Return a sentence for each chain that `without_relay_logs` leaves out, with what to do to read it."""
    return [
        f"the relay logs {chain.base} in {chain.directory or '.'} are left out, because they contain the changes of"
        f" another server; to read them, {remedy(chain)}"
        for chain in chains
        if chain.is_relay_beside
    ]


def names_of(chain: Chain) -> set[str]:
    """Return all names that a user may give for a chain."""
    return {chain.source, chain.directory, *(spelling(chain) for spelling in _SPELLINGS)} - {""}


def of_source(chains: Sequence[Chain], source: str | None) -> list[Chain]:
    """Return the chains that the option `source` names; without it, all except relay logs beside binary logs.

    Raises OptionError.
    """
    if source is None:
        return without_relay_logs(chains)
    wanted = source.rstrip("/")
    exact = [chain for chain in chains if chain.source == wanted]
    found = exact or [chain for chain in chains if wanted in names_of(chain)]
    if not found:
        raise OptionError(
            f"option source: there is no source {source!r}",
            name="source",
            value=source,
            hint=f"there {'are' if len(chains) > 1 else 'is'} {_listed(chains)}",
        )
    return found


def several_sources(why: str, chains: Sequence[Chain], name: str) -> OptionError:
    """Return the error that asks for a source; `why` is the reason, `name` the option."""
    return OptionError(
        f"{why}, and the input has the logs of {len(chains)} sources",
        name=name,
        hint=f"set the option source to one of {_listed(chains)}",
    )


def _listed(chains: Sequence[Chain]) -> str:
    names = [chain.source or _by_base(chain) for chain in chains]
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _by_directory(chain: Chain) -> str:
    name = chain.directory.rpartition("/")[2]
    return (name.rpartition("@")[2] if is_server_url(chain.directory) else name) or "."


def _by_base(chain: Chain) -> str:
    return chain.base


def _by_both(chain: Chain) -> str:
    return f"{_by_directory(chain)}/{chain.base}"


def _by_path(chain: Chain) -> str:
    return f"{chain.directory}/{chain.base}"


_SPELLINGS: tuple[Callable[[Chain], str], ...] = (_by_directory, _by_base, _by_both, _by_path)
