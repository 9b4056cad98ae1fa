"""The tables of a server that a mirror follows, with servers that do not run on Linux."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pymysql")

from binlake.errors import OptionError, UnsupportedError
from binlake.mirror.followed.wanted import WantedTables
from binlake.mirror.options import MirrorOptions
from binlake.mirror.preflight import check_tables
from binlake.mirror.source.host import SourceHost
from binlake.mirror.source.refusals import AlteredError
from support.servers.fake_server import OK, Conversation, fake_server


def on_macos(conversation: Conversation) -> None:
    """A server with lower_case_table_names=2, which Linux refuses."""
    conversation.login()
    while query := conversation.hear():
        if b"lower" in query:
            conversation.result(("lower_case_table_names", "2"))
        else:
            conversation.send(OK, 1)


def test_only_one_table_is_listed_to_find_it() -> None:
    """MySQL 5.7 and MariaDB open each table that they list: with 10,000 tables, for each of 10,000 copies."""
    asked: list[str] = []

    def talk(conversation: Conversation) -> None:
        conversation.login()
        while query := conversation.hear():
            text = query.decode("utf-8", "replace")
            if "information_schema.TABLES" not in text:
                conversation.send(OK, 1)
                continue
            asked.append(text)
            wide = ("InnoDB", "5", "40") if "ENGINE" in text else ()
            conversation.result(("shop", "it's", *wide), ("shop", "It's", *wide))

    with fake_server(talk) as (port, _):
        host = SourceHost(f"mysql://ada:pw@127.0.0.1:{port}/?ssl-mode=disabled&option-file=none")
        tables = WantedTables(host, MirrorOptions(tables=("shop.*",)))
        assert tables.has(("shop", "it's"))
        assert not tables.has(("shop", "ITS"))
        assert not tables.has(("other", "it's")), "it is not wanted"
        with pytest.raises(AlteredError, match=r"no table shop\.its"):
            tables.read(("shop", "its"))
        assert not tables.has(("shop", "\U0001f600"))
    schema = "TABLE_SCHEMA = _utf8mb4 X'73686f70'"
    conditions = [f" AND {schema} AND TABLE_NAME = _utf8mb4 X'{n}'" for n in ("69742773", "495453", "697473")]  # fmt: skip
    ends = [text.rpartition("'SYSTEM VERSIONED')")[2] for text in asked]
    assert ends == [f"{condition} ORDER BY 1, 2" for condition in (*conditions, "")]


@pytest.mark.parametrize("name", [("shop", "Orders"), ("Shop", "orders")])
def test_names_that_the_log_spells_in_lower_case(name: tuple[str, str]) -> None:
    """The mirror would find no changes of the table."""
    with fake_server(on_macos) as (port, _):
        host = SourceHost(f"mysql://ada:pw@127.0.0.1:{port}/?ssl-mode=disabled&option-file=none")
        tables = WantedTables(host, MirrorOptions(tables=("*.*",)))
        with pytest.raises(UnsupportedError, match="lower_case_table_names=2") as refused:
            tables.read(name)
    assert "to names in lower case" in str(refused.value)


@pytest.mark.parametrize(("value", "expected"), [("0", True), ("1", False), ("2", False)])
def test_the_server_is_asked_once_whether_it_distinguishes_case(value: str, expected: bool) -> None:
    asked: list[bytes] = []

    def talk(conversation: Conversation) -> None:
        conversation.login()
        while query := conversation.hear():
            if b"lower" in query:
                asked.append(query)
                conversation.result(("lower_case_table_names", value))
            else:
                conversation.send(OK, 1)

    with fake_server(talk) as (port, _):
        host = SourceHost(f"mysql://ada:pw@127.0.0.1:{port}/?ssl-mode=disabled&option-file=none")
        tables = WantedTables(host, MirrorOptions())
        assert [tables.distinguishes_case() for _ in range(3)] == [expected] * 3
    assert len(asked) == 1


@pytest.mark.parametrize("value", ["0", "1"])
@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"exclude_tables": ("Shop.CardData",)}, "option exclude_tables: 'Shop.CardData'"),
        ({"tables": ("shop.*", "CRM.*")}, "option tables: 'CRM.*'"),
        ({"rename_tables": ("shop.Orders=Lake.Orders",)}, "option rename_tables: 'shop.Orders'"),
        ({"append_tables": ("shop.É*",)}, "option append_tables: 'shop.É*'"),
        ({"exclude_columns": ("Shop.*.SSN",), "rename_tables": ("shop.t=Lake.T",)}, ""),
    ],
)
def test_patterns_in_upper_case_if_the_server_has_all_names_in_lower_case(
    tmp_path: Path, value: str, options: dict[str, Any], shown: str
) -> None:
    """They match no table, so a table that one of them should leave out would be copied."""

    def talk(conversation: Conversation) -> None:
        conversation.login()
        while query := conversation.hear():
            if b"lower" in query:
                conversation.result(("lower_case_table_names", value))
            elif b"information_schema.TABLES" in query:
                conversation.result(("shop", "carddata"), ("shop", "orders"))
            else:
                conversation.send(OK, 1)

    with fake_server(talk) as (port, _):
        url = f"mysql://ada:pw@127.0.0.1:{port}/?ssl-mode=disabled&option-file=none"
        given = MirrorOptions.of(options)
        if value == "0" or not shown:
            check_tables(url, str(tmp_path / "lake"), given)
            return
        with pytest.raises(OptionError) as refused:
            check_tables(url, str(tmp_path / "lake"), given)
    assert refused.value.message.startswith(f"{shown} matches no table, because the server has all")
    assert f"write {shown.split(chr(39))[1].lower()}" == refused.value.hint


def with_an_unreadable_table(conversation: Conversation) -> None:
    """A server whose tables `old` and `new` are damaged: it lists them, and answers nothing else about them."""
    conversation.login()
    while query := conversation.hear():
        if b"information_schema.TABLES" in query:
            conversation.result(
                ("shop", "new", "InnoDB", "0", "0"), ("shop", "old", "MyISAM", "0", "0")
            )
        elif b"SHOW" in query:
            conversation.send(b"\xff\xa9\x04#HY000Table is marked as crashed", 1)
        else:
            conversation.send(OK, 1)


def test_the_engine_of_a_table_that_the_server_cannot_read() -> None:
    """It decides what becomes of the table, and an error would end the mirror at this range of the log at each start."""
    for name, expected in (("old", False), ("new", True), ("gone", False)):
        with fake_server(with_an_unreadable_table) as (port, _):
            host = SourceHost(
                f"mysql://ada:pw@127.0.0.1:{port}/?ssl-mode=disabled&option-file=none"
            )
            tables = WantedTables(host, MirrorOptions())
            assert tables.has_transactions(("shop", name)) == expected
