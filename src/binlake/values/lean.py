"""Imports that binlake's own processes leave out to start faster."""

from __future__ import annotations

import sys


def leave_out_numpy() -> None:
    """Make imports of NumPy fail in this process from now on.

    pyarrow imports NumPy where it is installed, which takes as long as pyarrow itself, and works
    without it. Call this before pyarrow is imported; later it has no effect.
    """
    if "pyarrow" not in sys.modules:
        sys.modules["numpy"] = None  # type: ignore[assignment]
