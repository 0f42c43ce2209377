"""What a bed may be made of, and the names and addresses that follow."""

import ipaddress
import json
import tomllib
from pathlib import Path

import pytest
from bed import addresses, nodeconfig, played
from bed.addresses import node_addresses
from bed.config import BedConfig, NodeDevices
from bed.cuts import Link, ruleset
from bed.errors import BedError
from bed.network import node_routes
from bed.nodespace import NodeFolders, setup_script

BED = ipaddress.IPv4Network(addresses.BED_NETWORK)


def test_devices_are_named_as_the_drivers_name_them() -> None:
    assert NodeDevices(gpus=2, nics=1).paths() == [
        "/dev/kfd",
        "/dev/infiniband/rdma_cm",
        "/dev/dri/renderD128",
        "/dev/dri/renderD129",
        "/dev/infiniband/uverbs0",
    ]
    assert NodeDevices(gpus=0, nics=0).paths() == []


def test_a_configuration_survives_being_written_down(tmp_path: Path) -> None:
    config = BedConfig(3, NodeDevices(2, 4), "none", {"models": tmp_path}, (tmp_path / "a.tar",))
    assert BedConfig.from_json(config.to_json()) == config
    without = BedConfig(devices=None)
    assert BedConfig.from_json(without.to_json()).devices is None


@pytest.mark.parametrize("nodes", [0, 10])
def test_the_number_of_nodes_is_bounded(nodes: int) -> None:
    with pytest.raises(BedError, match=f"nodes={nodes}: a bed has 1 to 9 nodes"):
        BedConfig(nodes=nodes).checked()


@pytest.mark.parametrize("inside", ["", "/mnt/", "/etc", "../etc", "scratch", "/mnt/scratch/x"])
def test_mounts_stay_under_mnt_and_off_the_scratch_folder(inside: str, tmp_path: Path) -> None:
    with pytest.raises(BedError, match="name a path under /mnt"):
        BedConfig(mounts={inside: tmp_path}).checked()


