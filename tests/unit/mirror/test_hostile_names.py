"""A mirror of a server whose tables have hostile names, or that answers differently each time."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

pytest.importorskip("pymysql")

from binlake.errors import BinlogError, SchemaError, ServerError, UnsupportedError
from binlake.mirror.followed.table import Followed
from binlake.mirror.followed.wanted import WantedTables
from binlake.mirror.options import MirrorOptions
from binlake.mirror.source.host import SourceHost
from binlake.mirror.table_rules import check_lake_name
from binlake.snapshot.tables import SourceTable
from binlake.values.gtid import GtidSet
from binlake.values.table_filter import TableFilter
from binlake.values.table_names import full_name_of, table_name
from support.servers.fake_server import OK, Conversation, fake_server
from support.servers.source_tables import source_tables

HOSTILE = (
    "", ".", "..", "../evil", "../../tmp/evil", "/tmp/evil", "a/b", "a\\b", "a\nb", "\x1b[2Jx", "a\tb", "a:b", "a*",
    "{a,b}", "a%2fb", "a#b", "a\u202eb", "a\x7f", "é" * 130,
)  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_names_that_are_no_directories_are_refused(name: str) -> None:
    for names in ((name, "t"), ("shop", name)):
        with pytest.raises(UnsupportedError, match="the lake cannot have a table") as error:
            check_lake_name(*names)
        assert "\n" not in str(error.value)
        assert "\x1b" not in str(error.value)


def test_the_namespace_of_the_mirror_is_refused() -> None:
    for namespace in ("_binlake", "_BINLAKE", "_binlake2"):
        with pytest.raises(UnsupportedError, match="belongs to the mirror"):
            check_lake_name(namespace, "rounds")


def test_files_of_the_mirror_beside_its_row_indexes_are_refused() -> None:
    """A directory of indexes cannot have their names."""
    for namespace in ("mirror.lock", "Mirror.Staging", "pulse.json", f"{'0' * 32}.copy.jsonl"):
        with pytest.raises(UnsupportedError, match="a file of the mirror has the name"):
            check_lake_name(namespace, "t")


@pytest.mark.parametrize(
    "name", ["t", "order items", "日本", "a.b", "a-b", "..a", "`x`", "$t", "'", "a;b"]
)
def test_other_names_are_accepted(name: str) -> None:
    check_lake_name("shop", name)


Answers = Callable[[str], "tuple[tuple[str, ...], ...] | None"]


@contextmanager
def answering(answers: Answers) -> Iterator[str]:
    """The URL of a server that answers a query with these rows, and all others with OK."""

    def talk(conversation: Conversation) -> None:
        conversation.login()
        while command := conversation.hear():
            rows = answers(command[1:].decode("utf-8", "replace"))
            if rows is None:
                conversation.send(OK, 1)
            else:
                conversation.result(*rows)

    with fake_server(talk) as (port, _):
        yield f"mysql://ada:pw@127.0.0.1:{port}/?ssl-mode=disabled&option-file=none"


def one_table(create: Callable[[], str], database: str = "shop", name: str = "t") -> Answers:
    def answers(sql: str) -> tuple[tuple[str, ...], ...] | None:
        if sql.startswith("SHOW CREATE TABLE"):
            return ((name, create()),)
        if "ENGINE" in sql:
            return ((database, name, "InnoDB", "5", "40"),)
        if "information_schema.TABLES" in sql:
            return ((database, name),)
        if sql.startswith("SHOW KEYS"):
            return None
        return None

    return answers


CREATE = "CREATE TABLE `{}` (`id` int NOT NULL, `v` {} DEFAULT NULL) ENGINE=InnoDB"


def test_a_definition_of_another_table_is_refused() -> None:
    with (
        answering(one_table(lambda: CREATE.format("other", "int"))) as url,
        pytest.raises(ServerError, match="definition of other instead of t"),
    ):
        source_tables(url)


def test_a_definition_of_5000_columns_is_refused_quickly() -> None:
    columns = ", ".join(f"`c{n}` int" for n in range(5000))
    begun = time.process_time()
    with (
        answering(one_table(lambda: f"CREATE TABLE `t` ({columns})")) as url,
        pytest.raises(BinlogError),
    ):
        source_tables(url)
    assert time.process_time() - begun < 10


@pytest.mark.parametrize(
    "text", ["", "no definition", "CREATE VIEW v AS SELECT 1", "CREATE TABLE `t` (", "\0"]
)
def test_an_invalid_definition_is_refused(text: str) -> None:
    with answering(one_table(lambda: text)) as url, pytest.raises((SchemaError, UnsupportedError)):
        source_tables(url)


def wanted(url: str) -> WantedTables:
    return WantedTables(SourceHost(url), MirrorOptions(tables=("*.*",)))


def test_a_definition_that_changes_with_each_answer_is_refused() -> None:
    """The types would be those of one answer, and the definition in the lake that of another."""
    kinds = itertools.cycle(["int", "varchar(10) CHARACTER SET utf8mb4"])
    with (
        answering(one_table(lambda: CREATE.format("t", next(kinds)))) as url,
        pytest.raises(ServerError, match="altered while its definition was read"),
    ):
        wanted(url).read(("shop", "t"))


@pytest.mark.parametrize(
    ("database", "name"),
    [("shop", "../../evil"), ("..", "t"), ("a.b", "t"), ("_binlake", "rounds")],
)
def test_a_table_with_a_hostile_name_is_not_read(database: str, name: str) -> None:
    """The error concerns this table only: the mirror quarantines it, and follows the others."""
    answers = one_table(lambda: CREATE.format(name, "int"), database, name)
    with answering(answers) as url, pytest.raises(UnsupportedError):
        wanted(url).read((database, name))


def test_tables_whose_joined_names_are_equal() -> None:
    """The table `c` of the database `a.b`, and `b.c` of `a`."""
    tables = {("a", "b.c"): "one", ("a.b", "c"): "other"}

    def answers(sql: str) -> tuple[tuple[str, ...], ...] | None:
        if sql.startswith("SHOW CREATE TABLE"):
            found = next(of for of in tables if sql.endswith(f"`{of[0]}`.`{of[1]}`"))
            return ((found[1], f"CREATE TABLE `{found[1]}` (`{tables[found]}` int)"),)
        if "information_schema.TABLES" in sql:
            return tuple(
                (*name, "InnoDB", "5", "40")[: 5 if "ENGINE" in sql else 2] for name in tables
            )
        return None

    with answering(answers) as url:
        table, _ = wanted(url).read(("a", "b.c"))
        assert [column.name for column in table.definition.columns] == ["one"]
        assert wanted(url).has(("a.b", "c"))
        with pytest.raises(
            UnsupportedError, match=r"`a\.b`\.c: the name of the database contains"
        ) as error:
            wanted(url).read(("a.b", "c"))
        assert "--exclude-table '`a.b`.*'" in str(error.value)
        rest = WantedTables(SourceHost(url), MirrorOptions(exclude_tables=("`a.b`.*",)))
        assert rest.names() == [("a", "b.c")]
        del tables["a.b", "c"]
        assert not wanted(url).has(("a.b", "c"))
        assert wanted(url).has(("a", "b.c"))


@pytest.mark.parametrize(
    "name",
    [
        ("shop", "t"), ("a", "b.c"), ("a.b", "c"), (".hidden", "t"), ("..", "."), ("a`.b", "`.`"), ("`a", "b`.c"),
        ("`a``b`", "c"), ("`", "`.c"), ("`x`", "t"), ("a`b", "c"), ("``.", "`.``"),
    ],
)  # fmt: skip
def test_the_text_of_a_name_means_one_table(name: tuple[str, str]) -> None:
    assert table_name(full_name_of(*name)) == name


def test_tables_have_different_texts() -> None:
    parts = ["".join(chars) for n in (1, 2, 3, 4) for chars in itertools.product("a.`", repeat=n)]
    tables = [(a, b) for a in parts for b in parts]
    assert len({full_name_of(*name) for name in tables}) == len(tables)
    texts = [f"{a}.{b}" for a in parts if a[0] != "." for b in parts]
    assert [full_name_of(*table_name(text)) for text in texts] == texts


@pytest.mark.parametrize(
    "text", ["shop.t", "a.b.c", "`a.b`.c", "`x`.t", "a`b.c", "`x.t", "`a``b`.c", "```x`.t"]
)
def test_a_lake_that_recorded_a_text_has_a_table_of_this_text(text: str) -> None:
    """Earlier versions of binlake wrote the names as they were. A table without its record would stop the mirror."""
    record = {
        "binlake.table": text,
        "binlake.create-table": "CREATE TABLE t (id INT)",
        "binlake.key": '["id"]',
    }
    database, name = table_name(text)
    table = Followed(database, name, SimpleNamespace(properties=record), None)  # type: ignore[arg-type]
    assert table.key == ("id",)
    assert SourceTable(database, name, None, ()).full_name == text  # type: ignore[arg-type]


def test_a_name_with_a_comma_is_one_table() -> None:
    read = MirrorOptions().read_options([("shop", "a,b"), ("shop", " x")])
    assert read.table == ("shop.a,b", "shop. x")


def test_the_log_is_read_for_databases_whose_texts_have_backticks() -> None:
    name = ("`a", "b`.c")
    assert TableFilter(MirrorOptions().read_options([name])).wants(*name)


def test_a_list_of_tables_without_an_end_is_refused() -> None:
    names = tuple(("shop", f"{n:08192}") for n in range(10_000))

    def answers(sql: str) -> tuple[tuple[str, ...], ...] | None:
        return names if "information_schema.TABLES" in sql else None

    with answering(answers) as url, pytest.raises(ServerError, match="takes more than 65536 KB"):
        wanted(url).names()


def test_a_gtid_set_of_megabytes_takes_little_time() -> None:
    uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
    text = uuid + "".join(f":{n}" for n in range(1, 800_000, 2))
    begun = time.process_time()
    GtidSet.parse(text)
    assert len(text) > 2 << 20
    assert time.process_time() - begun < 10
