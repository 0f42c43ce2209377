"""The settings file: what is left out has a default, what is wrong is refused by its name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from moriio_operator.admission.policy import Policy
from moriio_operator.api.ports import PortRange
from moriio_operator.runtime.settings import Settings
from pydantic import ValidationError

from unit.samples import SETTINGS, Json

LEAST = SETTINGS


def loaded(change: Json, folder: Path) -> Settings:
    path = folder / "settings.json"
    path.write_text(json.dumps({**LEAST, **change}))
    return Settings.load(path)


def test_defaults(tmp_path: Path) -> None:
    settings = loaded({}, tmp_path)
    assert settings.namespaces == []
    assert settings.policy == Policy()
    assert settings.ports.range() == PortRange(20_000, 29_999)
    assert (settings.workers, settings.resync_seconds, settings.log_level) == (8, 300, "info")


def test_by_default_nobody_may_do_anything_to_a_node(tmp_path: Path) -> None:
    policy = loaded({}, tmp_path).policy
    assert (policy.privileged_namespaces, policy.host_path_prefixes) == ([], [])


def test_every_key_arrives(tmp_path: Path) -> None:
    settings = loaded(
        {
            "namespaces": ["a"],
            "policy": {"privilegedNamespaces": ["b"], "hostPathPrefixes": ["/srv"]},
            "ports": {"start": 21_000, "end": 21_099},
            "workers": 2,
            "resyncSeconds": 5,
            "logLevel": "debug",
            "httpPort": 9000,
        },
        tmp_path,
    )
    assert settings.namespaces == ["a"]
    assert settings.policy.privileged_namespaces == ["b"]
    assert settings.policy.host_path_prefixes == ["/srv"]
    assert settings.ports.range() == PortRange(21_000, 21_099)
    assert (settings.workers, settings.resync_seconds) == (2, 5)
    assert (settings.log_level, settings.http_port) == ("debug", 9000)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"namespace": []}, "namespace"),
        ({"policy": {"privilegedNamespace": []}}, "privilegedNamespace"),
        ({"ports": {"begin": 1}}, "begin"),
        ({"ports": {"start": 80}}, r"ports\.start"),
        ({"ports": {"end": 70_000}}, r"ports\.end"),
        ({"ports": {"start": 3000, "end": 2900}}, r"ports\.end 2900 is below ports\.start 3000"),
        *(
            (
                {"ports": {"start": first, "end": last}},
                f"ports {first}-{last} overlap .* reserved for {whose}",
            )
            for first, last, whose in (
                (2_000, 2_379, "etcd"),
                (6_443, 6_443, "the API server"),
                (10_000, 20_000, "Kubernetes' components"),
                (20_000, 30_000, "NodePort Services"),
                (40_000, 50_000, "outgoing connections"),
                (61_500, 62_500, "NodePortLocal"),
            )
        ),
        ({"workers": 0}, "workers"),
        ({"resyncSeconds": 0}, "resyncSeconds"),
        ({"logLevel": "loud"}, "logLevel"),
        ({"httpPort": 0}, "httpPort"),
        ({"registrarImage": None}, "registrarImage"),
        ({"registrarRole": {"kind": "Rule", "name": "x"}}, r"registrarRole\.kind"),
        ({"leaderElection": {"leaseNamespace": "a"}}, r"leaderElection\.leaseName"),
        *(
            (
                {"leaderElection": {**SETTINGS["leaderElection"], **times}},
                "retryPeriodSeconds must be below renewDeadlineSeconds",
            )
            for times in (
                {"renewDeadlineSeconds": 15},
                {"retryPeriodSeconds": 10},
                {"leaseDurationSeconds": 2},
            )
        ),
    ],
)
def test_what_is_wrong_is_refused_by_its_name(change: Json, named: str, tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match=named):
        loaded(change, tmp_path)
