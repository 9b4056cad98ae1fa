#!/bin/sh
# Starts the Python of a Spark worker without the archives that Spark puts first into PYTHONPATH. A worker would compile
# PySpark from its archive again in each process, and each task would read the directories of the archives again.
# worker_python.py names the Python, and uses this script only if that Python has PySpark as files.
set -f  # do not expand patterns in entries
kept=
old_ifs=$IFS
IFS=:
for entry in $PYTHONPATH; do
  case ${entry##*/} in
    pyspark.zip | py4j-*.zip | spark-core_*.jar) ;;
    *) kept=$kept${kept:+:}$entry ;;
  esac
done
IFS=$old_ifs
PYTHONPATH=$kept
export PYTHONPATH
exec "${BINLAKE_WORKER_PYTHON:?names the Python of Spark's workers, and is not set: set PYSPARK_PYTHON to that Python}" "$@"
