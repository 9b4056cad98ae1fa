"""Downloads: Debian packages with a private apt state, npm packages; unpacked under one folder."""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

__all__ = [
    "SetupError",
    "check_digest",
    "home",
    "install_debian",
    "install_npm",
    "made_environment",
    "made_once",
]

_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_NOT_NEEDED = ("doc", "man", "locale")


class SetupError(Exception):
    """A server cannot be provisioned on this machine; the message says what is missing."""


def home() -> Path:
    """Where downloads and unpacked servers are kept."""
    named = os.environ.get("BINLAKE_SERVERS_HOME")
    return Path(named).resolve() if named else Path.home() / ".cache" / "binlake-servers"


def check_digest(path: Path, algorithm: str, expected: str) -> None:
    """Raise SetupError if a downloaded file has another digest (in hex) than the expected one."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, algorithm).hexdigest()
    if found != expected:
        raise SetupError(f"{path.name} has the {algorithm} {found}, and should have {expected}")


def _need(program: str) -> None:
    if shutil.which(program) is None:
        raise SetupError(f"{program} is needed to get this server")


def _run(command: Sequence[str | Path], *, cwd: Path | None = None) -> None:
    run = subprocess.run(
        list(map(str, command)), cwd=cwd, capture_output=True, text=True, check=False
    )
    if run.returncode:
        raise SetupError(f"{command[0]} failed: {run.stderr.strip()[-1000:]}")


@contextmanager
def _locked() -> Iterator[None]:
    """One process at a time changes the home folder."""
    home().mkdir(parents=True, exist_ok=True)
    with (home() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def made_once(folder: Path, fill: Callable[[Path], None]) -> Path:
    """A folder below `home`; made by `fill` and moved into place whole, so it exists or not."""
    if folder.exists():
        return folder
    with _locked():
        if not folder.exists():
            partial = folder.with_name(folder.name + ".partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            fill(partial)
            partial.rename(folder)
    return folder


def _install(name: str, fill: Callable[[Path], None]) -> Path:
    """The folder of a server."""
    root = home() / "roots" / name
    if not root.exists() and (platform.machine() != "x86_64" or platform.system() != "Linux"):
        raise SetupError("the servers are programs for Linux on x86-64")
    return made_once(root, fill)


def made_environment(name: str, lock: Path) -> Path:
    """The Python of an environment with the packages of a lock file; installs them when it is not there, or has those of
    another one.

    Raises SetupError.
    """
    folder = home() / "roots" / name
    installed = folder / "installed.lock"

    def is_of_another_lock() -> bool:
        known = installed.read_bytes() if installed.is_file() else b""
        return folder.exists() and known != lock.read_bytes()

    if is_of_another_lock():
        with _locked():
            if is_of_another_lock():  # no other process has made it again meanwhile
                shutil.rmtree(folder)

    def fill(folder: Path) -> None:
        _run([sys.executable, "-m", "venv", folder])
        # an environment that is moved keeps running through its python, not through its scripts
        pip = folder / "bin" / "python", "-m", "pip", "install", "--quiet"
        _run([*pip, "--require-hashes", "--requirement", lock])
        shutil.copyfile(lock, folder / "installed.lock")

    return made_once(folder, fill) / "bin" / "python"


def debian_mirror() -> str:
    """Where this machine's own apt takes Debian from, or $BINLAKE_DEBIAN_MIRROR."""
    named = os.environ.get("BINLAKE_DEBIAN_MIRROR")
    if named:
        return named
    sources = [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]
    text = "\n".join(path.read_text() for path in sources if path.is_file())
    match = re.search(r"^(?:URIs:|deb\b).*?(\S+/debian/?)(?:\s|$)", text, re.MULTILINE)
    if match is None or not _KEYRING.exists():
        raise SetupError(
            "no Debian mirror is known: set BINLAKE_DEBIAN_MIRROR, and install debian-archive-keyring"
        )
    return match[1]


def _apt_options(suite: str, debs: Path) -> list[str]:
    """Options that give apt-get a state of its own: the host's lists and packages do not count."""
    state = home() / "apt" / suite
    for folder in (state / "lists" / "partial", state / "cache", debs / "partial"):
        folder.mkdir(parents=True, exist_ok=True)
    (state / "sources.list").write_text(
        f"deb [signed-by={_KEYRING}] {debian_mirror()} {suite} main\n"
    )
    (state / "status").touch()
    settings = {
        "Dir::Etc::sourcelist": state / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::lists": state / "lists",
        "Dir::State::status": state / "status",
        "Dir::Cache": state / "cache",
        "Dir::Cache::archives": debs,
        "APT::Architecture": "amd64",
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
        "Debug::NoLocking": "true",
    }
    return [part for key, value in settings.items() for part in ("-o", f"{key}={value}")]


def _unpack(debs: Path, root: Path) -> None:
    for merged in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / merged).mkdir(parents=True)
        (root / merged).symlink_to(f"usr/{merged}")
    excludes = [f"--exclude=./usr/share/{folder}" for folder in _NOT_NEEDED]
    for deb in sorted(debs.glob("*.deb")):
        files = subprocess.run(
            ["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE, check=True
        )
        extract = ["tar", "-x", "--keep-directory-symlink", "-C", str(root), *excludes]
        subprocess.run(extract, input=files.stdout, check=True)


def install_debian(name: str, suite: str, packages: Sequence[str]) -> Path:
    """Packages of a Debian suite, with everything that they depend on, unpacked; its folder.

    apt verifies the signature of the suite's index, and with it the hash of each package.
    """

    def fill(root: Path) -> None:
        for program in ("apt-get", "dpkg-deb", "tar"):
            _need(program)
        debs = home() / "debs" / name
        options = _apt_options(suite, debs)
        _run(["apt-get", "-qq", *options, "update"])
        download = ["install", "-y", "--no-install-recommends", "--download-only"]
        _run(["apt-get", "-qq", *options, *download, *packages])
        _unpack(debs, root)
        shutil.rmtree(debs)

    return _install(name, fill)


def install_npm(name: str, package: str, sha512: str) -> Path:
    """One npm package with this digest (in hex), unpacked; its folder."""

    def fill(root: Path) -> None:
        _need("npm")
        downloads = home() / "npm" / name
        shutil.rmtree(downloads, ignore_errors=True)
        downloads.mkdir(parents=True)
        _run(["npm", "pack", "--silent", package], cwd=downloads)
        archive = next(downloads.glob("*.tgz"))
        check_digest(archive, "sha512", sha512)
        _run(["tar", "-xzf", archive, "--strip-components=1", "--no-same-owner", "-C", root])
        shutil.rmtree(downloads)

    return _install(name, fill)
