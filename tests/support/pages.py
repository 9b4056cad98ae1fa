"""The code blocks of the pages, and a reader who runs them one after the other."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl

from markdown_it import MarkdownIt

from dev.servers import Server
from support.servers.live import tcp_url

__all__ = [
    "NOT_RUN",
    "ROOT",
    "RUN_PAGES",
    "Block",
    "Done",
    "Reader",
    "blocks_of",
    "commands_of",
    "is_left_out",
    "needs_lakes",
    "page_url",
    "shape_of",
    "statements_of",
]

ROOT = Path(__file__).resolve().parents[2]

#: Pages whose blocks run in `tests/spark/test_pages.py` and `tests/mirror/test_pages.py`.
RUN_PAGES = (
    "README.md",
    *sorted(
        f"docs/{page.name}"
        for kind in ("export", "mirror", "spark", "streaming")
        for page in (ROOT / "docs").glob(f"{kind}*.md")
    ),
)

#: The commands and statements that no test can run: the page, a part of the text, and the reason.
NOT_RUN = (
    ("README.md", "git clone", "the address is that of the repository that the reader has"),
    ("README.md", "make setup", "has run before every test"),
    ("README.md", "export PATH", "is about the reader's shell"),
    ("README.md", "make demo", "installs first; `make test-install` runs its program"),
    ("docs/commands.md", "spark://host", "needs a cluster; tests/spark/test_cluster.py has one"),
    ("docs/commands.md", "binlake spark-env", "packs 1 GB; tests/spark/test_cluster.py sends one"),
    ("docs/commands.md", "completion zsh", "needs zsh; tests/unit/cli tests the script"),
    ("docs/comparison.md", "make bench", "takes an hour, and an idle machine"),
    (
        "docs/deployment.md",
        "binlake spark-env",
        "packs 1 GB; tests/spark/test_cluster.py sends one",
    ),
    ("docs/deployment.md", "/opt/binlake", "installs; `make test-install` installs the wheel"),
    ("docs/deployment.md", "useradd", "changes the machine"),
    (
        "docs/deployment.md",
        "install -",
        "changes the machine; tests/meta/test_deploy.py reads the files",
    ),
    ("docs/deployment.md", "systemctl", "needs systemd"),
    ("docs/deployment.md", "podman", "needs podman"),
    (
        "docs/deployment.md",
        "kubectl",
        "needs Kubernetes; tests/meta/test_deploy.py reads the manifests",
    ),
    ("docs/deployment.md", "submit-yarn", "needs YARN"),
    ("docs/export.md", "spark://host", "needs a cluster; tests/spark/test_cluster.py has one"),
    ("docs/mirror-alter.md", "pytest", "is a test"),
    ("docs/mirror-faults.md", "pytest", "is a test"),
    ("docs/mirror-options.md", "type=rest", "tests/mirror/stores has a REST catalog"),
    ("docs/mirror-options.md", 'type="rest"', "tests/mirror/stores has a REST catalog"),
    ("docs/mirror-options.md", "HADOOP_HOME", "needs Hadoop"),
    ("docs/mirror-options.md", "CLASSPATH", "needs Hadoop"),
    ("docs/mirror-options.md", "hdfs://", "needs Hadoop; tests/mirror/stores has an HDFS"),
    ("docs/mirror-options.md", "spark-submit", "needs a cluster; tests/mirror/stores has one"),
    ("docs/mirror-options.md", "type=jdbc", "needs S3; tests/mirror/stores uses such a catalog"),
    ("docs/python.md", "s3://lake/shop", "needs S3, also where tasks of Spark run"),
    (
        "docs/mirror.md",
        "once=False",
        "runs until Ctrl-C; tests/mirror/test_operations.py does the same",
    ),
    (
        "docs/serve.md",
        "MASTER_AUTO_POSITION",
        "needs an old source; tests/server/test_serve.py has one",
    ),
    ("docs/spark.md", "environment", "packs 1 GB; tests/spark/test_cluster.py sends one"),
    ("docs/start.md", "git clone", "the address is that of the repository that the reader has"),
    ("docs/start.md", "make setup", "has run before every test"),
    ("docs/start.md", "export PATH", "is about the reader's shell"),
    ("docs/ui.md", "pip install", "needs PyPI; `make test-install` installs the wheel"),
    ("docs/ui.md", "ssh ", "needs another machine"),
)

#: Languages of blocks that are no code: output, files that show a form.
_DATA = ("ini", "json", "text")
_SERVER = re.compile(r"mysql://repl@db1(?:\.example\.com)?/?(?:\?(?P<query>[^\s\"']*))?")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a page. `line`: the line of its fence, or of its first command if it is indented."""

    page: str
    line: int
    language: str
    code: str


def blocks_of(page: str) -> Iterator[Block]:
    """The blocks of a page (`docs/spark.md`) that are code. Indented blocks are commands."""
    for token in MarkdownIt().parse((ROOT / page).read_text(encoding="utf-8")):
        language = token.info.strip()
        if token.type in ("fence", "code_block") and language[:1] != "{" and language not in _DATA:
            assert token.map is not None
            yield Block(page, token.map[0] + 1, language, token.content)


def needs_lakes(block: Block) -> bool:
    """Whether a block uses Iceberg, Delta or a mirror."""
    return re.search(r"iceberg|delta|binlake mirror", block.code) is not None


