#!/bin/sh
# Run stream_to_lake.py on Kubernetes with spark-submit and without an operator.
# The passwords are a mounted secret:  kubectl create secret generic binlake-passwords --from-file=shop
# The image contains the program. To run your own program, set PROGRAM.
set -eu

manifests="$(cd "$(dirname "$0")/../kubernetes" && pwd)"

exec spark-submit \
  --master "k8s://${KUBERNETES_API:?the URL of the API server, https://host:6443}" \
  --deploy-mode cluster \
  --name binlake-stream \
  --conf spark.kubernetes.namespace="${NAMESPACE:-default}" \
  --conf spark.kubernetes.authenticate.driver.serviceAccountName=spark \
  --conf spark.kubernetes.container.image="${IMAGE:-binlake-spark:0.1.0}" \
  --conf spark.kubernetes.driver.podTemplateFile="$manifests/spark-driver.yaml" \
  --conf spark.kubernetes.executor.podTemplateFile="$manifests/spark-executor.yaml" \
  --conf spark.kubernetes.driver.secrets.binlake-passwords=/run/secrets/binlake \
  --conf spark.kubernetes.executor.secrets.binlake-passwords=/run/secrets/binlake \
  --conf spark.kubernetes.driver.volumes.persistentVolumeClaim.lake.mount.path=/lake \
  --conf spark.kubernetes.driver.volumes.persistentVolumeClaim.lake.options.claimName=lake \
  --conf spark.kubernetes.executor.volumes.persistentVolumeClaim.lake.mount.path=/lake \
  --conf spark.kubernetes.executor.volumes.persistentVolumeClaim.lake.options.claimName=lake \
  --conf spark.executor.instances=2 \
  --conf spark.executor.memory=1g \
  --conf spark.executor.memoryOverhead=1g \
  "${PROGRAM:-local:///opt/stream/stream_to_lake.py}" \
  "${SOURCE:-mysql://repl@shop-db/?password-file=/run/secrets/binlake/shop}" \
  "${TABLE:-shop.orders}" "${TARGET:-/lake/orders}" "${CHECKPOINT:-/lake/_checkpoints/orders}" \
  --metrics-port 9464 --metrics-address 0.0.0.0
