"""The names of the chains of an input, for the option `source`.

A chain lies in a directory and has a base name. Its name is the shortest of these that
distinguishes it from the others of the input: the directory's own name, the base name,
`directory/base`, the whole path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from binlake.errors import OptionError
from binlake.source.replica.url import is_server_url

if TYPE_CHECKING:
    from binlake.source.chain import Chain

_MOST_NAMED = 10


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
