"""The TOML file of `archive`, `serve` and `doctor`: what it may say, and what is said of mistakes."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

pytest.importorskip("pymysql")

from binlake.archive.archiver import ArchiveOptions
from binlake.archive.finishing import Finish
from binlake.archive.jobs import ArchiveJob, Archives
from binlake.cli.main import main
from binlake.config.configuration import Configuration, read_configuration
from binlake.config.keys import ARCHIVE_KEYS, LISTENER_KEYS
from binlake.errors import OptionError
from binlake.source.replica.finding import Finding
from binlake.source.replica.passwords import given_password
from binlake.source.replica.url import ServerUrl
from dev.servers.ports import ReservedPort
from support.logs.log_builder import LogBuilder
from support.servers.archiving import command
from support.servers.fake_server import fake_server
from support.servers.fake_source import NAME, UUID, source, whole

DOCS = Path(__file__).resolve().parents[3] / "docs"


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str], str]:
    """Writes a configuration file; returns its path. `secret` beside it is a password file."""
    (tmp_path / "secret").write_text("s3cret\n")

    def write(text: str) -> str:
        (tmp_path / "binlake.toml").write_text(text)
        return str(tmp_path / "binlake.toml")

    return write


@pytest.fixture
def log() -> LogBuilder:
    made = LogBuilder()
    for number in range(3):
        made.transaction(bytes([number]) * 20_000, gtid=None)
    return made


def example(tmp_path: Path) -> str:
    """The example of the documentation, with paths that are there."""
    text = (DOCS / "configuration.md").read_text()
    blocks: list[str] = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    (block,) = blocks
    for path in re.findall(r'"(/[\w/.]+)"', block):
        inside = tmp_path / path.lstrip("/")
        inside.parent.mkdir(parents=True, exist_ok=True)
        if path.endswith(".pem"):
            _write_certificate(inside)
        elif "/secrets/" in path:
            inside.write_text("s3cret\n")
        else:
            inside.mkdir(exist_ok=True)
        block = block.replace(f'"{path}"', f'"{inside}"')
    return block


def _write_certificate(path: Path) -> None:
    pytest.importorskip("cryptography")
    from binlake.serve.tls import _make_certificate

    shutil.copy(_make_certificate(path.parent)[0], path)


def test_the_example_of_the_page(
    tmp_path: Path, written: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRM_PASSWORD", "of-the-crm")
    read = read_configuration(written(example(tmp_path)))
    shop, crm = read.archives
    assert [url.host for url in shop.urls] == ["db1.example.com", "db2.example.com"]
    assert shop.options.finish.compression == crm.options.finish.compression == "zstd"
    assert (shop.options.retention.days, shop.options.retention.bytes) == (30, None)
    assert (crm.options.retention.days, crm.options.retention.bytes) == (30, 500 << 30)
    assert shop.urls[0].option("ssl-mode") == crm.urls[0].option("ssl-mode") == "verify_identity"
    assert shop.urls[0].option("ssl-ca").endswith("databases.pem")
    assert crm.urls[0].option("ssl-ca").endswith("crm.pem")
    for url, password in ((shop.urls[1], "s3cret"), (crm.urls[0], "of-the-crm")):
        known = given_password(url.account, url.option("password-file"), None)
        assert known is not None
        assert known.reveal() == password
    assert read.metrics == ("127.0.0.1", 9105)
    ((name, listener),) = read.listeners
    assert (name, listener.port, listener.bind, listener.require_tls) == (
        "shop",
        3307,
        "0.0.0.0",
        True,
    )
    assert listener.password == "s3cret"
    assert "s3cret" not in repr(read)
    assert "of-the-crm" not in repr(read)


SERVER = '[archive]\ntarget = "logs"\n[archive.servers.a]\nurl = "mysql://u@db1/"\n'
LISTENER = '[serve.listeners.a]\npath = "logs"\nport = 3307\npassword_file = "secret"\n'
MISTAKES = {
    "not toml": ("[archive", "not a TOML file"),
    "a number of 5,000 digits": ("a = " + "9" * 5000, "not a TOML file"),
    "nothing": ("", "the file names nothing to archive and nothing to serve"),
    "unknown table": ("[archives]\n", "archives: unknown key; did you mean archive?"),
    "unknown key": (SERVER + "keep_byte = 5\n",
                    "[archive.servers.a] keep_byte: unknown key; did you mean keep_bytes?"),
    "unknown key of a connection": (SERVER + '[archive.servers.a.connection]\nssl-ca = "x"\n',
                                    "[archive.servers.a.connection] ssl-ca: unknown key; did you mean ssl_ca?"),
    "wrong type": (SERVER + "index = 1\n", "[archive.servers.a] index: expected true or false"),
    "wrong number": (SERVER + "keep_days = -1\n", "keep_days: expected a number that is not negative"),
    "infinite": (SERVER + "keep_days = inf\n", "keep_days: expected a number that is not negative"),
    "wrong size": (SERVER + 'keep_bytes = "5 apples"\n', "keep_bytes: expected a size like 64MB"),
    "wrong choice": (SERVER + 'compress = "lz4"\n', "compress: expected one of none, zstd"),
    "a password": (SERVER.replace("u@", "u:geheim@"),
                   "url: the URL contains a password; use password_file or password_variable"),
    "a password in the query": (SERVER.replace("db1/", "db1/?password=geheim"), "url: the URL contains a password"),
    "no url": ('[archive]\ntarget = "logs"\n[archive.servers.a]\n', "[archive.servers.a] url: it is missing"),
    "no URL of a server": (SERVER.replace("mysql://", "http://"), "[archive.servers.a] url: http://"),
    "no target": ('[archive.servers.a]\nurl = "mysql://u@db1/"\n',
                  "[archive.servers.a] target: it is missing, here and in [archive]"),
    "a target that is a file": (SERVER.replace('"logs"', '"secret/x"'), "[archive] target: "),
    "no password file": (SERVER + 'password_file = "nowhere"\n', "password_file: cannot read the password file"),
    "no variable": (SERVER + 'password_variable = "BINLAKE_NO_SUCH"\n',
                    "password_variable: the environment has no variable BINLAKE_NO_SUCH"),
    "two passwords": (SERVER + 'password_variable = "A"\npassword_file = "secret"\n', "give either this or password_file"),
    "one server twice": (SERVER + '[archive.servers.b]\nurl = "mysql://x@db1/"\n',
                         "[archive.servers.b] url: [archive.servers.a] already archives db1:3306"),
    "a wrong mode": (SERVER + '[archive.servers.a.connection]\nssl_mode = "sometimes"\n',
                     "[archive.servers.a.connection] ssl_mode: ssl-mode=sometimes: expected one of"),
    "no certificate": (SERVER + '[archive.servers.a.connection]\nssl_ca = "nowhere.pem"\n', "nowhere.pem: cannot be used"),
    "a wrong heartbeat": (SERVER + "[archive.servers.a.connection]\nheartbeat = -1\n", "heartbeat=-1: not a number of seconds"),
    "a table that is a value": ("[archive]\nservers = 5\n", "[archive] servers: this is a table: [archive.servers]"),
    "a value that is a table": (SERVER + "[archive.servers.a.keep_days]\n", "keep_days: expected a number"),
    "a server that is no table": ('[archive.servers]\na = "mysql://u@db1/"\n', "[archive.servers] a: this is a table"),
    "no port": (LISTENER.replace("port = 3307\n", ""), "[serve.listeners.a] port: it is missing"),
    "no such port": (LISTENER.replace("3307", "70000"), "port: expected a whole number from 0 to 65535"),
    "no password of replicas": (LISTENER.replace('password_file = "secret"\n', ""),
                                "[serve.listeners.a] password_file: the password with which replicas log in is missing"),
    "one port twice": (LISTENER + LISTENER.replace(".a]", ".b]"),
                       "[serve.listeners.b] port: 3307 is already the port of [serve.listeners.a] port"),
    "a key without a certificate": (LISTENER + 'ssl_key = "secret"\n', "ssl_cert and ssl_key must be given together"),
    "no UUID": (LISTENER + 'server_uuid = "x"\n', "server_uuid: expected a UUID"),
    "control characters": (LISTENER + 'user = "a\\u001b[2J"\n', "[serve.listeners.a] user: expected a string"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.parametrize("program", ["archive", "serve", "doctor"])
def test_a_mistake_names_file_table_and_key(
    name: str, program: str, written: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    """And it is found before anything is connected to, by every command, whichever part it is in."""
    text, said = MISTAKES[name]
    path = written(text)
    assert main([program, "--config", path]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"binlake: {path}: ")
    assert said in error
    assert len(error.splitlines()) == 1
    assert "geheim" not in error


def test_a_file_that_is_not_there_or_too_long(
    tmp_path: Path, written: Callable[[str], str]
) -> None:
    with pytest.raises(OptionError, match="cannot read"):
        read_configuration(str(tmp_path / "nowhere.toml"))
    with pytest.raises(OptionError, match=r"toml: a configuration file has at most 256 kB"):
        read_configuration(written("#" * (256 << 10) + "\n"))
    with pytest.raises(OptionError, match="not a TOML file"):
        read_configuration(written("a = " + "[" * 100_000))


@pytest.mark.parametrize(
    "text",
    [
        "a" + ".a" * 100_000 + " = 1",
        "[" + '"a" . ' * 40_000 + "a]",
        r'"\""' + r'."\""' * 50_000 + " = 1",
    ],
)
def test_a_key_of_many_parts_is_refused_before_it_is_parsed(
    text: str, written: Callable[[str], str]
) -> None:
    """The parser takes quadratic time for it: minutes for 1 MB."""
    with pytest.raises(OptionError, match=r"toml, line 2: a key has at most 16 parts"):
        read_configuration(written("\n" + text + "\n"))


def test_a_value_with_many_periods_is_no_key(written: Callable[[str], str]) -> None:
    host = ".".join("1" * 32)
    with pytest.raises(OptionError, match="host"):  # an unknown key, not one of many parts
        read_configuration(written(f'# {host}\nhost = "{host}"\n'))


def test_flags_that_the_file_has_are_refused(
    written: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(SERVER + LISTENER)
    for words in (
        ["archive", "mysql://db1/", "dir", "--config", path],
        ["archive", "--config", path, "--keep-days", "3"],
        ["archive", "--config", path, "--ssl-mode", "required"],
        ["serve", "dir", "--config", path],
        ["serve", "--config", path, "--port", "3"],
        ["doctor", "mysql://db1/", "--config", path],
    ):
        assert main(words) == 2
        assert f"cannot be combined with --config; set it in {path}" in capsys.readouterr().err
    for words in (["archive"], ["archive", "mysql://db1/"], ["serve"], ["doctor"]):
        assert main(words) == 2
        assert "missing" in capsys.readouterr().err


def test_every_key_of_a_server_and_a_listener_is_used(
    tmp_path: Path, written: Callable[[str], str]
) -> None:
    """A key that is read and then forgotten would change nothing."""
    read = read_configuration(written(
        SERVER + 'compress = "zstd"\nindex = false\nfrom = "newest"\nsync_seconds = 7\n'
        'restart_if_lost = true\nkeep_days = 3\nkeep_bytes = 4096\npassword_file = "secret"\n'
        'target = "elsewhere"\n' + LISTENER +
        'user = "r"\nmax_connections = 3\nrequire_tls = true\nbind = "::1"\nserver_id = 9\n'
        f'server_uuid = "{UUID.upper()}"\nmetrics_port = 3308\nsource = "s"\nkeyring = "secret"\n'
        'keyring_password_file = "secret"\n'
    ))  # fmt: skip
    (job,), ((_, listener),) = read.archives, read.listeners
    options = job.options
    assert (options.finish.compression, options.finish.index) == ("zstd", False)
    assert (options.first, options.sync_s, options.restart_if_lost) == ("newest", 7, True)
    assert (options.retention.days, options.retention.bytes) == (3, 4096)
    assert job.target == str(tmp_path / "elsewhere")
    assert job.urls[0].option("password-file") == str(tmp_path / "secret")
    assert (listener.user, listener.max_connections, listener.bind) == ("r", 3, "::1")
    assert (listener.server_id, listener.server_uuid) == (9, UUID)
    assert (listener.metrics_port, listener.source, listener.require_tls) == (3308, "s", True)
    assert listener.keyring is not None
    assert listener.keyring.password_path == str(tmp_path / "secret")
    assert len(ARCHIVE_KEYS) == 11, "a new key is to be tested here"
    assert len(LISTENER_KEYS) == 6, "a new key is to be tested here"


def test_a_key_index_needs_an_index(written: Callable[[str], str]) -> None:
    (job,) = read_configuration(written(SERVER + "key_index = true\n")).archives
    assert job.options.finish == Finish(key_index=True)
    with pytest.raises(OptionError, match="key_index = true needs index = true"):
        read_configuration(written(SERVER + "index = false\nkey_index = true\n"))


def servers(ports: list[int], *, metrics: str = "") -> str:
    text = f'[archive]\npassword_file = "secret"\n{metrics}[archive.connection]\nssl_mode = "disabled"\noption_file = "none"\n'
    for number, port in enumerate(ports):
        text += f'[archive.servers.s{number}]\nurl = "mysql://u@127.0.0.1:{port}/"\ntarget = "logs{number}"\n'
    return text


def test_one_process_archives_several_servers(
    tmp_path: Path,
    written: Callable[[str], str],
    log: LogBuilder,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One of which is not there: the others are archived all the same, and the exit code tells."""
    closed = ReservedPort()
    with (
        fake_server(source(log, [whole, whole], [])) as (first, _),
        fake_server(source(log, [whole, whole], [])) as (second, _),
    ):
        path = written(servers([first, second]))
        assert main(["archive", "--config", path, "--until-current", "--quiet"]) == 0
    said = capsys.readouterr().err
    for number in (0, 1):
        assert (tmp_path / f"logs{number}" / UUID / NAME).read_bytes() == log.bytes()
        assert f"s{number}: everything before {NAME}:" in said
    shutil.rmtree(tmp_path / "logs0")
    with fake_server(source(log, [whole, whole], [])) as (first, _):
        path = written(servers([first, closed.number]))
        assert main(["archive", "--config", path, "--until-current", "--quiet"]) == 1
    said = capsys.readouterr().err
    assert (tmp_path / "logs0" / UUID / NAME).read_bytes() == log.bytes()
    assert any(re.match(r"s1: .*cannot connect", line) for line in said.splitlines())
    closed.release()


