"""Count the row changes of a log: counting.py stats|index FILE.

Prints one JSON line: seconds of the work itself, imports excluded.
"""

from __future__ import annotations

import json
import sys
import time

from binlake.source.resolve import resolve
from binlake.stream.statistics import Statistics
from binlake.table.counting.gather import gather
from binlake.table.counting.indexing import index_of
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions


def main() -> None:
    """Measure and print."""
    what, path = sys.argv[1:]
    (chain,) = resolve([path])
    started = time.perf_counter()
    if what == "stats":
        gather([chain], ReadOptions(), Ledger(), Statistics())
    else:
        index_of(chain.files[0])
    print(json.dumps({"seconds": time.perf_counter() - started}))


if __name__ == "__main__":
    main()
