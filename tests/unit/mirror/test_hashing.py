"""Keys of hashes: where they come from, and that nothing shows them."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")
from binlake.errors import OptionError
from binlake.mirror.columns.hashing import read_key
from binlake.mirror.columns.rules import ColumnRules
from binlake.mirror.options import MirrorOptions

KEY = "a key of some length"


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "key").write_text(KEY + "\r\n")
    return str(tmp_path / "key")


def test_a_file_and_the_environment_are_one(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BINLAKE_HASH_KEY", KEY)
    assert read_key(file).hex(b"x") == read_key("").hex(b"x")
    assert read_key(file).id == read_key("").id


def test_nothing_shows_the_key(file: str) -> None:
    options = MirrorOptions(hash_columns=("*.*.email",), hash_key_file=file)
    rules = options.column_rules.pinned()
    hashed = rules.hashed("shop", "users", ["email"])
    shown = [options.to_json(), repr(options), repr(hashed), repr(hashed["email"])]
    assert not any(KEY in text for text in shown)
    assert KEY.encode() not in pickle.dumps(rules)
    with pytest.raises(TypeError, match="stays in its process"):
        pickle.dumps(hashed)


def test_an_executor_with_another_key_is_refused(file: str, tmp_path: Path) -> None:
    rules = pickle.loads(pickle.dumps(ColumnRules(hash=("*.*.email",), key_file=file).pinned()))
    Path(file).write_text("quite another key\n")
    with pytest.raises(OptionError, match="the hash key of this process differs"):
        rules.hashed("shop", "users", ["email"])


def test_invalid_hash_keys_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BINLAKE_HASH_KEY", raising=False)
    with pytest.raises(OptionError, match="hashed columns need a key"):
        read_key("")
    with pytest.raises(OptionError, match="cannot read the hash key file"):
        read_key(str(tmp_path / "none"))
    (tmp_path / "short").write_text("short")
    with pytest.raises(OptionError, match="has 5 bytes: expected 16 to 65536 bytes") as found:
        read_key(str(tmp_path / "short"))
    assert "short" not in found.value.message.replace(str(tmp_path / "short"), "")
