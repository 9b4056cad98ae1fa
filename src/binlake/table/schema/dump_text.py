"""The text of a dump or schema file, read as needed.

A dump may have hundreds of gigabytes. A memory mapping would end the process with SIGBUS where another process
truncates the file, so this reads parts of it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import BinaryIO

from binlake.errors import SourceError
from binlake.values.closing import Closing

#: The kind of tokens that are left out.
SKIPPED = "skipped"
#: The servers' limit for a statement.
LONGEST_TOKEN_BYTES = 1 << 30
#: By default, the size of a part that is read and searched.
WINDOW_BYTES = 4 << 20


#: A match of an expression: the name of its group, and its bytes [start, end) in the text. No class: there may be a
#: million in a megabyte.
DumpToken = tuple[str, int, int]


class DumpText(Closing):
    """A text whose slices are bytes: of a regular file, or of bytes in memory.

    The length is that of the moment when it was opened. Reading raises SourceError where the file has become
    shorter. `tokens` begins with windows of `window_bytes`, and refuses tokens of more than `longest_token_bytes`; `hint`
    is what to do then.
    """

    def __init__(
        self,
        source: BinaryIO | bytes,
        name: str,
        *,
        window_bytes: int = WINDOW_BYTES,
        longest_token_bytes: int = LONGEST_TOKEN_BYTES,
        hint: str | None = None,
    ) -> None:
        self._name = name
        self._window_bytes, self._longest_token_bytes = window_bytes, longest_token_bytes
        self._hint = hint
        self._file = source if not isinstance(source, bytes) else None
        self._bytes = source if isinstance(source, bytes) else b""
        self._size = len(self._bytes)
        if self._file is not None:
            self._size = os.fstat(self._file.fileno()).st_size
        # of `tokens`: a file has thousands of small parts
        self._window, self._window_start = b"", 0

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, part: slice) -> bytes:
        if self._file is None:
            return self._bytes[part]
        start, stop, _ = part.indices(self._size)
        before = self._window_start
        if before <= start and stop <= before + len(self._window):
            return self._window[start - before : stop - before]
        pieces = []
        while start < stop:
            piece = os.pread(self._file.fileno(), min(stop - start, 1 << 30), start)
            if not piece:
                raise SourceError(f"{self._name} became shorter while it was read")
            pieces.append(piece)
            start += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def newlines(self, start: int, end: int) -> int:
        """Count the newlines in bytes [start, end)."""
        step = 1 << 20
        return sum(self[at : min(at + step, end)].count(b"\n") for at in range(start, end, step))

    def tokens(self, expression: re.Pattern[bytes]) -> Iterator[DumpToken]:
        """Yield the matches of an expression, as if the whole text were in memory.

        The names of its groups are kinds of tokens; those of the kind `skipped` are left out. A token must not depend on
        what follows, except where it reaches the end of the text, or where the next one is `unclosed`: both are searched
        again with more text.
        Raises SourceError for a token of more than `longest_token_bytes`.
        """
        at, size = 0, self._window_bytes
        while at < self._size:
            lead = min(at, 1)  # which boundaries of words and lines look at
            begin = at - lead
            window = self[begin : begin + size]
            self._window, self._window_start = window, begin
            passed = at
            if begin + size >= self._size:
                for match in expression.finditer(window, lead):
                    if (kind := match.lastgroup or "") != SKIPPED:
                        yield kind, begin + match.start(), begin + match.end()
                return
            for token in _whole_tokens(expression, window, lead, begin):
                if token[0] != SKIPPED:
                    yield token
                passed = token[2]
            if passed == at:
                if size >= self._longest_token_bytes:
                    line = self.newlines(0, at) + 1
                    raise SourceError(
                        f"{self._name}, line {line}: a statement, text or comment of more than"
                        f" {self._longest_token_bytes:,} bytes",
                        hint=self._hint,
                    )
                size = min(2 * size, self._longest_token_bytes)
            else:
                at, size = passed, self._window_bytes

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def _whole_tokens(
    expression: re.Pattern[bytes], window: bytes, lead: int, begin: int
) -> Iterator[DumpToken]:
    """Yield the tokens of a window that more text cannot change; the window begins at byte `begin` of the text."""
    held: DumpToken | None = None  # the last one, which more text may make longer
    length, after = len(window), 0
    for match in expression.finditer(window, lead):
        kind = match.lastgroup or ""
        start, end = match.span()
        if kind == "unclosed" or end == length:
            if start == after:
                return
            break
        if held is not None:
            yield held
        held, after = (kind, begin + start, begin + end), end
    if held is not None:
        yield held
