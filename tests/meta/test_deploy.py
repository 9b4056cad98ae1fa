"""The files in deploy/ fit the commands, the configuration and the pinned versions."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from binlake.cli.main import COMMANDS
from binlake.config.configuration import read_configuration
from binlake.mirror.configuration import read_mirror_configuration

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
CONTAINERFILES = sorted(
    path for path in DEPLOY.glob("Containerfile*") if path.suffix != ".dockerignore"
)
PLACES = ("/etc/binlake", "/run/secrets/binlake", "/archive", "/var/lib/binlake")


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / "kubernetes" / name).read_text()))


def configurations() -> dict[str, str]:
    """The configuration files, and those inside of Kubernetes' manifests."""
    found = {path.name: path.read_text() for path in DEPLOY.glob("*.toml")}
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml")):
        for one in documents(path.name):
            if one["kind"] == "ConfigMap":
                found |= {f"{path.name}: {name}": text for name, text in one["data"].items()}
    return found


def placed(text: str, folder: Path) -> str:
    """A configuration with its places in a folder, where the passwords are."""
    for place in PLACES:
        (folder / place.lstrip("/")).mkdir(parents=True, exist_ok=True)
        text = re.sub(rf"(?<![\w/]){place}(?=[/\"])", str(folder / place.lstrip("/")), text)
    for name in re.findall(
        rf"{re.escape(str(folder))}[\w/.-]*(?:password|secrets/binlake/\w+)", text
    ):
        Path(name).write_text("secret\n")
    return text


@pytest.mark.parametrize("name", configurations())
def test_configurations_are_accepted(name: str, tmp_path: Path) -> None:
    file = tmp_path / "given.toml"
    file.write_text(placed(configurations()[name], tmp_path))
    if "mirror" in name:
        assert read_mirror_configuration(str(file)).spark
        return
    read = read_configuration(str(file))
    assert read.archives
    assert read.listeners


@pytest.mark.parametrize(
    "path", sorted((DEPLOY / "systemd").glob("*.service")), ids=lambda p: p.stem
)
def test_units_start_a_command_with_a_configuration_that_is_there(path: Path) -> None:
    (line,) = re.findall(r"^ExecStart=(.+)$", path.read_text(), re.MULTILINE)
    program, command, flag, file = shlex.split(line)
    assert Path(program).name == "binlake"
    assert command in COMMANDS
    assert path.stem == f"binlake-{command}"
    assert flag == "--config"
    assert (DEPLOY / Path(file).name).exists()


def settings_of(unit: str) -> dict[str, str]:
    lines = (DEPLOY / "systemd" / f"{unit}.service").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


def test_units_limit_restarts_after_permanent_errors() -> None:
    """A code of the table of exit codes; for a mirror, which starts a JVM, a limit that can be reached."""
    page = (DEPLOY.parent / "docs" / "commands.md").read_text()
    codes = dict(re.findall(r"^\| (\d+) \| (.+) \|$", page, re.MULTILINE))
    assert codes["2"].startswith("wrong usage")
    assert "no longer has the log" in codes["3"]
    mirror = settings_of("binlake-mirror")
    assert mirror["RestartPreventExitStatus"] == "2 3"
    hours = int(mirror["StartLimitIntervalSec"].removesuffix("h"))
    least_s_of_a_start = int(mirror["RestartSec"]) + 30
    assert int(mirror["StartLimitBurst"]) * least_s_of_a_start < hours * 3600
    archive = settings_of("binlake-archive")
    assert archive["RestartPreventExitStatus"] == "3"
    assert "StartLimitBurst" not in archive, "it has to continue when the server is there again"


def test_stopping_the_mirror_does_not_end_its_jvm() -> None:
    """By default, systemd sends the signal to all processes of a unit: the round then fails, and the mirror exits with 1."""
    assert settings_of("binlake-mirror")["KillMode"] == "mixed"


def test_the_mirror_may_open_as_many_files_as_the_command_would_allow() -> None:
    page = (DEPLOY.parent / "docs" / "mirror-operations.md").read_text()
    limit = int(settings_of("binlake-mirror")["LimitNOFILE"])
    assert f"raises its limit of open files to {limit:,}," in page


def test_the_mirror_can_write_to_its_lake_and_its_home_directory() -> None:
    """Spark downloads Iceberg's jar into the home directory."""
    unit = (DEPLOY / "systemd" / "binlake-mirror.service").read_text()
    [line] = re.findall(r"^StateDirectory=(.+)$", unit, re.MULTILINE)
    page = (DEPLOY.parent / "docs" / "deployment.md").read_text()
    [home] = re.findall(r"useradd --system --home-dir /var/lib/(\S+)", page)
    assert set(line.split()) == {"binlake-lake", home}


