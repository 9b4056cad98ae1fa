"""Make tests/golden anew: `python -m dev.golden [--server NAME] [--case NAME] [OUTDIR]`."""

from __future__ import annotations

import argparse
import contextlib
import gzip
import hashlib
import json
import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dev.golden.cases import DATABASE, Action, Case, Step, cases
from dev.golden.keys import keep_keys, prepare_keys
from dev.golden.oracle import snapshot
from dev.servers import INSTALLATIONS, RefusedError, Server, Session, installation

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "golden"
SESSION = ("SET SESSION sql_mode = ''", "SET SESSION time_zone = '+00:00'", f"USE {DATABASE}")
LOADED = "1,first\n2,\n3,naïve\n"


class Recorder:
    """Runs one case on a fresh server and keeps what its folder will hold."""

    def __init__(self, server: Server, case: Case, out: Path) -> None:
        self.server = server
        self.case = case
        self.out = out
        self.snapshots: list[dict[str, Any]] = []
        self.tables: dict[str, None] = {}
        self.copies: list[str] = []
        self.options = case.options_for(server.name)

    def record(self) -> None:
        """Run every step, then write the folder."""
        self.server.prepare()
        self.options += prepare_keys(self.server, self.case.keys)
        self.server.start(self.options)
        self.server.execute(
            f"DROP DATABASE IF EXISTS {DATABASE}",
            self.server.kind.reset_statement,
            f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4",
        )
        # LOAD DATA finds a relative name in the folder of the current database
        (self.server.data / DATABASE / "load.csv").write_text(LOADED, encoding="latin-1")
        for step in self.case.steps(self.server):
            self._run(step)
        self._finish()

    def _run(self, step: Step) -> None:
        with self.server.session() as session:
            session.execute(*SESSION)
            session.execute(*step.statements)
        name, pos = self.server.position()
        if step.action is not None:
            self._act(step.action, name)
        with self.server.session() as session:
            for table in step.tables:
                self.tables[table] = None
                seen = snapshot(session, DATABASE, table)
                self.snapshots.append({"label": step.label, "file": name, "pos": pos, **seen})

    def _act(self, action: Action, name: str) -> None:
        if action is Action.RESTART:
            self.server.stop()
        else:
            if action is Action.CRASH:
                self.server.kill()
            copy = f"{action.name.lower()}.{name}"
            shutil.copyfile(self.server.data / name, self.out / copy)
            self.copies.append(copy)
        if action is not Action.COPY:
            self.server.start(self.options)

    def _finish(self) -> None:
        with self.server.session(DATABASE) as session:
            version = session.rows("SELECT VERSION()")[0][0]
            events = [_listing(session, path.name) for path in self.server.log_files()]
            schema = "\n\n".join(_definitions(session, self.tables))
        self.server.stop()
        files = [self._keep(path) for path in self.server.log_files()]
        keep_keys(self.server, self.case.keys, self.out)
        index = "".join(f"./{file['name']}\n" for file in files)
        (self.out / "binlog.index").write_text(index)
        (self.out / "schema.sql").write_text(schema + "\n")
        _write_lines(self.out / "oracle.jsonl.gz", self.snapshots)
        _write_lines(self.out / "events.jsonl.gz", events)
        about = {
            "about": self.case.about,
            "server": self.server.name,
            "version": version,
            "options": list(self.case.options_for(self.server.name)),
            "files": files,
            "copies": self.copies,
        }
        (self.out / "case.json").write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n")

    def _keep(self, path: Path) -> dict[str, Any]:
        data = path.read_bytes()
        (self.out / path.name).write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        return {"name": path.name, "bytes": len(data), "sha256": digest}


def _listing(session: Session, file: str) -> dict[str, Any]:
    """The server's own list of a file's events: [position, its name for the type, end]."""
    rows = session.rows(f"SHOW BINLOG EVENTS IN '{file}'")
    return {"file": file, "events": [[int(r[1] or 0), r[2], int(r[4] or 0)] for r in rows]}


def _definitions(session: Session, tables: Iterable[str]) -> Iterable[str]:
    for table in tables:
        # a step may have dropped or renamed it
        with contextlib.suppress(RefusedError):
            quoted = table.replace("`", "``")
            yield f"{session.rows(f'SHOW CREATE TABLE `{quoted}`')[0][1]};"


def _write_lines(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
        packed.write(text.encode())


def make(server_name: str, wanted: list[Case], out: Path) -> int:
    """Make the cases of one server; returns how many failed."""
    failed = 0
    kind = installation(server_name)
    for case in wanted:
        folder = out / server_name / case.name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        run = Path(tempfile.mkdtemp(prefix="binlake-"))
        server = Server(kind, run)
        try:
            Recorder(server, case, folder).record()
            size = sum(path.stat().st_size for path in folder.iterdir())
            print(f"{server_name} {case.name}: {size // 1024} KiB", flush=True)
        except RefusedError as error:
            failed += 1
            print(f"{server_name} {case.name}: {error}", file=sys.stderr, flush=True)
        finally:
            server.kill()
            shutil.rmtree(run, ignore_errors=True)
    return failed


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m dev.golden", description=__doc__)
    parser.add_argument("out", nargs="?", type=Path, default=GOLDEN)
    parser.add_argument("--server", action="append", choices=list(INSTALLATIONS))
    parser.add_argument("--case", action="append", choices=[case.name for case in cases()])
    given = parser.parse_args()
    failed = 0
    for name in given.server or INSTALLATIONS:
        wanted = [c for c in cases() if name in c.servers and c.name in (given.case or [c.name])]
        failed += make(name, wanted, given.out)
    return 1 if failed else 0


sys.exit(main())
