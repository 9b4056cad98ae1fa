"""Install the built wheel as users do, and try the commands: test_install.py [--python NAME]… [EXTRAS…].

For each set of extras (`none`, `server`, `crypto,server`, …) a fresh environment gets the wheel of dist/ that fits
its Python (`--python`: an interpreter's name or path; default: the one that runs this), without a compiler on PATH and from wheels only (of PySpark there is only a source archive, of Python files
and jars). Then the commands read the demo logs; with `server`, `tail` follows them through `binlake serve`.
With `polars`, a table becomes a data frame. With `spark`, the export and the program of `make demo` run on Spark. With `mirror`, `binlake mirror` shows its help,
and names a lake that does not exist.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DEMO = ROOT / "demo" / "mysql-9.7"
SETS = ("none", "crypto", "server", "query", "polars", "ui", "spark", "mirror")
ROWS = 2771  # in the demo logs of MySQL
_NEEDED = ("env", "dirname", "readlink", "ps", "java", "bash", "sh", "nice", "uname", "tput")


class Installation:
    """A fresh environment of an interpreter, with a PATH on which there is no compiler."""

    def __init__(self, python: str, folder: Path, extras: str) -> None:
        self.extras = "" if extras == "none" else f"[{extras}]"
        self.bin = folder / "environment" / "bin"
        programs = folder / "programs"
        programs.mkdir()
        for name in _NEEDED:  # what Spark's start script calls
            if (found := shutil.which(name)) is not None:
                (programs / name).symlink_to(found)
        self.environment = {
            **{k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")},
            "PATH": f"{self.bin}{os.pathsep}{programs}",
            "CC": "no-compiler",
        }
        self.folder = folder
        subprocess.run([python, "-m", "venv", self.bin.parent], check=True)
        asked = "import sys; print('cp%d%d' % sys.version_info[:2])"
        self.tag = self.run("python", "-c", asked).strip()

    def run(self, *words: str) -> str:
        """The output of a program of the environment, which must succeed."""
        run = self.ended(*words)
        if run.returncode:
            sys.exit(f"{' '.join(words)}: exit code {run.returncode}\n{run.stdout}\n{run.stderr}")
        return run.stdout

    def ended(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The end of a program of the environment, with its output and its messages."""
        return subprocess.run(
            [str(self.bin / words[0]), *words[1:]],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )

    def install(self) -> None:
        """Install the wheel and its extras, from wheels only, except PySpark."""
        assert shutil.which("gcc", path=self.environment["PATH"]) is None
        options = ["--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]
        options += ["--no-binary", "pyspark"]
        pins = ["--constraint", str(ROOT / "constraints.txt")]
        links = ["--find-links", str(ROOT / "dist"), "--no-index"]
        self.run("pip", "install", *options, *links, "--no-deps", "binlake")
        wheel = next((ROOT / "dist").glob(f"*-{self.tag}-*.whl"), None)
        if wheel is None:
            sys.exit(f"dist/ has no wheel for {self.tag}: make build PYTHONS=…")
        self.run("pip", "install", *options, *pins, f"{wheel}{self.extras}")

    def check(self) -> None:
        """Run the commands."""
        demo = str(DEMO)
        lines = self.run("binlake", "rows", demo).splitlines()
        assert len(lines) == ROWS
        assert json.loads(lines[0])["op"] == "insert"
        assert "all is well" in self.run("binlake", "verify", demo)
        self.run("binlake", "export", demo, "local", "--engine", "local")
        exported = json.loads((self.folder / "local" / "_ledger.json").read_text())
        assert exported
        for shell in ("bash", "zsh", "fish"):
            assert "_BINLAKE_COMPLETE" in self.run("binlake", "completion", shell)
        assert (self.bin.parent / "share/man/man1/binlake-rows.1").exists()
        if "server" in self.extras:
            self._tail()
        if "query" in self.extras:
            counted = self.run("binlake", "query", "SELECT count(*) AS n FROM changes", demo)
            assert json.loads(counted) == {"n": ROWS}
        if "polars" in self.extras:
            rows = f"import binlake; print(binlake.open({demo!r}).to_polars('shop.orders').height)"
            assert int(self.run("python", "-c", rows)) > 0
        if "ui" in self.extras:
            self._page()
        if "spark" in self.extras or "mirror" in self.extras:
            self.run("binlake", "export", demo, "spark")
            assert (self.folder / "spark" / "_ledger.json").exists()
            self._worker()
        if "spark" in self.extras:
            self._demo()
        if "mirror" in self.extras:
            assert "resync" in self.run("binlake", "mirror", "--help")
            lake = str(self.folder / "no-lake")
            status = self.ended("binlake", "mirror", "status", lake)
            assert status.returncode == 2
            assert status.stdout == ""
            [message] = status.stderr.splitlines()
            assert message.startswith(f"binlake: {lake} has no mirror; start one with ")

    def _worker(self) -> None:
        """Start a Python as Spark does for a worker."""
        [script] = self.bin.parent.glob("lib/python*/site-packages/binlake/spark/worker-python.sh")
        environment = {"PYTHONPATH": "/pyspark.zip", "BINLAKE_WORKER_PYTHON": sys.executable}
        subprocess.run([script, "-S", "-c", "pass"], env=environment, check=True)

    def _demo(self) -> None:
        """Run `make demo` with the installed wheel: its program, in a folder with the demo logs only."""
        (self.folder / "demo").symlink_to(ROOT / "demo")
        printed = self.run("python", str(ROOT / "dev" / "demo.py"))
        assert "all is well" in printed
        assert "done in " in printed

    def _page(self) -> None:
        server = subprocess.Popen(
            [str(self.bin / "binlake"), "ui", str(DEMO), "--no-browser"],
            env=self.environment, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            assert server.stderr is not None
            address = server.stderr.readline().split()[-1]
            opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            assert b"page.js" in opener.open(address).read()
            script = urllib.parse.urljoin(address, "/static/page.js")
            assert b"new Page()" in opener.open(script).read()
        finally:
            server.terminate()
            server.wait()

    def _tail(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as reserved:
            port = reserved.getsockname()[1]
        password = self.folder / "password"
        password.write_text("only for this test\n")
        words = ["serve", str(DEMO), "--port", str(port), "--password-file", str(password)]
        server = subprocess.Popen(
            [str(self.bin / "binlake"), *words],
            env=self.environment, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            assert server.stderr is not None
            assert "serving" in server.stderr.readline()
            url = f"mysql://replica@127.0.0.1:{port}/?ssl-mode=required&password-file={password}"
            shown = self.run("binlake", "tail", url, "--start", "binlog.000001:4", "-n", "3")
            assert len(shown.splitlines()) == 3
        finally:
            server.terminate()
            server.wait()


def main(arguments: list[str]) -> None:
    """Install and check each set of extras, for each interpreter."""
    parser = argparse.ArgumentParser(prog="test_install.py")
    parser.add_argument("--python", action="append", metavar="NAME", dest="pythons")
    parser.add_argument("sets", nargs="*", metavar="EXTRAS")
    given = parser.parse_args(arguments)
    for python in given.pythons or [sys.executable]:
        for extras in given.sets or SETS:
            started = time.monotonic()
            with tempfile.TemporaryDirectory() as folder:
                installation = Installation(python, Path(folder), extras)
                installation.install()
                installation.check()
            print(
                f"{installation.tag}, binlake{installation.extras}: installed and tried in"
                f" {time.monotonic() - started:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1:])
