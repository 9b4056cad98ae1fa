"""The options of a mirror from Python: a mistake in one of them is an error before Spark starts."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")
pytest.importorskip("pyspark", reason="needs the extra [mirror]")

from binlake.errors import OptionError
from binlake.mirror import api, compact, mirror
from binlake.mirror.options import MirrorOptions

URL = "mysql://repl@db1/"


@pytest.fixture(autouse=True)
def _without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "mirror_session", lambda *_of, **_more: pytest.fail("Spark starts"))


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("exclude_column", "exclude_columns"),
        ("hash_column", "hash_columns"),
        ("soft_delete", "soft_delete_tables"),
        ("rename", "rename_tables"),
        ("append", "append_tables"),
        ("max_rate", "max_rows_per_s"),
        ("zero_dates", "zero_date"),
        ("interval", "interval_s"),
        ("exclude_cloumns", "exclude_columns"),
    ],
)
def test_a_misspelled_option_is_refused(tmp_path: Path, given: str, meant: str) -> None:
    """An ignored one could leave columns with personal data in the lake."""
    lake = tmp_path / "lake"
    options: dict[str, Any] = {given: ("*.*.ssn",)}
    with pytest.raises(OptionError) as refused:
        mirror(URL, lake, ["shop.*"], **options)
    assert str(refused.value) == f"unknown option {given!r}; did you mean {meant}?"
    assert refused.value.name == given
    assert not lake.exists()


def test_an_option_that_resembles_none_is_answered_with_all(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"unknown option 'xyz'; options are: append_tables, "):
        mirror(URL, tmp_path / "lake", xyz=1)


@pytest.mark.parametrize("option", ["tables", "exclude_columns", "rename_tables"])
@pytest.mark.parametrize("value", ["*.*.ssn", None, 1, [None], [b"*.*.ssn"]])
def test_what_is_no_list_of_texts(tmp_path: Path, option: str, value: Any) -> None:
    """Each character of a text would be a pattern."""
    options: dict[str, Any] = {option: value}
    with pytest.raises(OptionError, match=f"option {option}: expected a list of texts, not "):
        mirror(URL, tmp_path / "lake", **options)


@pytest.mark.parametrize("value", ["3600", True, None])
def test_a_text_in_the_place_of_a_number(tmp_path: Path, value: Any) -> None:
    with pytest.raises(OptionError, match="option verify_every_s: expected a number, not "):
        mirror(URL, tmp_path / "lake", verify_every_s=value)


@pytest.mark.parametrize("kind", [str, Path])
def test_the_lake_records_where_the_key_file_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Any
) -> None:
    """Later processes, which may have another working directory, read the options from the lake."""
    (tmp_path / "hash.key").write_text("a key of the test")
    monkeypatch.chdir(tmp_path)
    given: list[MirrorOptions] = []

    class StartedError(Exception): ...

    def started(_session: Any, _url: str, _lake: str, options: MirrorOptions, **_more: Any) -> None:
        given.append(options)
        raise StartedError

    monkeypatch.setattr(api, "Mirror", started)
    with pytest.raises(StartedError):
        mirror(
            URL,
            tmp_path / "lake",
            ["shop.*"],
            spark=SimpleNamespace(),  # type: ignore[arg-type]
            hash_columns=["*.*.ssn"],
            hash_key_file=kind("hash.key"),
        )
    stored = MirrorOptions.from_json(given[0].to_json())
    assert stored.hash_key_file == str(tmp_path / "hash.key")
    assert (stored.tables, stored.hash_columns) == (("shop.*",), ("*.*.ssn",))


def test_a_text_in_the_place_of_the_tables_to_compact(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"expected patterns of table names, not 'shop\.orders'"):
        compact(tmp_path, "shop.orders")
