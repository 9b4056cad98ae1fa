"""A worker process of the local engine.

It reads pickled tasks from standard input and writes their results, or the errors that they
raised, to standard output, each behind its length, until standard input ends.
"""

from __future__ import annotations

import os
import pickle
import struct
import sys
import traceback
from typing import IO

from binlake.errors import BinlogError
from binlake.lake.engine import Task

_LENGTH = struct.Struct("<Q")


def write_message(pipe: IO[bytes], message: bytes) -> None:
    """Write a message. Raises OSError."""
    pipe.write(_LENGTH.pack(len(message)) + message)
    pipe.flush()


def read_message(pipe: IO[bytes]) -> bytes:
    """Read a message. Raises EOFError where there is none, or a part of one."""
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (size,) = _LENGTH.unpack(head)
    message = pipe.read(size)
    if len(message) < size:
        raise EOFError
    return message


def main() -> None:
    """Run tasks until there are no more."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not get between the answers
    while True:
        try:
            message = read_message(sys.stdin.buffer)
        except EOFError:
            return
        write_message(answers, pickle.dumps(_answer(message)))


def _answer(message: bytes) -> str | Exception:
    try:
        task: Task = pickle.loads(message)
        return task.run()
    except (BinlogError, OSError) as error:
        return error
    except Exception as error:  # noqa: BLE001 - a fault of binlake: its traceback is here
        traceback.print_exc()
        return RuntimeError(f"{type(error).__name__}: {error}")
