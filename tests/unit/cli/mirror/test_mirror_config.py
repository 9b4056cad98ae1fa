"""`--config` of the commands of `binlake mirror` that name a lake."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")
pytest.importorskip("pyspark", reason="needs the extra [mirror]")
from binlake.cli.mirror import command, compact, moments, requests, verify
from binlake.cli.mirror.common import SparkSettings
from binlake.mirror import api
from binlake.mirror import moments as moments_api
from binlake.mirror.reporting.report import MirrorStatus
from binlake.mirror.verification import Verification
from support.command_runs import run

FILE = """
[mirror]
url = "mysql://repl@db1/"
lake = "lake"
state = "indexes"

[mirror.spark]
"spark.master" = "local[3]"
"spark.sql.catalog.prod.type" = "rest"
"spark.driver.memory" = "2g"
"""
STATUS = MirrorStatus("mysql://db", False, 1, "binlog.000001", 4, "", "", "", ())

Calls = list[tuple[tuple[Any, ...], dict[str, Any]]]
Sessions = list[tuple[str, SparkSettings]]


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "lake" / "_binlake").mkdir(parents=True)
    path = tmp_path / "mirror.toml"
    path.write_text(FILE)
    return str(path)


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> Sessions:
    """The lakes and settings for which commands start Spark, which they do not get."""
    found: Sessions = []

    @contextmanager
    def opened(lake: str, session: SparkSettings) -> Iterator[None]:
        found.append((lake, session))
        yield None

    for module in (command, compact, moments, requests, verify):
        monkeypatch.setattr(module, "lake_session", opened)
    return found


def calls_of(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, result: Any = None) -> Calls:
    found: Calls = []

    def called(*arguments: Any, **named: Any) -> Any:
        found.append((arguments, named))
        return result

    monkeypatch.setattr(module, name, called)
    return found


def test_the_file_gives_lake_state_and_settings(
    file: str,
    sessions: Sessions,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = Path(file).parent
    calls = calls_of(monkeypatch, api, "status", STATUS)
    assert run(capfd, "mirror", "status", "--config", file, "--catalog", "prod")[0] == 0
    [(lake, settings)] = sessions
    assert lake == str(folder / "lake")
    assert settings.master == "local[3]"
    assert settings.catalog == "prod"
    assert settings.config["spark.sql.catalog.prod.type"] == "rest"
    [(arguments, named)] = calls
    assert arguments == (lake,)
    assert named["state"] == str(folder / "indexes")


def test_flags_take_precedence_over_the_file(
    file: str,
    sessions: Sessions,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = calls_of(monkeypatch, api, "status", STATUS)
    flags = ("--state", "/other", "--master", "local[1]", "--conf", "spark.driver.memory=1g")
    assert run(capfd, "mirror", "status", f"--config={file}", *flags)[0] == 0
    [(_, settings)] = sessions
    assert settings.master == "local[1]"
    assert settings.config["spark.driver.memory"] == "1g"
    assert settings.config["spark.sql.catalog.prod.type"] == "rest"
    assert calls[0][1]["state"] == "/other"


@pytest.mark.parametrize("words", [("shop.*", "crm.a"), ()])
def test_the_arguments_are_those_after_the_lake(
    words: tuple[str, ...],
    file: str,
    sessions: Sessions,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = calls_of(monkeypatch, api, "compact")
    assert run(capfd, "mirror", "compact", *words, "--config", file)[0] == 0
    assert sessions
    assert calls[0][0] == (str(Path(file).parent / "lake"), [*words] or ())


@pytest.mark.parametrize("name", ["remove", "resync", "add"])
def test_the_tables_of_the_file_are_not_those_of_a_command(
    name: str,
    file: str,
    sessions: Sessions,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A forgotten argument would remove all tables, or copy them again."""
    Path(file).write_text(FILE.replace("[mirror.spark]", 'tables = ["shop.*"]\n[mirror.spark]'))
    code, _, err = run(capfd, "mirror", name, "--config", file)
    assert (code, "DB.TABLE" in err, sessions) == (2, True, [])
    compacted = calls_of(monkeypatch, api, "compact")
    nothing = Verification("binlog.000001", 4, "", ())
    verified = calls_of(monkeypatch, api, "verify", nothing)
    assert run(capfd, "mirror", "compact", "--config", file)[0] == 0
    run(capfd, "mirror", "verify", "--config", file)
    lake = str(Path(file).parent / "lake")
    assert [compacted[0][0], verified[0][0]] == [(lake, ())] * 2


def test_the_required_argument_after_the_lake(
    file: str,
    sessions: Sessions,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    added = calls_of(monkeypatch, api, "add")
    dropped = calls_of(monkeypatch, moments_api, "drop_moment")
    assert run(capfd, "mirror", "add", "--config", file, "shop.returns")[0] == 0
    assert run(capfd, "mirror", "untag", "--config", file, "release-7")[0] == 0
    lake = str(Path(file).parent / "lake")
    assert added[0][0] == (lake, ["shop.returns"])
    assert dropped[0][0] == (lake, "release-7")
    assert len(sessions) == 2
    code, _, err = run(capfd, "mirror", "add", "--config", file)
    assert (code, "DB.TABLE" in err) == (2, True)


@pytest.mark.parametrize(
    "words",
    [("status", "lake"), ("status", "/lake"), ("compact", "s3://bucket/lake", "shop.a"), ("tag", "lake", "name")],
    ids=" ".join,
)  # fmt: skip
def test_the_lake_is_not_given_twice(
    words: tuple[str, ...], file: str, sessions: Sessions, capfd: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capfd, "mirror", *words, "--config", file)
    assert (code, sessions) == (2, [])
    assert f"LAKE cannot be combined with --config; it is set in {file}" in err


@pytest.mark.parametrize("name", ["status", "verify", "compact", "history", "pause", "resume"])
def test_a_wrong_key_of_the_file(
    name: str, file: str, sessions: Sessions, capfd: pytest.CaptureFixture[str]
) -> None:
    Path(file).write_text(FILE.replace("state =", "stat ="))
    code, out, err = run(capfd, "mirror", name, "--config", file)
    assert (code, out, sessions) == (2, "", [])
    assert f"{file}: [mirror] stat: unknown key; did you mean state?" in err


def test_help_beside_a_file_that_does_not_exist(capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capfd, "mirror", "status", "--config", "no.toml", "--help")
    assert (code, "--config FILE" in out) == (0, True)


@pytest.mark.parametrize(
    ("word", "answer"),
    [("verfy", "No such command 'verfy'; did you mean verify?"), ("xyzzy", "No such command 'xyzzy'")],
)  # fmt: skip
def test_a_misspelled_command(word: str, answer: str, capfd: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capfd, "mirror", word, "/lake")
    assert (code, answer in err) == (2, True)


@pytest.mark.parametrize("word", ["db1:3306", "root@db1", "./verfy"])
def test_a_text_that_is_no_name_of_a_command_is_a_url(
    word: str, capfd: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capfd, "mirror", word, "/lake")
    assert (code, "not the URL of a server" in err) == (2, True)