def page_url(server: Server, folder: Path) -> Callable[[dict[str, str]], str]:
    """Create the user `repl` with the privileges that the pages list; returns `Reader.url` for the server.

    Its password is in the file `etc/shop.password` of the folder.
    """
    password = folder / "etc" / "shop.password"
    password.parent.mkdir(exist_ok=True)
    password.write_text("secret\n")
    password.chmod(0o600)
    server.execute(
        "DROP USER IF EXISTS repl@'127.0.0.1'",
        "CREATE USER repl@'127.0.0.1' IDENTIFIED BY 'secret'",
        "GRANT SELECT, PROCESS, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO repl@'127.0.0.1'",
    )
    own = {"password_file": str(password)}
    return lambda given: tcp_url(
        server, "repl", **own, **{n: v for n, v in given.items() if n != "password-file"}
    )


@dataclass(frozen=True, slots=True)
class Done:
    """A command that has ended."""

    code: int
    output: str
    errors: str


@dataclass
class Reader:
    """Runs blocks in order; Python blocks share their names.

    `paths` replaces places that the pages name, and `url` returns the server's URL with the options that
    a page gives it. `mirror` runs `binlake mirror` with its arguments, `sql` one statement.
    """

    folder: Path
    paths: Mapping[str, str]
    url: Callable[[dict[str, str]], str]
    sql: Callable[[str], object]
    mirror: Callable[[Sequence[str]], Done] | None = None
    names: dict[str, object] = field(default_factory=lambda: {"__name__": "page"})
    #: The exit codes of commands that do not return 0.
    exit_codes: dict[str, int] = field(default_factory=dict)

    def run(self, block: Block) -> None:
        """Run a block. Raises AssertionError if a command fails or prints something else than the page."""
        match block.language:
            case "python":
                self._python(block)
            case "sql":
                for statement in statements_of(self.text(block.code)):
                    _collect(self.sql(statement))
            case "toml":
                (self.folder / "mirror.toml").write_text(self.text(block.code), encoding="utf-8")
                self._command("binlake mirror --config mirror.toml", None, block)
            case "" | "console" | "sh":
                for command, output in commands_of(block.code):
                    if not is_left_out(block.page, command):
                        self._command(command, output, block)
            case other:
                raise AssertionError(f"{block.page}:{block.line}: no test runs {other!r}")

    def text(self, code: str) -> str:
        """Code with the places and the server of the test."""
        for shown, real in self.paths.items():
            code = re.sub(rf"(?<![\w./]){re.escape(shown)}", lambda _: real, code)  # noqa: B023
        return _SERVER.sub(lambda found: self.url(dict(parse_qsl(found["query"] or ""))), code)

    def _python(self, block: Block) -> None:
        tree = ast.parse(self.text(block.code), block.page)
        ast.increment_lineno(tree, block.line)
        for node in tree.body:
            if isinstance(node, ast.Expr):
                code = compile(ast.Expression(node.value), block.page, "eval")
                _collect(eval(code, self.names))  # noqa: S307
            else:
                exec(compile(ast.Module([node], []), block.page, "exec"), self.names)  # noqa: S102

    def _command(self, command: str, output: str | None, block: Block) -> None:
        if command.startswith("binlake mirror "):
            assert self.mirror is not None, f"{block.page}:{block.line}: {command}"
            words = shlex.split(command, comments=True)[2:]
            done = self.mirror([self.text(word) for word in words])
        else:
            done = self._shell(self.text(command))
        where = f"{block.page}:{block.line}: {command}\n"
        wanted = self.exit_codes.get(command, 0)
        assert done.code == wanted, f"{where}{done.code}: {done.output}{done.errors}"
        if output is not None:
            plain = shape_of if block.page.startswith("docs/mirror") else _compact
            parts = [re.escape(part) for part in plain(output).split("…")]
            assert re.fullmatch(".*".join(parts), plain(done.output)), where + done.output[:2000]

    def _shell(self, command: str) -> Done:
        """Run a command as in a terminal, with programs of the test before the others."""
        own = (str(self.folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"])
        ran = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command], cwd=self.folder,
            env={**os.environ, "PATH": os.pathsep.join(own), "HOME": str(self.folder)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return Done(ran.returncode, ran.stdout, ran.stderr)


def commands_of(code: str) -> Iterator[tuple[str, str | None]]:
    """The commands of a block and the output that it shows; without prompts, it shows none."""
    code = re.sub(r"\\\n\s*", " ", code)
    if code.startswith("$ "):
        for session in re.split(r"^\$ ", code, flags=re.MULTILINE)[1:]:
            command, _, output = session.partition("\n")
            yield command, output
        return
    for line in code.splitlines():
        if line and line[0] != "#":
            yield line, None


def is_left_out(page: str, command: str) -> bool:
    """Whether no test runs a command, or a block with it, of a page."""
    return any(page == where and part in command for where, part, _ in NOT_RUN)


def statements_of(code: str) -> list[str]:
    """The statements of a block of SQL, without comments."""
    return [one.strip() for one in re.sub(r"--[^\n]*", "", code).split(";") if one.strip()]


def _collect(value: object) -> None:
    """Read a data frame: only then does Spark read the source."""
    from pyspark.sql import DataFrame

    if isinstance(value, DataFrame) and not value.isStreaming:
        value.take(1)


def _compact(text: str) -> str:
    """A text without whitespace: the pages wrap long lines."""
    return "".join(text.split())


def shape_of(text: str) -> str:
    """A text whose numbers and ids are alike: the pages show larger tables than the tests have."""
    text = re.sub(r"\d[\d,]*", "0", _UUID.sub("uuid", text))
    return _compact(re.sub(r"\bpart\b", "parts", text))
