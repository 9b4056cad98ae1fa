"""Files other than logs, damaged at random: each is read, or refused by one error of ours, in time.

The seed of a case is its number. `BINLAKE_FUZZ_CASES` sets how many are tried.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("pymysql")

from binlake.archive.layout import ArchiveState
from binlake.config.configuration import read_configuration
from binlake.errors import BinlogError, KeyringError
from binlake.follow.offsets import StreamOffset
from binlake.lake.export_directory import Directory
from binlake.mirror.configuration import read_mirror_configuration
from binlake.printable import shortened
from binlake.source.keyring import Keyring
from binlake.source.log_file import LogFile
from binlake.source.replica.option_file import client_options
from binlake.source.resolve import survey
from binlake.stream.index.index_columns import COLUMNS, Stamp
from binlake.stream.index.index_file import from_index
from binlake.stream.index.log_index import LogIndex
from binlake.table.schema.schema_file import read_schema_file
from binlake.values.position import Position
from binlake.values.where import parse_where
from support.logs.encrypted_log import (
    KEY,
    KEY_NAME,
    aes_ecb,
    component_keyring,
    key_file,
    openssl_enc,
    plugin_keyring,
)
from support.logs.log_builder import LogBuilder
from support.logs.mutations import changed_text

pytestmark = pytest.mark.fuzz

CASES = int(os.environ.get("BINLAKE_FUZZ_CASES", "0")) // 10 or 50
CPU_SECONDS = 20  # of all cases of ten: a time that grows with the square would be more
GOLDEN = Path(__file__).resolve().parents[1] / "golden"
UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"

SCHEMA = b"""-- a dump
CREATE DATABASE /*!32312 IF NOT EXISTS*/ `shop` /*!40100 DEFAULT CHARACTER SET utf8mb4 */;
USE `shop`;
CREATE TABLE `orders` (
  `id` bigint unsigned NOT NULL AUTO_INCREMENT, `state` enum('new','it''s','a\\\\b') COLLATE utf8mb4_bin,
  `price` decimal(12,2) DEFAULT '0.00' COMMENT 'net; of one', `note` varchar(200) CHARACTER SET latin1,
  `total` decimal(14,2) GENERATED ALWAYS AS (`price` * (1 + 0.19)) VIRTUAL, `at` datetime(6) NULL,
  PRIMARY KEY (`id`), UNIQUE KEY `n` (`note`(10)), CONSTRAINT `c` CHECK ((`price` >= 0))
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 /*!50100 PARTITION BY HASH (id) PARTITIONS 4 */;
INSERT INTO `orders` VALUES (1,'new','a;b','\\'');
DELIMITER ;;
CREATE TRIGGER t BEFORE INSERT ON orders FOR EACH ROW BEGIN SET @a = 1; END;;
DELIMITER ;
"""
OPTIONS = b"""# of everybody
[mysqld]
port=1
[client]
user = "it's" # me
password='a\\\\b\\s' ; ssl-mode
host=db1
!include other.cnf
[binlake]
ssl_ca=/etc/ca.pem
skip-ssl
"""
CONFIGURATION = b"""[archive]
target = "logs"
compress = "zstd"
keep_days = 30
[archive.connection]
ssl_mode = "required"
[archive.servers.shop]
url = "mysql://repl@db1:3306/"
password_file = "secret"
keep_bytes = "500GB"
[serve]
password_file = "secret"
require_tls = false
[serve.listeners.shop]
path = "logs"
port = 3307
"""
INDEX = b"./binlog.000001\n/var/lib/mysql/binlog.000002\n./binlog.000003\n\n"
STATE = ArchiveState(UUID, "mysql", 2, "binlog.000007", 1 << 33, f"{UUID}:1-5", 12.5).to_bytes()
POSITION = Position(UUID, "binlog.000007", 4, f"{UUID}:1-5").to_json().encode()


def _log_index() -> bytes:
    stamp = Stamp("binlog.000001", 4, "0" * 64, "0" * 64)
    return LogIndex.of_rows([COLUMNS.empty_table()], stamp).to_bytes()


def _read_position(path: Path) -> object:
    try:
        return Position.from_json(path.read_text("utf-8", "replace"))
    except ValueError as error:  # which is what its callers expect
        raise BinlogError(str(error)) from error


def _read_log_index(path: Path) -> object:
    with LogFile.open(str(path.with_name("binlog.000001"))) as log:
        return from_index(log, LogIndex.check)


def _read_index(path: Path) -> object:
    return survey([str(path)])


def _read_keys(path: Path) -> None:
    """Servers of both kinds decrypt them; one of the keyrings is another one."""
    password = path.with_name("secret")
    keys = Keyring(str(path), str(password))
    found: list[bytes] = []
    asked: list[Callable[[], bytes]] = [
        lambda: keys.mysql_key(KEY_NAME), lambda: keys.mariadb_key(1, 1)
    ]  # fmt: skip
    for key in asked:
        with suppress(KeyringError):
            found.append(key())
    assert KEY in found or path.read_bytes() not in KEYRINGS.values()


def _login_file(text: bytes) -> bytes:
    """A file as mysql_config_editor writes it."""
    raw, key = bytes(range(20)), bytearray(16)
    for index, byte in enumerate(raw):
        key[index % 16] ^= byte
    made = bytes(4) + raw
    for line in text.splitlines(keepends=True):
        count = 16 - len(line) % 16
        hidden = aes_ecb(bytes(key), line + bytes([count]) * count)
        made += len(hidden).to_bytes(4, "little") + hidden
    return made


def _read_export(path: Path) -> None:
    """A ledger, and the plan of a run that did not finish."""
    folder = path.with_name("export")
    (folder / "_staging-1").mkdir(parents=True, exist_ok=True)
    for name in ("_ledger.json", "_staging-1/run.json"):
        (folder / name).write_bytes(path.read_bytes())
        found = Directory(str(folder)).survey()
        assert len(found.describe()) < 1 << 21


def _read_offset(path: Path) -> None:
    """Spark parses the JSON of a checkpoint."""
    with suppress(ValueError, RecursionError):
        value = json.loads(path.read_bytes())
        StreamOffset.from_json(value)


def _read_expression(path: Path) -> None:
    try:
        parse_where(path.read_text("utf-8", "replace"))
    except ValueError as error:  # which the option shows
        raise BinlogError(shortened(str(error), 1000)) from error


KEYRINGS = {
    "keyring of a component": component_keyring({"another": KEY[:16], KEY_NAME: KEY}),
    "keyring of a plugin": plugin_keyring({"another": KEY[:16], KEY_NAME: KEY}),
    "key file": key_file(),
    "encrypted key file": openssl_enc(key_file(), b"s3cret"),
}
LOGIN = _login_file(b"[client]\nuser = \"x\"\npassword='s3cret'\n[path]\nhost=h\n")
EXPORT = (
    b'{"tables": ["a/b"], "export": {"finished": "x", "rows": 5}, "started": "x", "inputs": ["x"]}'
)
MIRROR = b"""[mirror]
url = "mysql://repl@db1/"
lake = "/lake"
tables = ["shop.*"]
round_bytes = "64MB"
verify_sample = 0.5
[mirror.spark]
"spark.master" = "local[2]"
"""
OFFSET = StreamOffset(
    Position(UUID, "binlog.000007", 400, f"{UUID}:1-5"), commit_us=5, sums={"rows": 5}
).to_json()
EXPRESSION = (
    b"(x = 1 AND before.b LIKE 'x%' OR NOT changed(c) AND d->>'$.a[1].b' = '1.5e3')"
    b" AND e IN (1, 2.5, 'x', 0xff) OR f BETWEEN -1 AND '2020-01-01'"
)

READERS: dict[str, tuple[str, bytes, Callable[[Path], object]]] = {
    "schema file": ("schema.sql", SCHEMA, lambda path: read_schema_file(str(path))),
    "options file": ("my.cnf", OPTIONS, lambda path: client_options(str(path))),
    "configuration": ("binlake.toml", CONFIGURATION, lambda path: read_configuration(str(path))),
    "index of logs": ("binlog.index", INDEX, _read_index),
    "state of an archive": (
        "archive.json",
        STATE,
        lambda path: ArchiveState.from_bytes(path.read_bytes(), "archive.json"),
    ),
    "position": ("position", POSITION, lambda path: _read_position(path)),
    "index of a log": (
        "binlog.000001.index.parquet",
        _log_index(),
        lambda path: _read_log_index(path),
    ),
    **{what: ("keyring", content, _read_keys) for what, content in KEYRINGS.items()},
    "login file": ("login.cnf", LOGIN, lambda path: client_options("none", login_path="path")),
    "export": ("ledger", EXPORT, _read_export),
    "configuration of a mirror": (
        "mirror.toml",
        MIRROR,
        lambda path: read_mirror_configuration(str(path)),
    ),
    "offset of a stream": ("offset", json.dumps(OFFSET).encode(), _read_offset),
    "where": ("expression", EXPRESSION, _read_expression),
}


@pytest.mark.parametrize("what", READERS)
def test_damaged_files_are_read_or_refused(
    what: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    name, content, read = READERS[what]
    monkeypatch.setenv("MYSQL_TEST_LOGIN_FILE", str(tmp_path / name))
    (tmp_path / "secret").write_text("s3cret\n")
    (tmp_path / "binlog.000001").write_bytes(LogBuilder().bytes())
    path = tmp_path / name
    path.write_bytes(content)
    read(path)
    for first in range(0, CASES, 10):
        begun = time.process_time()
        for number in range(first, first + 10):
            path.write_bytes(changed_text(content, random.Random(number)))
            try:
                read(path)
            except BinlogError as error:
                assert len(str(error)) < 5000, number
                assert "s3cret" not in str(error), number
                assert KEY.hex()[:8] not in str(error).lower(), number
            except BaseException:
                print("case", number)
                raise
        assert time.process_time() - begun < CPU_SECONDS, first
    assert capfd.readouterr() == ("", ""), "libraries print nothing of their own"
