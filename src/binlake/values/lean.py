"""What processes of binlake's own leave out, to start sooner."""

from __future__ import annotations

import sys

__all__ = ["leave_out_numpy"]


def leave_out_numpy() -> None:
    """Make imports of NumPy fail in this process from now on.

    pyarrow imports NumPy where it is installed, which takes as long as pyarrow itself, and works
    without it. To be called before pyarrow is imported; later it does nothing.
    """
    if "pyarrow" not in sys.modules:
        sys.modules["numpy"] = None  # type: ignore[assignment]
