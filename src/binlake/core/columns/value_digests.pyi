from typing import Any

DIGEST_BYTES: int

# Both are buffers; NumPy's arrays are known as such from Python 3.12 on only.
def value_digests(offsets: Any, data: Any) -> bytearray: ...
