from typing import Any

# All are buffers; NumPy's arrays are known as such from Python 3.12 on only.
def matching_keys(
    high: Any, low: Any | None, wanted_high: Any, wanted_low: Any | None
) -> tuple[memoryview, memoryview]: ...
