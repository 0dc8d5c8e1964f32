"""The files of examples/deploy are what the page shows, and fit the program: their commands exist
and take the options given, their formats are valid."""

from __future__ import annotations

import configparser
import ipaddress
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis as redis_driver
import yaml
from tests.docs.test_docs import ROOT, blocks, resolved
from tests.servers import RedisServer
from uvicorn.main import main as serve_web

from headrace.cli import main as program

DEPLOY = ROOT / "examples" / "deploy"
PAGE = ROOT / "docs" / "deploying.md"
UNITS = sorted(DEPLOY.glob("*.service"))
YAML = [*sorted(DEPLOY.glob("*.yaml")), ROOT / "examples" / "keda.yaml"]


def documents(path: Path) -> list[Any]:
    return list(yaml.safe_load_all(path.read_text()))


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    """The pod of each deployment on Kubernetes, with a name for it."""
    for path in YAML:
        for document in documents(path):
            if document.get("kind") == "Deployment":
                pod = document["spec"]["template"]
                yield pod["metadata"]["labels"]["app"], pod["spec"]


def containers() -> Iterator[list[str]]:
    """The command of each container of a pod."""
    for _, pod in pods():
        for container in pod["containers"]:
            yield [*container["command"], *container["args"]]


def services() -> dict[str, Any]:
    (document,) = documents(DEPLOY / "compose.yaml")
    found: dict[str, Any] = document["services"]
    return found


def started(unit: Path) -> list[str]:
    (line,) = re.findall(r"^ExecStart=(.*)$", unit.read_text(), re.MULTILINE)
    return shlex.split(line)


def commands() -> list[list[str]]:
    """What the files run, each without the folder of its program."""
    (image,) = re.findall(r"^CMD (.*)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    all_of_them = [
        json.loads(image),
        *(service["command"] for service in services().values()),
        *map(started, UNITS),
        *containers(),
    ]
    return [[Path(words[0]).name, *words[1:]] for words in all_of_them]


def test_each_command_takes_what_it_is_given() -> None:
    ours = [words[1:] for words in commands() if words[0] == "headrace"]
    assert len(ours) == 9
    for words in ours:
        names, command, arguments = resolved(words)
        command.make_context(names[-1], arguments, **program.context_settings)
    for words in commands():
        if words[0] == "uvicorn":
            serve_web.make_context("uvicorn", words[1:])
    others = {words[0] for words in commands()} - {"headrace"}
    assert others == {"uvicorn", "redis-server"}


def test_a_worker_has_more_time_than_its_drain() -> None:
    for service in services().values():
        if (drain := drain_of(service["command"])) is not None:
            assert int(service["stop_grace_period"].removesuffix("s")) >= drain + 15
    for unit in UNITS:
        if (drain := drain_of(started(unit))) is not None:
            assert int(settings_of(unit)["TimeoutStopSec"][-1]) >= drain + 15
    for _, pod in pods():
        if (drain := drain_of(pod["containers"][0]["args"])) is not None:
            assert pod["terminationGracePeriodSeconds"] >= drain + 15


def drain_of(words: list[str]) -> float | None:
    match = re.search(r"--drain[ =](\d+)", " ".join(words))
    return float(match[1]) if match else None


def settings_of(unit: Path) -> dict[str, list[str]]:
    reader = configparser.RawConfigParser(strict=False, delimiters=("=",))
    reader.optionxform = str  # type: ignore[method-assign, assignment]
    reader.read_string(unit.read_text())
    assert {"Unit", "Service", "Install"} == set(reader.sections())
    return {name: value.splitlines() for name, value in reader.items("Service")}


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_units_are_what_systemd_takes(unit: Path, tmp_path: Path) -> None:
    service = settings_of(unit)
    assert service["Type"] == ["exec"], "there is no sd_notify"
    if (systemd := shutil.which("systemd-analyze")) is None:
        return
    # With programs and folders that there are here.
    text = unit.read_text().replace("/srv/shop/.venv/bin/headrace", sys.executable)
    name = unit.name.replace("@", "@mail") if "@" in unit.name else unit.name
    (tmp_path / name).write_text(text)
    ended = subprocess.run(
        [systemd, "verify", "--man=no", "--recursive-errors=no", str(tmp_path / name)],
        capture_output=True,
        text=True,
        check=False,
    )
    complaints = [line for line in ended.stderr.splitlines() if str(tmp_path) in line]
    assert not complaints, ended.stderr


def test_the_image_has_what_its_containers_need() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    copied = re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE)
    assert copied == ["requirements.txt .", "shop.py web.py ./"]
    tutorial = {path.name for path in (ROOT / "examples" / "tutorial").iterdir()}
    assert {"shop.py", "web.py", "requirements.txt"} <= tutorial
    assert re.search(r"^USER 10001$", text, re.MULTILINE)
    assert "headrace[all]" in (ROOT / "examples/tutorial/requirements.txt").read_text()


