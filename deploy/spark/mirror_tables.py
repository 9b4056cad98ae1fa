"""Run `binlake mirror` in an application of Spark.

    spark-submit [OPTIONS OF SPARK] mirror_tables.py URL LAKE --table 'shop.*' --once
    spark-submit [OPTIONS OF SPARK] mirror_tables.py status LAKE

The arguments are those of `binlake mirror`. The master, the jars and the settings are those of spark-submit.
"""

from __future__ import annotations

import sys

from binlake_program import main

if __name__ == "__main__":
    sys.argv.insert(1, "mirror")
    sys.exit(main())
