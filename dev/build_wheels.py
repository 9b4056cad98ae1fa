"""Build the source archive and wheels into dist/: `make build`, or build_wheels.py [PYTHON…].

Each PYTHON is an interpreter (`python3.12`, a path); by default the one that runs this. The wheels are
built from the source archive, so an archive that lacks a file fails here. A wheel becomes a manylinux
wheel where auditwheel can make one: auditwheel puts libdeflate into it. Without libdeflate no wheel is built.
A wheel contains a software bill of materials (`.dist-info/sboms/binlake.cdx.json`, PEP 770).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from dev.check_tools import missing_libdeflate
from dev.man_pages import write_man_pages
from dev.sbom import software_bill

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
DIST = ROOT / "dist"
MAN = ROOT / "man"  # setup.py installs what is here
_REQUIREMENTS = ("build", "Cython", "setuptools", "wheel")


def build_sources() -> Path:
    """The source archive, with man pages."""
    shutil.rmtree(MAN, ignore_errors=True)
    write_man_pages(MAN)
    try:
        return _built(Path(sys.executable), "--sdist", ROOT, DIST)
    finally:
        shutil.rmtree(MAN)


def _built(python: Path, kind: str, source: Path, folder: Path) -> Path:
    """The files that `python -m build` made in a folder; its output is printed if it fails."""
    before = set(folder.glob("*"))
    command = [str(python), "-m", "build", kind, "--no-isolation", "--outdir", str(folder), "."]
    run = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    if run.returncode:
        sys.exit(f"{run.stdout[-3000:]}\n{run.stderr[-3000:]}\n{' '.join(command)} failed")
    suffix = ".whl" if kind == "--wheel" else ".tar.gz"
    new = [path for path in folder.glob(f"*{suffix}") if path not in before]
    return new[0] if new else max(folder.glob(f"*{suffix}"), key=lambda path: path.stat().st_mtime)


def interpreter(name: str) -> Path:
    """A Python with the pinned build tools: this one, or an environment of another one."""
    if name == sys.executable:
        return Path(name)
    asked = [name, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    version = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    folder = BUILD / f"python{version}"
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([name, "-m", "venv", str(folder)], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        pins = ["--constraint", str(ROOT / "constraints.txt")]
        subprocess.run([*install, *pins, *_REQUIREMENTS], check=True)
    return python


def check(wheel: Path, core: Path) -> None:
    """A wheel without its compiled core must never leave this machine."""
    sources = {
        path.relative_to(core).with_suffix("").as_posix()
        for path in core.glob("*/*.py*")
        if path.suffix in (".py", ".pyx") and path.stem != "__init__"
    }
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    compiled = {
        name.partition("binlake/core/")[2].partition(".")[0]
        for name in names
        if name.endswith((".so", ".pyd"))
    }
    if compiled != sources:
        sys.exit(f"{wheel.name}: compiled are {sorted(compiled)}, wanted {sorted(sources)}")
    if not any(name.endswith("/man1/binlake.1") for name in names):
        sys.exit(f"{wheel.name}: the man pages are missing")


def with_bill(wheel: Path) -> Path:
    """The wheel, with the software bill of materials added."""
    tool = [sys.executable, "-m", "wheel"]
    unpacked = wheel.parent / "unpacked"
    command = [*tool, "unpack", "--dest", str(unpacked), str(wheel)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (root,) = unpacked.iterdir()
    (info,) = root.glob("*.dist-info")
    (info / "sboms").mkdir()
    (info / "sboms" / "binlake.cdx.json").write_text(software_bill(), encoding="utf-8")
    wheel.unlink()
    command = [*tool, "pack", "--dest-dir", str(wheel.parent), str(root)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return wheel


def repair(wheel: Path) -> Path:
    """The manylinux form of a wheel; the wheel itself where that cannot be made."""
    tools = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", folder, str(wheel)]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if run.returncode:
            reason = (run.stderr or run.stdout).strip().splitlines()[-1:]
            print(f"no manylinux wheel: {' '.join(reason)}", file=sys.stderr)
            return Path(shutil.copy(wheel, DIST))
        (repaired,) = Path(folder).glob("*.whl")
        return Path(shutil.copy(repaired, DIST))


def build_wheel(python: Path, archive: Path) -> Path:
    """A wheel of the source archive for one interpreter, in dist/."""
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
        (source,) = Path(folder).iterdir()
        wheel = _built(python, "--wheel", source, Path(folder))
        check(wheel, source / "src/binlake/core")
        return repair(with_bill(wheel))


def main(names: list[str]) -> None:
    """Build, check, repair."""
    problems = missing_libdeflate()
    if problems:
        sys.exit("\n".join(problems))
    DIST.mkdir(exist_ok=True)
    archive = build_sources()
    print(archive.relative_to(ROOT))
    for name in names or [sys.executable]:
        print(build_wheel(interpreter(name), archive).relative_to(ROOT))


if __name__ == "__main__":
    main(sys.argv[1:])
