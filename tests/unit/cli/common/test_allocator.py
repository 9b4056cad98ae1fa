"""What commands that decode many rows ask of the C library's allocator."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

_FAULTS = """
import resource
from binlake.cli.common.allocator import keep_freed_memory

{call}
def use():
    return [bytearray(b"x") * (20 << 20) for _ in range(3)]
use()
use()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(4):
    use()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _page_faults(call: str, **settings: str) -> int:
    plain = {name: value for name, value in os.environ.items() if "MALLOC" not in name}
    plain.pop("GLIBC_TUNABLES", None)
    run = subprocess.run(
        [sys.executable, "-c", _FAULTS.format(call=call)],
        env={**plain, **settings},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(run.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these settings")
def test_freed_memory_is_used_again() -> None:
    """Four times 60 MB are 61,440 pages, which the system would clear each time."""
    assert _page_faults("") > 20_000
    assert _page_faults("keep_freed_memory()") < 1_000


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these settings")
def test_settings_of_the_user_stay() -> None:
    """An environment variable for malloc is stronger."""
    assert _page_faults("keep_freed_memory()", MALLOC_TRIM_THRESHOLD_="131072") > 20_000
