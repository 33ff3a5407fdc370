from espalier.realnodes.nspawn.system.limits import shortage
from espalier.realnodes.nspawn.system.state import NodeRecord


def node(*, control_plane: bool) -> NodeRecord:
    return NodeRecord("esp-0", "n", "ns", "uid", "garden", "10.77.0.3", "1.35.4", control_plane=control_plane)


def test_as_many_nodes_as_the_host_carries_are_made() -> None:
    assert shortage([node(control_plane=True), node(control_plane=False), node(control_plane=False)], 128) == ""


def test_one_more_waits_and_names_the_host_setting() -> None:
    nodes = [*3 * [node(control_plane=True)], node(control_plane=False)]
    assert shortage(nodes, 128) == (
        "4 nodes need about 134 inotify instances, this machine allows 128: "
        "sysctl -w fs.inotify.max_user_instances=1024"
    )
