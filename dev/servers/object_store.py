"""A server that speaks S3 (moto's), in an environment of its own: tests of object stores use it."""

from __future__ import annotations

import contextlib
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from dev.servers.packages import made_environment
from dev.servers.ports import ReservedPort, await_port

__all__ = ["OBJECT_STORE", "object_store", "provision_object_store"]

#: Its name among what can be provisioned.
OBJECT_STORE = "s3"

# moto's extra "server" brings what all of AWS needs; S3 needs what is in this file.
_LOCK = Path(__file__).resolve().parents[1] / "locks" / "object-store.lock"


def provision_object_store() -> Path:
    """Its Python; installs its packages when they are not there. Raises SetupError."""
    return made_environment(OBJECT_STORE, _LOCK)


@contextlib.contextmanager
def object_store(bucket: str) -> Iterator[dict[str, str]]:
    """A running store with one empty bucket; the environment that finds it there.

    Raises SetupError.
    """
    python = provision_object_store()
    reserved = ReservedPort()
    port = reserved.number
    process = subprocess.Popen(
        [python, "-c", "from moto.server import main; main()", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        await_port(process, port, "the object store")
        address = f"http://127.0.0.1:{port}"
        made = urllib.request.Request(f"{address}/{bucket}", method="PUT")
        urllib.request.urlopen(made).close()
        yield {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": address,
        }
    finally:
        process.terminate()
        process.wait()
        reserved.release()
