"""The program and the scripts in deploy/spark/, as a user submits them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from dev.servers.ports import ReservedPort
from support.servers.serving import eventually
from support.spark.spark_processes import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"


def submitting(**variables: str) -> dict[str, str]:
    """The environment in which a user runs the scripts."""
    python = Path(sys.executable)
    return {
        **os.environ,
        **PATIENCE,
        "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
        "PYSPARK_PYTHON": str(python),
        **variables,
    }


def test_a_submitted_stream_writes_every_change_once(tmp_path: Path) -> None:
    target, checkpoint = tmp_path / "orders", tmp_path / "checkpoint"
    script = DEPLOY / "spark" / "submit-standalone.sh"
    words: list[Path | str] = [
        script,
        ROOT / "demo/mysql-9.7",
        "shop.orders",
        target,
        checkpoint,
        "--once",
    ]
    run = subprocess.run(
        words, env=submitting(MASTER="local[2]"), cwd=tmp_path, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-3000:]
    written = pq.read_table(target, columns=["_op", "_log_file", "_log_pos", "_row"])
    assert written.num_rows == 687
    places = zip(
        *(written[name].to_pylist() for name in ("_log_file", "_log_pos", "_row")), strict=True
    )
    assert len(set(places)) == 687


def test_a_submitted_stream_serves_metrics(tmp_path: Path) -> None:
    reserved = ReservedPort()
    words: list[Path | str] = [
        *(DEPLOY / "spark" / "submit-standalone.sh", ROOT / "demo/mysql-9.7", "shop.orders"),
        *(tmp_path / "orders", tmp_path / "checkpoint", "--metrics-port", str(reserved.number)),
    ]
    run = subprocess.Popen(
        words, env=submitting(MASTER="local[2]"), cwd=tmp_path, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    url = f"http://127.0.0.1:{reserved.number}"

    def answered(path: str, text: str) -> bool:
        try:
            with urllib.request.urlopen(url + path, timeout=60) as answer:
                return text in answer.read().decode()
        except (urllib.error.URLError, ConnectionError):
            return False

    try:
        rows = 'binlake_stream_rows_total{query="shop.orders"} 687.0'
        eventually(lambda: answered("/metrics", rows), "the rows of the first batch", 300)
        assert answered("/readyz", "ok")
    finally:
        os.killpg(run.pid, 15)
        run.wait()
        reserved.release()


class KubernetesApi:
    """An API server that accepts everything, and keeps the objects that it is sent."""

    def __init__(self) -> None:
        self.objects: list[dict[str, Any]] = []
        kept = self.objects

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_any(self) -> None:
                sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                kept.append(sent)
                sent.setdefault("metadata", {})["uid"] = "1"
                body = json.dumps(sent).encode()
                self.send_response(201 if self.command == "POST" else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_PATCH = do_any  # noqa: N815 - http.server's

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def api() -> Iterator[KubernetesApi]:
    made = KubernetesApi()
    yield made
    made.close()


def test_pods_submitted_to_kubernetes(api: KubernetesApi, tmp_path: Path) -> None:
    """The pods that spark-submit asks for have the program, the secret, and the right user."""
    (tmp_path / "spark-defaults.conf").write_text(
        "spark.kubernetes.submission.waitAppCompletion false\n"
    )
    run = subprocess.run(
        [DEPLOY / "spark" / "submit-kubernetes.sh"], cwd=tmp_path, capture_output=True, text=True,
        env=submitting(KUBERNETES_API=api.url, SPARK_CONF_DIR=str(tmp_path), HOME=str(tmp_path)),
        check=False, timeout=600,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-3000:]
    [driver] = (one["spec"] for one in api.objects if one["kind"] == "Pod")
    [executor] = (
        yaml.safe_load(text)["spec"]
        for one in api.objects
        for name, text in one.get("data", {}).items()
        if name == "podspec-configmap-key"
    )
    for pod in (driver, executor):
        assert pod["securityContext"]["runAsUser"] == pod["securityContext"]["fsGroup"] == 185
        [container] = pod["containers"]
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
    [container] = driver["containers"]
    assert "local:///opt/stream/stream_to_lake.py" in container["args"]
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {"/run/secrets/binlake", "/lake"} <= mounts
    port = container["args"][container["args"].index("--metrics-port") + 1]
    ports = {one["name"]: str(one["containerPort"]) for one in container["ports"]}
    assert ports[container["readinessProbe"]["httpGet"]["port"]] == port
