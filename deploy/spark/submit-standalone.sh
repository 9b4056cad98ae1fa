#!/bin/sh
# Run stream_to_lake.py on a standalone cluster, or on this machine (MASTER=local[2]).
# Every worker needs binlake in the same Python, and the password file.
set -eu

exec spark-submit \
  --master "${MASTER:?spark://host:7077, or local[2]}" \
  --name binlake-stream \
  --conf spark.executor.memory=1g \
  "$(dirname "$0")/stream_to_lake.py" "$@"
