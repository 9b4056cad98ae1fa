"""Which tables of the server a mirror follows: those of its options, and what users have changed since.

    selection = TableSelection.of(options, added=("shop.returns",), removed=("shop.tmp_*",))
    selection.wants("shop", "returns")

A removed table is not followed, whatever else matches it. An added one is followed unless --exclude-table
excludes it: the reads of the log leave such a table out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from binlake.errors import OptionError
from binlake.mirror.options import MirrorOptions
from binlake.mirror.table_patterns import TablePatterns, patterns_of
from binlake.mirror.table_rules import parse_rename
from binlake.values.option_texts import parse_table_pattern
from binlake.values.quantities import counted
from binlake.values.similar_names import did_you_mean
from binlake.values.table_names import full_name_of, table_name

_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class TableSelection:
    """Patterns of table names, as in the option --table, see `table_patterns`."""

    tables: tuple[str, ...]
    exclude_tables: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, options: MirrorOptions, added: tuple[str, ...] = (), removed: tuple[str, ...] = ()
    ) -> TableSelection:
        """The tables of the options, with those that users have added and removed."""
        return cls(options.tables, options.exclude_tables, added, removed)

    def wants(self, database: str, table: str) -> bool:
        """Whether the mirror follows a table of this name."""
        if patterns_of((*self.exclude_tables, *self.removed)).match(database, table):
            return False
        return not self.tables or patterns_of((*self.tables, *self.added)).match(database, table)


class LakeNamespaces:
    """The namespaces that tables of a mirror can be in, as a container of names.

    These are the namespaces of all tables that its options select and of those that match `more` patterns, also while their
    first copy is not complete or after they were removed, and `others`. Tables of other programs can be in the same ones.
    """

    def __init__(
        self, options: MirrorOptions, more: Iterable[str] = (), others: Iterable[str] = ()
    ) -> None:
        databases = [table_name(text)[0] for text in (*(options.tables or ("*.*",)), *more)]
        renamed = [
            parse_rename(text).of("*", "*")[0]
            for text in (*options.shard_tables, *options.rename_tables)
        ]
        found = {*databases, *renamed, *others}
        self._patterns = TablePatterns(full_name_of(name, "*") for name in found)

    def __contains__(self, namespace: object) -> bool:
        return isinstance(namespace, str) and self._patterns.match(namespace, "")


def checked_patterns(patterns: Sequence[str]) -> set[str]:
    """Return patterns of table names. Raises OptionError for one that is none, and if there are none."""
    if isinstance(patterns, str) or not patterns:
        raise OptionError(f"expected patterns of table names, not {patterns!r}", name="tables")
    for text in patterns:
        try:
            parse_table_pattern(text)
        except ValueError as error:
            raise OptionError(f"table {text!r}: {error}", name="tables", value=text) from None
    return set(patterns)


def check_addition(patterns: set[str], selection: TableSelection) -> None:
    """Raise OptionError for a pattern to add that something still excludes."""
    for pattern in sorted(patterns):
        for excluding in selection.exclude_tables:
            if matches(excluding, pattern):
                raise OptionError(
                    f"table {pattern}: --exclude-table {excluding} excludes it",
                    name="tables",
                    value=pattern,
                    hint="start the mirror without that option",
                )
        for excluding in {*selection.removed} - patterns:
            if matches(excluding, pattern):
                raise OptionError(
                    f"table {pattern}: {excluding} is removed, and matches it",
                    name="tables",
                    value=pattern,
                    hint=f"add {excluding!r}",
                )


def check_not_removed(names: Iterable[str], removed: Collection[str]) -> None:
    """Raise OptionError for the name of a table that a `removed` pattern matches."""
    for name in sorted(names):
        for pattern in removed:
            if matches(pattern, name):
                raise OptionError(
                    f"table {name}: {pattern} is removed"
                    + ("" if pattern == name else ", and matches it"),
                    name="tables",
                    value=name,
                    hint=f"`binlake mirror add LAKE {pattern!r}` follows it again, and copies it",
                )


def is_pattern(text: str) -> bool:
    """Whether a text that names tables has wildcards; else it is the name of one table."""
    return "*" in text or "?" in text


def check_known(texts: Iterable[str], known: Collection[str]) -> None:
    """Raise OptionError for a name without wildcards that is not one of the `known` tables."""
    for text in unknown_names(texts, known):
        raise _unknown(f"the mirror has no table {text}", text, known)


def check_not_merged(
    texts: Iterable[str], known: Collection[str], merged: Callable[[], Mapping[str, Sequence[str]]]
) -> None:
    """Raise OptionError for a name or a pattern that stands for a lake table of shards, and for none of the `known` tables of the
    server. `merged` returns the shards of each such lake table; it is called only for texts that match no known table.
    """
    unknown = [text for text in sorted(texts) if not any(matches(text, name) for name in known)]
    if not unknown:
        return
    for lake_table, shards in sorted(merged().items()):
        for text in unknown:
            if matches(text, lake_table):
                few = ", ".join([*shards[:_MOST_NAMED], *("…" for _ in shards[_MOST_NAMED:][:1])])
                raise OptionError(
                    f"{lake_table} is merged from {few}",
                    name="tables",
                    value=text,
                    hint="name these tables, or a pattern that matches them",
                )


def chosen_tables(texts: Sequence[str], known: Collection[str]) -> set[str]:
    """Return the `known` tables that names and patterns stand for; all of them without texts.

    Raises OptionError for a name that is not known, and for a pattern that matches none.
    """
    if not texts:
        return {*known}
    check_known(texts, known)
    return {name for text in texts for name in _chosen(text, known)}


def _chosen(text: str, known: Collection[str]) -> set[str]:
    """Return the tables that one name or pattern stands for."""
    if not is_pattern(text):
        return {text}
    found = {name for name in known if matches(text, name)}
    if not found:
        raise _unknown(f"{text} matches no table of the mirror", text, known)
    return found


def _unknown(message: str, text: str, known: Collection[str]) -> OptionError:
    """The error for a text that stands for no table."""
    hint = f"{question_about(text, known)} `binlake mirror status` lists the tables"
    return OptionError(message, name="tables", value=text, hint=hint.lstrip())


def check_selects(
    selection: TableSelection,
    visible: Collection[str],
    views: Callable[[], Collection[str]] = tuple,
) -> None:
    """Raise OptionError if the mirror would follow none of the `visible` tables: those that its user sees on the server. `views` returns
    the views, which may be meant.
    """
    if any(selection.wants(*table_name(name)) for name in visible):
        return
    wanted = (*(selection.tables or ("*.*",)), *selection.added)
    left_out = (*selection.exclude_tables, *selection.removed)
    but = f" and does not match {', '.join(left_out)}" if left_out else ""
    question = view_instead(wanted, views())
    if not question:
        question = next(filter(None, (question_about(text, visible) for text in wanted)), "")
    seen = "the user of the URL sees no table: it needs SELECT on the tables"
    if visible:
        seen = (
            f"the user of the URL sees {counted(len(visible), 'table')}, for example {min(visible)}, "
            "and needs SELECT on those to be mirrored"
        )
    raise OptionError(
        f"the server has no table that matches {', '.join(wanted)}{but}",
        name="tables",
        value=wanted,
        hint=f"{question} {seen}".lstrip(),
    )


def view_instead(patterns: Iterable[str], views: Collection[str]) -> str:
    """Return a clause about a view that one of the patterns matches, with a semicolon; "" if there is none."""
    found = sorted(name for name in views if any(matches(one, name) for one in patterns))
    return f"{found[0]} is a view, and a mirror copies tables only;" if found else ""


def question_about(text: str, known: Collection[str]) -> str:
    """Return a question with the known tables that resemble a name or a pattern that matches none; "" if there are none.

    For a pattern, these are also the patterns of all tables of a database.
    """
    texts = {*known}
    if is_pattern(text):
        texts |= {full_name_of(table_name(name)[0], "*") for name in known}
    return did_you_mean(text, sorted(texts), most=3)


def unknown_names(texts: Iterable[str], known: Collection[str]) -> dict[str, str]:
    """Return the names without wildcards that are not `known` tables, and for each of them a question with the known
    names that are similar, which is empty if there are none.
    """
    unknown = [text for text in sorted(texts) if not is_pattern(text) and text not in known]
    return {text: question_about(text, known) for text in unknown}


def matches(pattern: str, full_name: str) -> bool:
    """Whether a pattern matches a table, whose text `full_name_of` has made."""
    return patterns_of((pattern,)).match(*table_name(full_name))
