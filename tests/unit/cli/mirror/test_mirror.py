"""`binlake mirror`: mistakes are found before Spark starts."""

from __future__ import annotations

import io
import os
import re
import resource
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest

from binlake.cli.main import main
from binlake.cli.mirror import command
from binlake.cli.mirror.common import SparkSettings, lake_session
from binlake.cli.mirror.moments import _remarks
from binlake.cli.mirror.progress import CopyBar
from binlake.printable import printable

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")
pytest.importorskip("pyspark", reason="needs the extra [mirror]")
from rich.console import Console

from binlake.mirror.followed.first_copy import CopyProgress
from binlake.mirror.moments import Moment
from binlake.mirror.reporting.metrics import prometheus_text
from binlake.mirror.reporting.report import MirrorStatus, TableStatus
from binlake.values.times import utc_time
from support.command_runs import run


@pytest.mark.parametrize(
    "words", [("status",), ("verify",), ("compact",), ("pause",), ("resume",), ("resync", "shop.orders"),
     ("history",), ("tag", "name"), ("untag", "name")], ids=" ".join
)  # fmt: skip
def test_a_directory_without_a_mirror(
    words: tuple[str, ...],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java"))
    monkeypatch.setenv("PATH", str(tmp_path))
    name, *rest = words
    assert main(["mirror", name, str(tmp_path), *rest]) == 2
    out, err = capfd.readouterr()
    assert (out, "has no mirror" in err) == ("", True)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def other_user() -> Iterator[None]:
    """This process as a user who may not write to all directories."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    yield
    os.seteuid(0)


@pytest.mark.usefixtures("other_user")
@pytest.mark.parametrize("metadata", ["metadata", "_delta_log"])
@pytest.mark.parametrize(
    "words", [("tag", "name"), ("untag", "name"), ("resync", "a.b"), ("pause",), ("resume",)]
)
def test_a_lake_that_cannot_be_written(
    words: tuple[str, ...], metadata: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Iceberg's message contained neither the reason nor the directory."""
    name, *rest = words
    with TemporaryDirectory() as lake:  # the other user may not look into tmp_path
        folder = Path(lake, "_binlake", "rounds", metadata)
        folder.mkdir(parents=True)
        folder.chmod(0o555)
        assert main(["mirror", name, lake, *rest]) == 1
        assert capfd.readouterr().err == f"binlake: cannot write {folder}: Permission denied\n"


@pytest.mark.parametrize("name", ["before-drop-x-1", "a/b", "", "-", "é", "20261231"])
def test_a_text_that_cannot_name_a_moment(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "_binlake").mkdir()
    assert main(["mirror", "tag", str(tmp_path), "--", name]) == 2
    assert "cannot be the name of a moment" in capfd.readouterr().err


def test_tables_that_a_named_round_does_not_have() -> None:
    moment = Moment(7, (), "", "binlog.000001", 4, "", {"a.dropped": 1, "a.here": 2})
    assert list(_remarks(moment, ["a.dropped", "a.late"])) == [
        "the mirror did not follow these tables in round 7: a.late",
        "these lake tables of round 7 have been dropped since: a.dropped",
    ]
    assert list(_remarks(moment, [])) == []


@pytest.mark.parametrize("lake", ["hdfs://name:8020/lake", "viewfs://cluster/lake"])
def test_a_lake_in_hdfs_without_the_library_of_hadoop(
    lake: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("JAVA_HOME", "HADOOP_HOME", "ARROW_LIBHDFS_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "nothing"))
    monkeypatch.setenv("PATH", str(tmp_path))  # Spark is not started
    code, out, err = run(capfd, "mirror", "mysql://repl@db1/", lake, "--once")
    assert (code, out) == (2, "")
    assert f"cannot open {lake}: " in err
    for needed in ("libhdfs", "JAVA_HOME", "HADOOP_HOME", "CLASSPATH", "each executor"):
        assert needed in err
    assert err.count("\n") == 1


def test_a_share_above_all_rows(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "_binlake").mkdir()
    assert main(["mirror", "verify", str(tmp_path), "--sample", "2"]) == 2
    assert "--sample 2.0: expected a share above 0 and up to 1" in capfd.readouterr().err


def test_the_number_of_a_sample_of_all_rows(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "_binlake").mkdir()
    assert main(["mirror", "verify", str(tmp_path), "--sample-number", "3"]) == 2
    assert capfd.readouterr().err == "binlake: --sample-number requires --sample\n"


COPY = (
    CopyProgress("shop.orders", 0, 4, 0, 0),
    CopyProgress("shop.orders", 2, 4, 2000, 3_000_000),
)


def test_a_copy_is_drawn_on_a_terminal() -> None:
    screen = io.StringIO()
    with CopyBar(Console(file=screen, force_terminal=True, width=120)) as bar:
        for seen in COPY:
            bar(seen)
    for part in ("shop.orders", "2/4", "2,000 rows", "3 MB"):
        assert part in screen.getvalue()


def test_a_copy_that_gives_way_to_that_of_another_table() -> None:
    screen = io.StringIO()
    with CopyBar(Console(file=screen, force_terminal=True, width=120)) as bar:
        for seen in (*COPY, CopyProgress("shop.customers", 1, 7, 1000, 1_000_000)):
            bar(seen)
    last = screen.getvalue()[screen.getvalue().rindex("chunks") - 200 :]
    for part in ("shop.customers", "1/7", "1,000 rows"):
        assert part in last


def test_a_long_copy_writes_lines_into_the_log_of_a_service(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with CopyBar(line_s=0) as bar:
        for seen in (*COPY, CopyProgress("shop.orders", 4, 4, 4000, 6_000_000)):
            bar(seen)
    assert capsys.readouterr() == ("", "shop.orders: 2 of 4 chunks, 2,000 rows, 3 MB\n")


def test_a_copy_is_not_drawn_into_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    with CopyBar() as bar:
        for seen in COPY:
            bar(seen)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ("--on-alter foo", "--on-alter: 'foo': expected one of quarantine, resync, text, new-column"),
        ("--rename foo", "--rename: 'foo': expected DATABASE.TABLE=VALUE"),
        ("--partition foo", "--partition: 'foo': expected DATABASE.TABLE=VALUE"),
        ("--on-alter-table a.b=foo", "--on-alter-table: 'a.b=foo': 'foo': expected one of quarantine"),
        ("--verify-sample 0", "--verify-sample: expected a share above 0"),
        ("--format delta --deletes position", "--deletes: tables of format delta do not support it"),
    ],
)  # fmt: skip
def test_errors_name_the_flag_that_was_typed(
    capfd: pytest.CaptureFixture[str], argv: str, says: str
) -> None:
    code, _, err = run(capfd, "mirror", "run", "mysql://db1/", "/nowhere/lake", *argv.split())
    assert code == 2
    assert err.startswith(f"binlake: {says}")


def test_an_empty_sample_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capfd, "mirror", "verify", "/nowhere/lake", "--sample", "0")
    assert (code, err) == (
        2, "binlake: --sample 0.0: expected a share above 0 and up to 1\n"
    )  # fmt: skip


ODD = 'shop.o\u2028binlake_mirror_lag_seconds 0\x85\u200b\x1b[2J"\n'
STATUS = MirrorStatus(
    "mysql://db1/", False, 7, "binlog.000003", 4711, "", "", "",
    (TableStatus(ODD, "quarantined", f"why\n{ODD}", mode="insert-only", left_out=("a\nb",)),),
)  # fmt: skip


def test_names_stay_in_their_labels(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """U+2028 in the name of a table began a line of Prometheus's text, which it chose."""
    parser = pytest.importorskip("prometheus_client.parser")
    command._show_metrics(STATUS)
    text = capsysbinary.readouterr().out.decode()
    assert text == prometheus_text(STATUS)
    families = list(parser.text_string_to_metric_families(text))
    names = {s.labels["table"] for f in families for s in f.samples if "table" in s.labels}
    assert names == {ODD}


def test_a_status_is_lines_without_a_terminals_commands(capsys: pytest.CaptureFixture[str]) -> None:
    command._show_status(STATUS)
    lines = capsys.readouterr().out.split("\n")
    shown = printable(ODD)
    assert [line for line in lines if line.startswith("    ")] == [
        "    insert-only", "    left out: a\\nb", f"    why\\n{shown}",
    ]  # fmt: skip
    assert any(line.startswith(f"{shown}  quarantined") for line in lines)
    assert all(line.isprintable() for line in lines)


def test_a_reason_names_flags(capsys: pytest.CaptureFixture[str]) -> None:
    """The log of the mirror had `--zero-date text`, and its status `zero_date=text`."""
    reasons = {
        "zero_date=text keeps them": "--zero-date text keeps them",
        "the option zero_date=text keeps them": "the --zero-date text keeps them",
        "also matches option history_tables; a table": "also matches --history; a table",
        "ALTER TABLE t ADD v INT AS (time=1) VIRTUAL": "ALTER TABLE t ADD v INT AS (time=1) VIRTUAL",
        "/lake/time=text/metadata is missing": "/lake/time=text/metadata is missing",
        "COMMENT 'force=True'": "COMMENT 'force=True'",
    }
    tables = (TableStatus(f"shop.{n}", "quarantined", why) for n, why in enumerate(reasons))
    command._show_status(replace(STATUS, tables=tuple(tables)))
    lines = capsys.readouterr().out.splitlines()
    assert [line.strip() for line in lines if line.startswith("    ")] == [*reasons.values()]


def test_a_lake_without_a_round_has_no_position(capsys: pytest.CaptureFixture[str]) -> None:
    command._show_status(replace(STATUS, round=0, log_file="", log_pos=0, gtid_set=""))
    assert "position   none: there is no round yet\n" in capsys.readouterr().out
    command._show_status(replace(STATUS, log_file="binlog.000001", log_pos=4, gtid_set="1-2-3:1"))
    assert "position   binlog.000001:4  1-2-3:1\n" in capsys.readouterr().out


def test_the_share_of_deleted_rows_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    tables = (
        TableStatus("shop.a", "mirrored", rows=30, deleted_rows=10),
        TableStatus("shop.b", "mirrored"),
    )
    command._show_status(replace(STATUS, tables=tables))
    out = " ".join(capsys.readouterr().out.split())
    assert "30 rows 10 deleted (25 %) 0 files" in out
    assert "0 rows 0 deleted (0 %) 0 files" in out


def test_the_lag_is_known_on_the_machine_of_the_mirror(capsys: pytest.CaptureFixture[str]) -> None:
    """An idle server has an old last transaction, and no lag."""
    recent = replace(STATUS, fresh_at=utc_time(time.time() - 500))
    command._show_status(STATUS)
    assert "lag        known on the mirror's machine only\n" in capsys.readouterr().out
    command._show_status(recent)
    line = r"^lag        known on the mirror's machine only; last transaction 50\d s old$"
    assert re.search(line, capsys.readouterr().out, re.MULTILINE)
    command._show_status(replace(recent, checked_at=utc_time(time.time())))
    assert re.search(
        r"^lag        50\d s, an unknown number", capsys.readouterr().out, re.MULTILINE
    )


def test_a_comparison_that_was_never_made_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    checked = replace(STATUS, checked_at="2026-11-27T12:00:00Z")
    command._show_status(checked)
    assert "verified" not in capsys.readouterr().out
    command._show_status(replace(checked, verify_due_at="2026-11-20T12:00:00Z"))
    shown = "verified   never: the first comparison has been due since 2026-11-20T12:00:00Z\n"
    assert shown in capsys.readouterr().out


def test_the_sample_of_a_comparison_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    verified = replace(
        STATUS, checked_at="2026-11-27T12:00:00Z", verified_at="2026-11-27T11:00:00Z"
    )
    for sample, different, shown in (
        (None, {}, "all tables equal"),
        (12, {}, "all tables equal (sample 12)"),
        (12, {"shop.a": 3, "shop.b": 12}, "shop.a (sample 3), shop.b (sample 12) differ"),
    ):
        found = replace(
            verified,
            sample_number=sample,
            different=tuple(different),
            different_samples=different,
        )
        command._show_status(found)
        assert f"verified   2026-11-27T11:00:00Z: {shown}\n" in capsys.readouterr().out


def test_copies_that_are_left_are_noted(capsys: pytest.CaptureFixture[str]) -> None:
    """The position of the mirror does not concern these tables."""
    command._note_copies_left(STATUS)
    assert capsys.readouterr().err == ""
    tables = (*STATUS.tables, TableStatus("shop.b", "copying"), TableStatus("shop.c", "resync"))
    command._note_copies_left(replace(STATUS, tables=tables))
    assert "2 tables still wait for a copy: shop.b, …. The next start continues the copies" in (
        capsys.readouterr().err
    )


def test_dates_that_became_null_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    counts = {"shop.t.made": 1, "shop.t.born": 4711}
    command._show_status(replace(STATUS, checked_at="2026-11-27T12:00:00Z", zero_dates=counts))
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("zero dates")] == [
        "zero dates shop.t.born: 4,711 read as null",
        "zero dates shop.t.made: 1 read as null",
    ]


def test_commands_raise_their_limit_of_open_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Services and shells often begin with 1,024."""
    before, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limits: list[tuple[int, int]] = []

    def session(*_of: object, **_options: object) -> object:
        limits.append(resource.getrlimit(resource.RLIMIT_NOFILE))
        return SimpleNamespace(stop=lambda: None)

    monkeypatch.setattr("binlake.mirror.sessions.mirror_session", session)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    with lake_session("/lake", SparkSettings(None, None, "lake")):
        resource.setrlimit(resource.RLIMIT_NOFILE, (before, hard))
    assert limits == [(65536 if hard == resource.RLIM_INFINITY else min(hard, 65536), hard)]