def test_an_archiver_that_fails_is_started_again(tmp_path: Path, log: LogBuilder) -> None:
    """An operator has mended it meanwhile: here by removing a file that was in the way."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / UUID).write_text("in the way")
    lines: list[str] = []

    def say(line: str) -> None:
        lines.append(line)
        if "the next try is in" in line and (tmp_path / "logs" / UUID).is_file():
            (tmp_path / "logs" / UUID).unlink()
        if archives.metrics["a"].offset:
            archives.close()

    with fake_server(source(log, [whole] * 9, [])) as (port, _):
        url = ServerUrl.parse(f"mysql://u:pw@127.0.0.1:{port}/?ssl-mode=disabled&option-file=none")
        job = ArchiveJob("a", (url,), str(tmp_path / "logs"), ArchiveOptions(backoff_s=0.01))
        archives = Archives([job], say, until_current=False, first_pause_s=0.05)
        archives.run()
    assert any(line.startswith("a: ") and "the next try is in" in line for line in lines)
    assert (tmp_path / "logs" / UUID / NAME).read_bytes() == log.bytes()


def test_one_process_serves_several_archives(
    tmp_path: Path, written: Callable[[str], str], log: LogBuilder
) -> None:
    import pymysql

    from support.servers.serving import rows

    text = '[serve]\nuser = "r"\npassword_file = "secret"\n'
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / NAME).write_bytes(log.bytes())
        text += f'[serve.listeners.{name}]\npath = "{name}"\nport = 0\n'
    process = subprocess.Popen(
        command("serve", "--config", written(text)), stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        ports: list[int] = []
        while len(ports) < 2:
            line = process.stderr.readline()
            assert line, "it has ended"
            if found := re.match(r"([ab]): serving .* at 127\.0\.0\.1:(\d+) ", line):
                ports.append(int(found[2]))
        for port in ports:
            connection = pymysql.connect(
                host="127.0.0.1", port=port, user="r", password="s3cret", ssl_disabled=True
            )
            with connection:
                assert rows(connection, "SHOW BINARY LOGS")[0][0] == NAME
    finally:
        process.send_signal(signal.SIGTERM)
        with process.stderr:
            rest = process.stderr.read()
        assert process.wait(120) == 0
    assert "stopping" in rest


def test_doctor_checks_the_configured_servers_and_targets(
    tmp_path: Path,
    written: Callable[[str], str],
    log: LogBuilder,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A server that does not answer and an archive that is not there are problems, and all is checked."""
    closed = ReservedPort()
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / NAME).write_bytes(log.bytes())
    text = servers([closed.number]) + (
        '[serve]\npassword_file = "secret"\n'
        '[serve.listeners.missing]\npath = "nowhere"\nport = 3307\n'
        '[serve.listeners.there]\npath = "there"\nport = 3308\n'
    )
    assert main(["doctor", "--config", written(text)]) == 1
    out = capsys.readouterr().out
    assert "s0: [archive.servers.s0] " in out
    assert "missing: [serve.listeners.missing] " in out
    assert f"there: {NAME} of" in out
    assert main(["doctor", "--config", written(text), "--json"]) == 1
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["name"] for one in found] == ["s0", "missing"]
    for [problem] in (one["findings"] for one in found):
        assert (problem["severity"], problem["topic"]) == ("problem", "config")
        assert problem.keys() == {field.name for field in fields(Finding)}
    closed.release()


