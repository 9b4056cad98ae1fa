"""Names of the export's directories, and what is said about one that is not empty."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path

import pytest
from pyarrow import fs as pafs

from binlake.errors import BinlogError, OptionError, SourceError
from binlake.lake.export_directory import Directory, Findings, encode_name, table_path
from binlake.lake.staging import Staging


@pytest.fixture
def target(tmp_path: Path) -> Directory:
    return Directory(str(tmp_path / "lake"))


@pytest.mark.parametrize(
    ("name", "encoded"),
    [
        ("orders", "orders"),
        ("a/b", "a%2Fb"),
        ("..", "%2E%2E"),
        (".hidden", "%2Ehidden"),
        ("_ledger.json", "%5Fledger.json"),
        ("a@1", "a%401"),
        ("50%", "50%25"),
        ("a\0b", "a%00b"),
        ("what?*[x]{y}", "what%3F%2A%5Bx%5D%7By%7D"),
        ("c:\\d", "c%3A%5Cd"),
        ("dot.", "dot%2E"),
        ("日本", "日本"),
        ("a b", "a b"),
    ],
)
def test_names(name: str, encoded: str) -> None:
    assert encode_name(name) == encoded


def test_names_stay_distinct() -> None:
    assert table_path("d", "a@1") != table_path("d", "a", 1) == "d/a@1"
    assert table_path("d/x", "t") != table_path("d", "x/t")


def write(target: Directory, path: str, text: str = "x") -> None:
    file = Path(target.root, path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_missing_and_empty_targets_can_be_claimed(target: Directory) -> None:
    assert target.survey().empty
    assert target.claim("error").empty
    Path(target.root).mkdir()
    assert target.claim("error").empty


def test_a_file_is_no_target(target: Directory) -> None:
    Path(target.root).write_text("x")
    with pytest.raises(SourceError, match="is a file"):
        target.survey()


def test_foreign_files_are_never_replaced(target: Directory) -> None:
    write(target, "thesis.tex")
    for how in ("error", "replace"):
        with pytest.raises(
            OptionError, match=r"no export wrote \(thesis.tex\).*directory of its own"
        ):
            target.claim(how)


def test_finished_export(target: Directory) -> None:
    commit(target, {"shop/orders": ["1.parquet"]})
    with pytest.raises(
        OptionError, match=r"finished export.*1 table, 7 rows; use --overwrite to replace it"
    ):
        target.claim("error")
    assert target.claim("replace").tables == ("shop/orders",)


def test_a_table_beside_the_exported_ones_is_foreign(target: Directory) -> None:
    commit(target, {"shop/orders": ["1.parquet"]})
    write(target, "shop/mine/x.parquet")
    with pytest.raises(OptionError, match=r"no export wrote \(shop/mine\)"):
        target.claim("replace")


def test_killed_while_writing(target: Directory) -> None:
    staging = Staging(target, ["binlog.000001"])
    write(target, f"{staging.name}/attempts/1.parquet")
    with pytest.raises(
        OptionError, match=r"was started .* and did not finish; use --overwrite to replace it"
    ):
        target.claim("error")
    commit(target, {"shop/orders": ["1.parquet"]})
    assert not Path(target.root, staging.name).exists()


def commit(target: Directory, tables: dict[str, list[str]]) -> None:
    before = target.claim("replace")
    staging = Staging(target, ["binlog.000001"])
    for files in tables.values():
        for file in files:
            write(target, f"{staging.name}/attempts/{file}", "data")
    write(target, f"{staging.name}/attempts/orphan.parquet")
    ledger = {"tables": {t: {} for t in tables}, "export": {"finished": "now", "rows": 7}}
    staging.prepare(tables, ledger, before)
    staging.commit(tables, before)


def content(target: Directory) -> set[str]:
    root = Path(target.root)
    return {str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()}


def test_commit_replaces_and_sweeps(target: Directory) -> None:
    commit(target, {"shop/orders": ["1.parquet", "2.parquet"], "old/t": ["3.parquet"]})
    assert content(target) == {
        "_ledger.json", "shop/orders/1.parquet", "shop/orders/2.parquet", "old/t/3.parquet",
    }  # fmt: skip
    commit(target, {"shop/orders": ["4.parquet"], "shop/items": ["5.parquet"]})
    assert content(target) == {"_ledger.json", "shop/orders/4.parquet", "shop/items/5.parquet"}
    assert not Path(target.root, "old").exists()


class Killed(BaseException):
    pass


def test_killed_at_any_step_of_a_commit(target: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every table is whole or not there, and no ledger calls a mixture a result."""
    first = {"a/x": ["1", "2"], "b/y": ["3"]}
    second = {"a/x": ["4", "5"], "c/z": ["6"]}
    for step in range(1, 40):
        shutil.rmtree(target.root, ignore_errors=True)
        commit(target, first)
        if not killed_at(step, target, second, monkeypatch):
            break
        there = {p for p in content(target) if not p.startswith("_staging")}
        tables = {
            t: {p.rpartition("/")[2] for p in there if p.startswith(t + "/")}
            for t in ("a/x", "b/y", "c/z")
        }
        assert tables["a/x"] in (set(), {"1", "2"}, {"4", "5"})
        assert tables["b/y"] in (set(), {"3"})
        assert tables["c/z"] in (set(), {"6"})
        whole = "_ledger.json" in there
        assert not whole or tables in (
            {"a/x": {"1", "2"}, "b/y": {"3"}, "c/z": set()},
            {"a/x": {"4", "5"}, "b/y": set(), "c/z": {"6"}},
        )
        with pytest.raises(OptionError, match="use --overwrite to replace it"):
            target.claim("error")
        commit(target, second)  # and the next run repairs it
        assert content(target) == {"_ledger.json", "a/x/4", "a/x/5", "c/z/6"}
    else:
        pytest.fail("the commit never ran to its end")
    assert step > 12


