from typing_extensions import Buffer

MAX_DEPTH: int

def render(data: Buffer, start: int, end: int, origin: int = -1) -> bytes: ...