def test_metrics_of_all_servers_are_one_page(
    written: Callable[[str], str], log: LogBuilder, tmp_path: Path
) -> None:
    pytest.importorskip("prometheus_client")
    from prometheus_client.openmetrics.exposition import generate_latest
    from prometheus_client.openmetrics.parser import text_string_to_metric_families

    from binlake.archive.metrics import archive_families
    from binlake.metrics_port import registry_of

    read: Configuration = read_configuration(written(servers([1, 2])))
    archives = Archives(read.archives, lambda _: None, until_current=True)
    registry = registry_of(lambda: archive_families(list(archives.metrics.values())))
    families = list(text_string_to_metric_families(generate_latest(registry).decode()))
    assert len({family.name for family in families}) == len(families)
    assert {sample.labels["server"] for family in families for sample in family.samples} == {
        "s0",
        "s1",
    }


def test_a_target_that_cannot_be_written(
    written: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("binlake.config.configuration.os.access", lambda *_: False)
    with pytest.raises(OptionError, match=r"\[archive\] target: no permission to write"):
        read_configuration(written(SERVER))


def test_names_of_keys_are_printed_safely(written: Callable[[str], str]) -> None:
    with pytest.raises(OptionError) as raised:
        read_configuration(written('[archive]\n"a\\u001b[2J\\n' + "x" * 5000 + '" = 1\n'))
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 1000