def killed_at(
    step: int, target: Directory, tables: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> bool:
    calls = 0

    class Mortal:
        """A file system that dies before its `step`-th change."""

        def __getattr__(self, name: str) -> object:
            attribute = getattr(pafs.LocalFileSystem(), name)
            if name not in (
                "move",
                "delete_file",
                "delete_dir",
                "open_output_stream",
                "create_dir",
            ):
                return attribute

            def call(*args: object, **kwargs: object) -> object:
                nonlocal calls
                calls += 1
                if calls == step:
                    raise Killed
                return attribute(*args, **kwargs)

            return call

    with monkeypatch.context() as patch:
        patch.setattr(target, "fs", Mortal())
        try:
            commit(target, tables)
        except Killed:
            return True
    return False


def test_uris(tmp_path: Path) -> None:
    assert Directory(f"file://{tmp_path}/a/").root == f"{tmp_path}/a"
    assert pickle.loads(pickle.dumps(Directory(f"{tmp_path}"))).root == str(tmp_path)
    with pytest.raises(SourceError, match="cannot open gopher://x"):
        Directory("gopher://x")


def test_an_earlier_export_is_described() -> None:
    one = Findings(ledger={"export": {"finished": "now", "rows": 1}}, tables=("shop/orders",))
    assert one.describe() == "contains a finished export of now: 1 table, 1 row"
    two = Findings(ledger={"export": {}}, tables=("shop/a", "shop/b"), staging=("_staging-1",))
    assert two.describe() == (
        "contains a finished export: 2 tables, and remains of one that did not finish"
    )
    torn = Findings(runs=({"started": "then"},), tables=("shop/a",), staging=("_staging-1",))
    assert torn.describe().endswith("started then and did not finish, 1 table of it already whole")
    bare = Findings(staging=("_staging-1",))
    assert bare.describe() == "contains an export that did not finish"


def test_json_files_have_a_line_for_each_entry(tmp_path: Path) -> None:
    value = {
        "export": {"rows": 3, "inputs": ["a", "ü"]},
        "tables": {"shop/t": {"rows": 3, "files": [{"name": "x"}]}, "shop/u": {}},
        "warnings": ["one", 'say "two"'],
        "skipped": [],
        "rows": {},
        "bytes": 7,
    }
    Directory(str(tmp_path)).write_json(str(tmp_path / "x.json"), value)
    text = (tmp_path / "x.json").read_text()
    assert json.loads(text) == value
    assert [line for line in text.splitlines() if line.startswith("  ")] == [
        '  "rows": 3,',
        '  "inputs": ["a", "ü"]',
        '  "shop/t": {"rows": 3, "files": [{"name": "x"}]},',
        '  "shop/u": {}',
        '  "one",',
        '  "say \\"two\\""',
    ]


def test_a_store_that_refuses_a_write_advises_as_for_a_read(tmp_path: Path) -> None:
    directory = Directory(str(tmp_path))
    directory.shown = "s3://lake/shop"
    with pytest.raises(BinlogError) as caught, directory.writing("nothing was kept"):
        raise OSError("AWS Error UNKNOWN (HTTP status 400) during HeadObject operation")
    assert str(caught.value).endswith(
        "nothing was kept; check that the credentials are valid and have not expired: they come from"
        " AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or the role of the machine"
    )
    busy = pytest.raises(BinlogError, match="nothing was kept; the store refused several attempts")
    with busy, directory.writing("nothing was kept"):
        raise OSError("AWS Error SLOW_DOWN during PutObject operation")
