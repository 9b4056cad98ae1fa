"""The commands as whole processes: beside the server's own tool, and how soon they begin.

Text goes to /dev/null in both. `first line` is the time from the start of a process to its first
line of output; the process is stopped then.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dev.servers import installation

if TYPE_CHECKING:
    from benchmarks.__main__ import Bench

__all__ = ["BINLAKE", "FORMS", "starts", "texts"]

#: The forms of `mysqlbinlog`, by the arguments that choose them.
FORMS = {
    "": (),
    " -v": ("-v",),
    " -vv decode-rows": ("-vv", "--base64-output=decode-rows"),
}
BINLAKE: list[str | Path] = [sys.executable, "-m", "binlake.cli.main"]
_FIRST_LINE = Path(__file__).parent / "cases" / "first_line.py"


def texts(bench: Bench, server: str) -> None:
    """Commands that print or count a whole log."""
    tool: list[str | Path] = [*installation(server).reader_command()]
    for form, words in FORMS.items():
        if "decoders" not in bench.parts or "-vv" not in form:  # that one is measured there
            bench.command(f"mysqlbinlog{form}", [*tool, *words, bench.log], keep_output=False)
        bench.command(
            f"binlake mysqlbinlog{form}",
            [*BINLAKE, "mysqlbinlog", *words, bench.log],
            keep_output=False,
        )
    for name in ("inspect", "rows", "sql", "stats", "verify"):
        bench.command(f"binlake {name}", [*BINLAKE, name, bench.log], keep_output=False)
    index = [*BINLAKE, "index", "--again", bench.log]
    bench.command("binlake index", index, keep_output=False)
    for beside in bench.folder.glob(f"{bench.log.name}*index*"):
        beside.unlink()


def starts(bench: Bench, root: Path) -> None:
    """How soon a command of a small log begins."""
    small = root / "demo" / "mysql-9.7" / "binlog.000001"
    bench.command("import pyarrow", [sys.executable, "-c", "import pyarrow"], keep_output=False)
    opened = f"import binlake; binlake.open({str(small)!r})"
    bench.command("binlake.open", [sys.executable, "-c", opened], keep_output=False)
    bench.command("binlake --help", [*BINLAKE, "--help"], keep_output=False)
    for name in ("inspect", "rows", "stats"):
        bench.command(f"first line of {name}", [sys.executable, _FIRST_LINE, *BINLAKE, name, small])
