"""The process that finishes logs: its errors, and the modules that it imports."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from binlake.archive.finishing import Finish
from binlake.archive.folder import Folder
from binlake.values.log_names import index_path

# The process with a fault: its arguments are those of the module.
FAULTY = """if True:
    import sys, threading
    from binlake.archive import finishing
    seen = threading.Event()
    def finish(folder, name, options):
        if name == "bad":
            {fault}
        assert seen.wait(30)
    finishing.finish_log = finish
    {output}
    sys.exit(finishing._main(sys.argv[1:]))
"""


def faulty(folder: Folder, fault: str, output: str = "") -> subprocess.CompletedProcess[str]:
    code = FAULTY.format(fault=fault, output=output)
    command = [sys.executable, "-c", code, folder.path, *Finish().to_words()]
    return subprocess.run(
        command, input="bad\ngood\n", capture_output=True, text=True, check=False, timeout=120
    )


def test_an_unexpected_error_of_a_log_leaves_the_others(folder: Folder) -> None:
    fault = "threading.Timer(0.5, seen.set).start(); raise RuntimeError('unexpected')"
    done = faulty(folder, fault)
    assert done.returncode == 0
    assert sorted(done.stdout.splitlines()) == ["again bad", "done good"]
    assert "RuntimeError: unexpected" in done.stderr


def test_a_report_that_cannot_be_written_ends_the_process(folder: Folder) -> None:
    done = faulty(folder, "seen.set()", "sys.stdout = open('/dev/full', 'w')")
    assert done.returncode == 1
    assert "No space left on device" in done.stderr


def test_its_process_is_quick_to_start(tmp_path: Path, golden: Path) -> None:
    """pyarrow would import pandas and NumPy, where they are installed; nothing here needs them."""
    name = "binlog.000001"
    (tmp_path / name).write_bytes((golden / "mysql-9.7/rotation" / name).read_bytes())
    module = [sys.executable, "-X", "importtime", "-m", "binlake.archive.finishing"]
    words = [*module, str(tmp_path), *Finish().to_words()]
    done = subprocess.run(words, input=f"{name}\n", capture_output=True, text=True, check=True)
    assert (tmp_path / index_path(name)).exists()
    assert "pyarrow.lib" in done.stderr
    assert not re.search(r"\| +(numpy|pandas)\.", done.stderr)


def test_following_a_server_does_not_import_pyarrow() -> None:
    code = "import sys; import binlake.cli.archive, binlake.archive.raw; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"pyarrow", "pandas", "numpy", "rich.console"} & set(done.stdout.split())
