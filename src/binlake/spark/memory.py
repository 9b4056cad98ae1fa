"""Explain errors of a task that runs out of memory: its limit, and the memory that it needs.

Spark's `spark.executor.pyspark.memory` limits the address space of a Python worker, not the memory
that is in use. A worker at the limit gets a MemoryError, or cannot start a thread or load a
library.
"""

from __future__ import annotations

from collections.abc import Callable

from binlake.errors import SourceError

#: The address space in which a task with default options reads any log (docs/spark.md).
ENOUGH_BYTES = 1 << 30

# messages of Python and the loader if the limit is too low to start anything
_STARTS_NOTHING = ("can't start new thread", "failed to map segment", "cannot allocate memory")


def explainer() -> Callable[[BaseException], tuple[str, str] | None]:
    """Return a self-contained function: it explains an error that results from too little memory,
    with a remedy. It returns None for other errors.
    """
    enough_gb, starts_nothing = ENOUGH_BYTES >> 30, _STARTS_NOTHING

    def explain(error: BaseException) -> tuple[str, str] | None:
        # Pickled by value: it may name only builtins and what it imports itself.
        import pickle
        import resource
        import socket

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        is_limited = limit != resource.RLIM_INFINITY
        # Python's own, where there is not even the memory for a MemoryError
        confused = isinstance(error, (SystemError, pickle.UnpicklingError))
        said = any(words in str(error).lower() for words in starts_nothing)
        starved = is_limited and (confused or said)
        if not isinstance(error, MemoryError) and not starved:
            return None
        where = f"host {socket.gethostname()}: the task ran out of memory"
        lower = "lower the options batch_bytes and max_memory, or run fewer tasks at a time"
        if not is_limited:
            return where, f"give the executor more memory; {lower}"
        return (
            f"{where}: its address space is limited to {limit >> 20} MB",
            f"set spark.executor.pyspark.memory to {enough_gb}g for each core; {lower}",
        )

    return explain


def memory_error(error: BaseException) -> SourceError | None:
    """Return the error that replaces one caused by too little memory; None for others."""
    told = explainer()(error)
    return None if told is None else SourceError(told[0], hint=told[1])
