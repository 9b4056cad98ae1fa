"""Option files that are too large, writable by everybody, or come through a pipe."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from binlake.errors import OptionError
from binlake.source.replica.option_file import client_options


def test_the_end_of_a_large_file_is_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "my.cnf"
    path.write_bytes(b"[client]\nuser=app\n" + b"#" * (1 << 20) + b"\nssl-mode=verify_identity\n")
    with pytest.raises(OptionError, match="more than 1 MB"):
        client_options(str(path))
    with pytest.raises(OptionError, match="more than 1 MB"):
        client_options("/dev/zero")


def test_a_file_that_everybody_can_write_is_refused_where_it_is_included(tmp_path: Path) -> None:
    outer, inner = tmp_path / "my.cnf", tmp_path / "inner.cnf"
    outer.write_text(f"[client]\nhost=db1\n!include {inner}\n")
    inner.write_text("[client]\nhost=attacker\n")
    inner.chmod(0o666)
    with pytest.raises(OptionError, match="everybody can write"):
        client_options(str(outer))


def test_a_pipe_is_read(tmp_path: Path) -> None:
    """`--option-file <(vault read …)`: the password is in no file."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=("[client]\npassword=x\n",))
    writer.start()
    assert client_options(str(path)) == {"password": "x"}
    writer.join()


@pytest.mark.parametrize("separator", "\x0b\x0c\x1c\x85\u2028")
def test_only_a_newline_ends_a_line(tmp_path: Path, separator: str) -> None:
    path = tmp_path / "my.cnf"
    path.write_text(f"[client]\npassword=a{separator}host=b\n")
    assert client_options(str(path)) == {"password": f"a{separator}host=b"}
