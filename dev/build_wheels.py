"""Build the wheel into dist/, as a manylinux wheel where auditwheel can: `make build`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLAIN = ROOT / "build" / "wheel"
DIST = ROOT / "dist"


def check(wheel: Path) -> None:
    """A wheel without its compiled core must never leave this machine."""
    sources = {p.stem for p in (ROOT / "src/binlake/core").glob("*.py")} - {"__init__"}
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    compiled = {
        name.rpartition("/")[2].partition(".")[0]
        for name in names
        if name.endswith((".so", ".pyd"))
    }
    if compiled != sources:
        sys.exit(f"{wheel.name}: compiled are {sorted(compiled)}, wanted {sorted(sources)}")


def repair(wheel: Path) -> Path:
    """The manylinux form of a wheel; the wheel itself where that cannot be made."""
    tools = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    command = [sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", str(DIST), str(wheel)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if run.returncode:
        reason = (run.stderr or run.stdout).strip().splitlines()[-1:]
        print(f"no manylinux wheel: {' '.join(reason)}", file=sys.stderr)
        return Path(shutil.copy(wheel, DIST))
    return max(DIST.glob("*.whl"), key=lambda path: path.stat().st_mtime)


def main() -> None:
    """Build, check, repair."""
    # what an earlier build left there would go into the wheel
    for folder in (PLAIN, *(ROOT / "build").glob("lib*")):
        shutil.rmtree(folder, ignore_errors=True)
    DIST.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(PLAIN)]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = PLAIN.glob("*.whl")
    check(wheel)
    print(repair(wheel).relative_to(ROOT))


if __name__ == "__main__":
    main()