def test_a_pod_has_no_right_that_it_does_not_need() -> None:
    names = [name for name, _ in pods()]
    assert sorted(names) == ["shop-dashboard", "shop-web", "shop-worker", "shop-worker"]
    for name, pod in pods():
        assert pod["securityContext"]["runAsNonRoot"], name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert pod["automountServiceAccountToken"] is False, name
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }, name
            assert container["resources"].keys() == {"requests", "limits"}, name
            assert "memory" in container["resources"]["limits"], name
            given = {each["name"] for each in container["env"]}
            assert (name == "shop-dashboard") is any("DASHBOARD" in each for each in given), name


def policies() -> dict[str, dict[str, Any]]:
    found = documents(DEPLOY / "kubernetes.yaml")
    return {
        document["metadata"]["name"]: document["spec"]
        for document in found
        if document["kind"] == "NetworkPolicy"
    }


def test_a_pod_is_reached_by_those_alone_who_are_named() -> None:
    ours = [name for name, pod in pods() if pod["containers"][0]["image"].startswith("registry")]
    found = policies()
    closed = found.pop("shop-nobody")
    (chosen,) = closed.pop("podSelector")["matchExpressions"]
    assert sorted(chosen["values"]) == sorted(ours)
    assert closed == {"policyTypes": ["Ingress"]}, "no rule lets anyone in"
    left = found.pop("shop-dashboard-leaves")
    assert left["policyTypes"] == ["Egress"]
    assert all(rule["to"] and rule["ports"] for rule in left["egress"])
    named = {port["name"] for _, pod in pods() for port in pod["containers"][0]["ports"]}
    for policy in found.values():
        for rule in policy["ingress"]:
            assert rule["from"]
            assert all(each["namespaceSelector"] for each in rule["from"])
            assert {each["port"] for each in rule["ports"]} <= named


def test_a_proxy_that_is_trusted_is_no_network_of_others() -> None:
    given = [words[words.index("--proxy") + 1] for words in commands() if "--proxy" in words]
    assert len(given) == 2
    for address in given:
        assert ipaddress.ip_network(address).num_addresses <= 256, address


def test_redis_beside_the_containers_wants_a_password(tmp_path: Path) -> None:
    (document,) = documents(DEPLOY / "compose.yaml")
    redis = document["services"]["redis"]
    (config,) = redis["configs"]
    assert redis["command"][2:] == ["--include", config["target"]]
    assert "ports" not in redis
    text = document["configs"][config["source"]]["content"]
    assert "${REDIS_PASSWORD}" in text
    (tmp_path / "password.conf").write_text(text.replace("${REDIS_PASSWORD}", "another1"))
    with RedisServer(tmp_path, {"include": str(tmp_path / "password.conf")}) as server:
        with pytest.raises(redis_driver.AuthenticationError):
            redis_driver.Redis(port=server.port).ping()
        assert redis_driver.Redis(port=server.port, password="another1").ping()
    for name, service in document["services"].items():
        if name != "redis":
            url = service["environment"]["HEADRACE_URL"]
            assert re.fullmatch(r"redis://:\$\{REDIS_PASSWORD:\?.*\}@redis:6379/0", url), name
            assert service["cap_drop"] == ["ALL"], name


def test_no_worker_has_the_variables_of_the_dashboard() -> None:
    named = re.compile(r"^EnvironmentFile=-?(.*)$", re.MULTILINE)
    read = {unit.name: named.findall(unit.read_text()) for unit in UNITS}
    users = {unit.name: settings_of(unit)["User"] for unit in UNITS}
    board = set(read.pop("headrace-dashboard.service"))
    assert len(board) == 2
    shared = {"/etc/shop/headrace.env"}
    for name, files in read.items():
        assert board & set(files) == shared, name
        assert users[name] != users["headrace-dashboard.service"]
        text = (DEPLOY / name).read_text()
        assert "HEADRACE_DASHBOARD" not in text
    for name, service in services().items():
        has = any("DASHBOARD" in variable for variable in service.get("environment", {}))
        assert has is (name == "dashboard"), name


def test_redis_takes_its_settings_and_may_be_trusted_with_jobs(tmp_path: Path) -> None:
    lines = (DEPLOY / "redis.conf").read_text().splitlines()
    pairs = [line.split(" ", 1) for line in lines if line and not line.startswith("#")]
    settings = {name: value.strip('"') for name, value in pairs if name != "dir"}
    with RedisServer(tmp_path, settings) as server:
        for name, value in settings.items():
            said = server.ask("CONFIG", "GET", name)
            assert (value == "1gb" and b"1073741824" in said[1]) or said[1] == value.encode()


def test_the_page_shows_the_files_as_they_are() -> None:
    texts = [path.read_text() for path in (*DEPLOY.iterdir(), *YAML)]
    kinds = {"ini", "yaml", "dockerfile"}
    shown = [block for block in blocks(PAGE) if block.language in kinds]
    assert len(shown) > 5
    for block in shown:
        assert any(block.text in text for text in texts), f"{PAGE.name}:{block.first + 1}"