@pytest.mark.parametrize("name", ["archive.yaml", "mirror.yaml"])
def test_containers_run_commands_and_mount_declared_volumes(name: str) -> None:
    (workload,) = (one for one in documents(name) if one["kind"] == "StatefulSet")
    spec = workload["spec"]["template"]["spec"]
    volumes = {volume["name"] for volume in spec["volumes"]}
    volumes |= {claim["metadata"]["name"] for claim in workload["spec"]["volumeClaimTemplates"]}
    for container in spec["containers"]:
        assert container["args"][0] in COMMANDS
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
        assert container["securityContext"]["allowPrivilegeEscalation"] is False


@pytest.mark.parametrize("name", ["archive.yaml", "mirror.yaml"])
def test_probes_ask_the_metrics_ports_of_the_configuration(name: str) -> None:
    kinds = {one["kind"]: one for one in documents(name)}
    [text] = kinds["ConfigMap"]["data"].values()
    configured = {int(port) for port in re.findall(r"^metrics_port = (\d+)$", text, re.MULTILINE)}
    probed = set()
    for container in kinds["StatefulSet"]["spec"]["template"]["spec"]["containers"]:
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
        if "readinessProbe" in container:
            assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
        probed.add(ports[container["livenessProbe"]["httpGet"]["port"]])
    assert probed == configured


def test_versions_are_those_of_the_project() -> None:
    pins = dict(re.findall(r"^(\S+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    (spark,) = re.findall(r"^ARG SPARK_VERSION=(\S+)$", CONTAINERFILES[1].read_text(), re.MULTILINE)
    (application,) = documents("spark-application.yaml")
    assert spark == application["spec"]["sparkVersion"] == pins["pyspark"]
    (version,) = re.findall(
        r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE
    )
    for path in (DEPLOY / "kubernetes").glob("*.yaml"):
        tags = re.findall(r"image: binlake(?:-spark)?:(\S+)", path.read_text())
        assert set(tags) <= {version}
        assert tags or path.stem in ("spark-driver", "spark-executor")  # Spark sets the image


@pytest.mark.parametrize("path", CONTAINERFILES, ids=lambda path: path.name)
def test_images_do_not_run_as_root(path: Path) -> None:
    users = re.findall(r"^USER (\S+)$", path.read_text(), re.MULTILINE)
    assert users
    assert users[-1] not in ("root", "0")


def pods() -> dict[str, dict[str, Any]]:
    """The pods of the manifests, with their contexts under the names of Kubernetes."""
    found = {}
    for path in (DEPLOY / "kubernetes").glob("*.yaml"):
        for one in documents(path.name):
            spec = one.get("spec", {})
            if one["kind"] == "SparkApplication":
                for role in ("driver", "executor"):
                    pod = {**spec[role], "securityContext": spec[role]["podSecurityContext"]}
                    found[f"{path.stem}, {role}"] = pod
            elif one["kind"] == "Pod" or "template" in spec:
                found[path.stem] = spec if one["kind"] == "Pod" else spec["template"]["spec"]
    return found


@pytest.mark.parametrize("name", pods())
def test_pods_can_read_secrets_and_write_to_volumes(name: str) -> None:
    """Files of volumes and secrets belong to the group of the image's user."""
    context = pods()[name]["securityContext"]
    image = DEPLOY / ("Containerfile" if name == "archive" else "Containerfile.spark")
    [user] = re.findall(r"^USER (\d+)", image.read_text(), re.MULTILINE)
    assert context["runAsNonRoot"] is True
    assert context["fsGroup"] == context["runAsUser"] == int(user)


def test_the_program_of_the_manifests_is_in_the_image() -> None:
    image = (DEPLOY / "Containerfile.spark").read_text()
    [(source, target)] = re.findall(r"^COPY (deploy/\S+) (\S+)$", image, re.MULTILINE)
    assert (ROOT / source).exists()
    [application] = documents("spark-application.yaml")
    assert application["spec"]["mainApplicationFile"] == f"local://{target}"
    assert f"local://{target}" in (DEPLOY / "spark" / "submit-kubernetes.sh").read_text()


def test_no_file_holds_a_password() -> None:
    for path in DEPLOY.rglob("*"):
        if path.is_file():
            assert not re.search(r"://[^/\s@:]+:[^/\s@]+@", path.read_text()), path


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    """With a program that is there, in place of the one that is installed later."""
    units = []
    for unit in sorted((DEPLOY / "systemd").glob("*.service")):
        units.append(tmp_path / unit.name)
        units[-1].write_text(unit.read_text().replace("/opt/binlake/bin/binlake", "/bin/true"))
    run = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *units],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
