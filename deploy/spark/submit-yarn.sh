#!/bin/sh
# Run stream_to_lake.py on YARN with a packed environment. docs/deployment.md shows how to pack it.
# Every node needs the password file /etc/binlake/shop.password, readable by the user of the containers.
set -eu

export PYSPARK_PYTHON=./environment/bin/python
exec spark-submit \
  --master yarn \
  --deploy-mode cluster \
  --name binlake-stream \
  --archives "${ENVIRONMENT:-environment.tar.gz}#environment" \
  --conf spark.yarn.appMasterEnv.PYSPARK_PYTHON=./environment/bin/python \
  --conf spark.executorEnv.PYSPARK_PYTHON=./environment/bin/python \
  --conf spark.executor.instances=2 \
  --conf spark.executor.memory=1g \
  --conf spark.executor.memoryOverhead=1g \
  "$(dirname "$0")/stream_to_lake.py" \
  "${SOURCE:-mysql://repl@db1.example.com/?password-file=/etc/binlake/shop.password}" \
  "${TABLE:-shop.orders}" "${TARGET:-hdfs:///lake/orders}" \
  "${CHECKPOINT:-hdfs:///lake/_checkpoints/orders}"
