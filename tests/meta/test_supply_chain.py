"""Installed and downloaded packages have hashes, and wheels record what they were tested with."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dev.servers.packages import SetupError, check_digest

ROOT = Path(__file__).resolve().parents[2]
LOCKS = [ROOT / "requirements.lock", *sorted((ROOT / "dev" / "locks").glob("*.lock"))]


def locked(lock: Path) -> dict[str, str]:
    """The version of each package in a lock file."""
    pins = re.findall(r"^([\w.-]+)==([^\s;]+)", lock.read_text(), re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in pins}


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_every_package_has_hashes_and_no_registry(lock: Path) -> None:
    text = lock.read_text()
    assert "://" not in text
    entries = re.split(r"\n(?=\S)", text.strip())
    assert entries
    for entry in entries:
        assert re.match(r"[\w.-]+==\S+.*(?:\s--hash=sha256:[0-9a-f]{64}.*)+\Z", entry, re.DOTALL)


def test_the_lock_has_the_versions_of_the_constraints() -> None:
    pinned = locked(ROOT / "constraints.txt")
    of_other_locks = {"mysql-replication"}
    of_windows = {"colorama"}
    found = locked(ROOT / "requirements.lock")
    assert {name: found[name] for name in pinned.keys() - of_other_locks} == {
        name: version for name, version in pinned.items() if name not in of_other_locks
    }
    assert found.keys() - pinned.keys() <= of_windows


def test_every_tool_is_locked_at_the_requested_version() -> None:
    for asked in (ROOT / "dev" / "locks").glob("*.in"):
        versions = locked(asked.with_suffix(".lock"))
        assert locked(asked).items() <= versions.items()


def test_a_download_with_other_contents_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jar"
    path.write_bytes(b"other")
    with pytest.raises(SetupError, match=r"a\.jar has the sha256 "):
        check_digest(path, "sha256", "0" * 64)


def test_the_bill_of_materials() -> None:
    program = "from dev.sbom import software_bill; print(software_bill())"
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, check=True)
    bill = json.loads(run.stdout)
    assert (bill["bomFormat"], bill["metadata"]["component"]["name"]) == ("CycloneDX", "binlake")
    found = {part["name"]: part for part in bill["components"]}
    assert found["pyarrow"]["scope"] == "required"
    assert found["pyspark"]["scope"] == "optional"
    assert "pytest" not in found
    pinned = locked(ROOT / "requirements.lock")
    newest = {"pyspark": "4.3.0"}  # in the environment of Spark's newest line
    for name, part in found.items():
        assert part["version"] in (pinned[name], newest.get(name))


def test_an_audit_without_a_service_reports_no_result(tmp_path: Path) -> None:
    (tmp_path / "pip_audit.py").write_text(
        "import sys; sys.exit('requests.exceptions.ConnectionError: Max retries exceeded')"
    )
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import dev.audit; sys.exit(dev.audit.main())"
    for more, code in (([], 3), (["--unless-unreachable"], 0)):
        run = subprocess.run(
            [sys.executable, "-c", program, *more],
            cwd=ROOT,
            env={"PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == code, run.stderr
        assert "NOT CHECKED" in run.stderr