def test_what_the_host_lacks_is_named(tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    with pytest.raises(BedError, match=f"the host has no folder {absent}"):
        BedConfig(mounts={"models": absent}).checked()
    with pytest.raises(BedError, match=f"{absent} is not there"):
        BedConfig(images=(absent,)).checked()
    fine = BedConfig(mounts={"/mnt/models": tmp_path, "engine": tmp_path})
    assert fine.checked() is fine


def test_every_address_is_within_the_benchmark_range_and_its_own() -> None:
    nodes = node_addresses(9)
    networks = [ipaddress.IPv4Network(node.pod_network) for node in nodes]
    services = ipaddress.IPv4Network(addresses.SERVICE_NETWORK)
    assert all(network.subnet_of(BED) for network in [*networks, services])
    assert not any(a.overlaps(b) for a in [*networks, services] for b in networks if a is not b)
    hosts = [ipaddress.IPv4Address(node.ip) for node in nodes]
    assert len({*hosts, ipaddress.IPv4Address(addresses.BRIDGE_IP)}) == 10
    assert not any(host in network for host in hosts for network in networks)


def test_links_fit_into_the_kernels_fifteen_characters() -> None:
    assert all(len(node.link) <= 15 for node in node_addresses(9))
    assert len(addresses.BRIDGE) <= 15


def test_no_route_of_a_node_leads_out_of_the_bed() -> None:
    nodes = node_addresses(3)
    routes = node_routes(nodes[1], nodes)
    targets = [ipaddress.IPv4Network(route.split()[0]) for route in routes]
    assert all(target.subnet_of(BED) for target in targets)
    assert f"{nodes[0].pod_network} via {nodes[0].ip}" in routes
    assert not any(route.startswith(nodes[1].pod_network) for route in routes)


def test_a_node_shows_devices_and_mounts_by_its_script() -> None:
    folders = NodeFolders(Path("/state/node0"))
    script = setup_script(folders, ["/dev/infiniband/uverbs0"], {"models": Path("/a b/models")})
    lines = script.splitlines()
    assert "mknod -m 666 infiniband/uverbs0 c 1 3" in lines
    bound = lines.index("mount --bind '/a b/models' /state/node0/stage/mnt/models")
    assert lines[bound + 1] == "mount -o remount,bind,ro /state/node0/stage/mnt/models"
    assert lines.index("mount --move /state/node0/stage/mnt /mnt") > bound
    assert "mknod" not in setup_script(folders, [], {})


def test_containerds_configuration_names_its_root_and_the_pause_image() -> None:
    config = tomllib.loads(nodeconfig.containerd(Path("/r"), Path("/s")))
    assert config["root"] == "/r"
    cri = config["plugins"]["io.containerd.grpc.v1.cri"]
    assert cri["sandbox_image"] == nodeconfig.PAUSE_REFERENCE
    assert cri["restrict_oom_score_adj"] is True


def test_a_kubelet_serves_on_its_nodes_address_from_its_nodes_cgroup() -> None:
    node = node_addresses(2)[1]
    config = json.loads(nodeconfig.kubelet(node, Path("/pki"), Path("/s")))
    assert config["address"] == node.ip
    assert config["cgroupRoot"] == f"/{node.cgroup}"
    pods = json.loads(nodeconfig.cni(node))["plugins"][0]["ipam"]["ranges"]
    assert pods == [[{"subnet": node.pod_network}]]


def test_a_cut_between_nodes_drops_at_both_ends_what_comes_from_the_other() -> None:
    first, second, third = node_addresses(3)
    link = Link(first, second)
    assert f'iifname "eth0" ip saddr {{ {second.ip}, {second.pod_network} }} drop' in ruleset(
        first, [link]
    )
    assert f'iifname "eth0" ip saddr {{ {first.ip}, {first.pod_network} }} drop' in ruleset(
        second, [link]
    )
    assert ruleset(third, [link]) == ruleset(third, [])


def test_a_cut_from_the_api_server_drops_nothing_but_its_traffic_at_one_node() -> None:
    first, second = node_addresses(2)
    rules = [line for line in ruleset(first, [Link(first)]).splitlines() if "drop" in line]
    assert rules == [
        'iifname "eth0" ip saddr 198.18.0.1 tcp sport 6443 drop',
        'iifname "eth0" ip saddr 198.18.0.1 tcp dport 10250 drop',
        'oifname "eth0" ip daddr 198.18.0.1 tcp dport 6443 drop',
        'oifname "eth0" ip daddr 198.18.0.1 tcp sport 10250 drop',
    ]
    assert ruleset(second, [Link(first)]) == ruleset(second, [])


def test_a_node_without_cuts_has_no_table_left() -> None:
    (node,) = node_addresses(1)
    assert ruleset(node, []).splitlines() == [
        "add table inet moriio_bed_cuts",
        "delete table inet moriio_bed_cuts",
    ]


def test_closed_played_nodes_take_only_pods_that_ask_for_them() -> None:
    (node,) = played.nodes(1, closed=True)
    (taint,) = node["spec"]["taints"]
    assert played.PLACEMENT["tolerations"] == [{"key": taint["key"], "operator": "Exists"}]
    assert played.PLACEMENT["nodeSelector"].items() <= node["metadata"]["labels"].items()
    assert played.nodes(1, closed=False)[0]["spec"] == {}


def test_played_pods_have_addresses_of_the_bed_that_no_real_node_gives_out() -> None:
    network = ipaddress.IPv4Network(addresses.PLAYED_POD_NETWORK)
    assert network.subnet_of(BED)
    real = [ipaddress.IPv4Network(node.pod_network) for node in node_addresses(9)]
    services = ipaddress.IPv4Network(addresses.SERVICE_NETWORK)
    assert not any(network.overlaps(other) for other in [*real, services])
    assert ipaddress.IPv4Address(addresses.PLAYED_NODE_IP) not in network


def test_kwok_plays_the_nodes_with_the_label_and_no_others() -> None:
    settings, *stages = map(json.loads, played.configuration().split("\n---\n"))
    assert settings["options"]["manageNodesWithLabelSelector"] == "type=played"
    kinds = [stage["spec"]["resourceRef"]["kind"] for stage in stages]
    assert kinds == ["Node", "Pod", "Pod"]
