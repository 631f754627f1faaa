"""The manifests of deploy/kubernetes: they keep the published schemas, fit each other and the programs they start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gantrymq.broker.config import from_properties
from gantrymq.cli.serving.running import STOP_SECONDS
from tests.deploy.containerfile import stages
from tests.deploy.test_image import check_command

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
KUSTOMIZATION = "kustomization.yaml"
VERSIONS = ("1.30", "1.34")
"""Of Kubernetes: the oldest one that we say something about, and a newer one."""


def manifests() -> list[dict[str, Any]]:
    files = yaml.safe_load((FOLDER / KUSTOMIZATION).read_text("utf-8"))["resources"]
    return [found for name in files for found in yaml.safe_load_all((FOLDER / name).read_text("utf-8"))]


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [one for one in manifests() if one["kind"] == kind]


def pod_of(stateful_set: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = stateful_set["spec"]["template"]["spec"]
    return found


SETS = of_kind("StatefulSet")
NAMES = [one["metadata"]["name"] for one in SETS]


def test_every_file_is_part_of_the_kustomization() -> None:
    listed = yaml.safe_load((FOLDER / KUSTOMIZATION).read_text("utf-8"))["resources"]
    assert sorted([*listed, KUSTOMIZATION]) == sorted(path.name for path in FOLDER.glob("*.yaml"))
    kinds = {one["kind"] for one in manifests()}
    assert kinds >= {"StatefulSet", "Service", "PodDisruptionBudget", "NetworkPolicy", "ServiceMonitor", "ConfigMap"}


@pytest.mark.parametrize("version", VERSIONS)
def test_manifests_keep_the_published_schemas(version: str) -> None:
    validate = pytest.importorskip("kubernetes_validate")
    checked = 0
    for one in manifests():
        if one["kind"] != "ServiceMonitor":  # a resource of the Prometheus Operator; its schema is not with these
            validate.validate(one, version, strict=True)
            checked += 1
    assert checked > 8


def test_the_schemas_would_find_a_mistake() -> None:
    validate = pytest.importorskip("kubernetes_validate")
    broken = yaml.safe_load(yaml.safe_dump(SETS[0]))
    broken["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}
    with pytest.raises(validate.ValidationError):
        validate.validate(broken, VERSIONS[-1], strict=True)


@pytest.mark.parametrize("one", SETS, ids=NAMES)
def test_pods_keep_the_strictest_standard(one: dict[str, Any]) -> None:
    """Source: Pod Security Standards, restricted, which the namespace demands."""
    pod = pod_of(one)
    (container,) = pod["containers"]
    image_user = int(stages()[-1].last("USER").split(":")[0])
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == image_user == pod["securityContext"]["fsGroup"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    assert pod["automountServiceAccountToken"] is False
    labels = of_kind("Namespace")[0]["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


@pytest.mark.parametrize("one", SETS, ids=NAMES)
def test_probes_ask_what_the_server_answers(one: dict[str, Any]) -> None:
    (container,) = pod_of(one)["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    probes = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startup": "/alive", "liveness": "/alive", "readiness": "/health",
    }  # fmt: skip
    assert {probe["port"] for probe in probes.values()} == {"http"}
    args = container["args"]
    given = args[args.index("--http-port") + 1] if "--http-port" in args else settings()["httpPort"]
    assert ports["http"] == int(given)


def settings() -> dict[str, str]:
    (config,) = of_kind("ConfigMap")
    lines = config["data"]["broker.conf"].splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def test_the_settings_are_ones_of_a_broker_and_safe() -> None:
    (config,) = of_kind("ConfigMap")
    found, unknown = from_properties(config["data"]["broker.conf"])
    assert not unknown
    assert found.store.flush_disk_type == "SYNC_FLUSH" and not found.topics.auto_create_topic_enable
    assert found.network.http_bind_address == "0.0.0.0"  # else no probe reaches it


@pytest.mark.parametrize("one", SETS, ids=NAMES)
def test_a_pod_starts_a_command_that_exists_and_has_time_to_stop(one: dict[str, Any]) -> None:
    pod = pod_of(one)
    check_command(pod["containers"][0]["args"])
    assert pod["terminationGracePeriodSeconds"] > STOP_SECONDS


def test_brokers_are_told_of_each_name_server() -> None:
    names, brokers = sorted(SETS, key=lambda one: str(one["metadata"]["name"]), reverse=True)
    (container,) = pod_of(brokers)["containers"]
    told = container["args"][container["args"].index("--namesrv-addr") + 1].split(";")
    service = names["spec"]["serviceName"]
    port = pod_of(names)["containers"][0]["ports"][0]["containerPort"]
    assert told == [
        f"{service}-{number}.{service}.$(POD_NAMESPACE).svc:{port}" for number in range(names["spec"]["replicas"])
    ]
    host = container["args"][container["args"].index("--host") + 1]
    assert host == f"$(POD_NAME).{brokers['spec']['serviceName']}.$(POD_NAMESPACE).svc"


def test_the_store_is_on_a_volume_that_outlives_the_set() -> None:
    (brokers,) = (one for one in SETS if one["metadata"]["name"] == "gantry-broker")
    (claim,) = brokers["spec"]["volumeClaimTemplates"]
    (container,) = pod_of(brokers)["containers"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    store = container["args"][container["args"].index("--store") + 1]
    assert store.startswith(mounts[claim["metadata"]["name"]] + "/")
    assert set(brokers["spec"]["persistentVolumeClaimRetentionPolicy"].values()) == {"Retain"}


def selectors(one: dict[str, Any]) -> dict[str, str]:
    spec = one["spec"]
    found = spec.get("selector") or spec.get("podSelector")
    labels: dict[str, str] = found.get("matchLabels", found)
    return labels


@pytest.mark.parametrize("kind", ["StatefulSet", "Service", "PodDisruptionBudget", "NetworkPolicy", "ServiceMonitor"])
def test_every_part_has_one_of_a_kind_that_selects_it(kind: str) -> None:
    """A ServiceMonitor selects services, all others pods."""
    for one in SETS:
        name = one["metadata"]["name"]
        labels = one["spec"]["template"]["metadata"]["labels"]
        if kind == "ServiceMonitor":
            (labels,) = (s["metadata"]["labels"] for s in of_kind("Service") if s["metadata"]["name"] == name)
        (found,) = (other for other in of_kind(kind) if other["metadata"]["name"] == name)
        assert selectors(found) and selectors(found).items() <= labels.items(), (kind, name)


def test_ports_are_called_by_names_that_the_pods_have() -> None:
    for one in SETS:
        name = one["metadata"]["name"]
        ports = {port["name"] for port in pod_of(one)["containers"][0]["ports"]}
        (service,) = (found for found in of_kind("Service") if found["metadata"]["name"] == name)
        assert {port["targetPort"] for port in service["spec"]["ports"]} == ports
        (monitor,) = (found for found in of_kind("ServiceMonitor") if found["metadata"]["name"] == name)
        assert {endpoint["port"] for endpoint in monitor["spec"]["endpoints"]} <= ports
        (policy,) = (found for found in of_kind("NetworkPolicy") if found["metadata"]["name"] == name)
        assert {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]} == ports
