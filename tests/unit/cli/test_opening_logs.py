"""The options that every command which opens logs obeys: max_memory and index_directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from binlake.cli.main import main
from support.logs.costly_logs import small_compressed_log
from support.logs.table_log import Log

COMMANDS = (
    ("rows",), ("stats",), ("sql",), ("inspect",), ("verify",), ("verify", "--reencode"), ("index",),
    ("schema",), ("mysqlbinlog",), ("mysqlbinlog", "-v"), ("gtid", "union"), ("gtid", "gaps"),
)  # fmt: skip
OPENING = (*COMMANDS, ("export", "--engine", "local"))


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_max_memory_limits_decompression_in_every_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    log = tmp_path / "binlog.000001"
    log.write_bytes(small_compressed_log(1_000_000))
    main([*command, "--max-memory", "1MB", str(log)])
    said = capsys.readouterr()
    found = [line for line in (said.out + said.err).splitlines() if "--max-memory allows" in line]
    assert found
    assert "262,144" in found[0]
    assert "000001" in found[0] or command[0] == "verify"  # its lines stand below the file's name
    main([*command, "--max-memory", "8MB", str(log)])
    said = capsys.readouterr()
    assert "--max-memory" not in said.out + said.err


@pytest.mark.parametrize("command", OPENING, ids=" ".join)
def test_an_index_file_names_logs_of_other_directories_where_the_option_allows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    for folder in ("index", "logs"):
        (tmp_path / folder).mkdir()
    made = Log()
    made.insert((1, "one", None))
    made.save(tmp_path / "logs")
    index = tmp_path / "index" / "binlog.index"
    index.write_text(f"{tmp_path}/logs/binlog.000001\n")
    lake = [str(tmp_path / "lake")] if command[0] == "export" else []
    assert main([*command, str(index), *lake]) == 2
    assert "--index-directory" in capsys.readouterr().err
    allowed = ["--index-directory", str(tmp_path / "logs")]
    assert main([*command, *allowed, str(index), *lake]) == 0, capsys.readouterr().err
