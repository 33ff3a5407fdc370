from espalier.realnodes.nspawn.clusters import pod_routes
from espalier.realnodes.nspawn.system.state import NodeRecord


def node(name: str, address: str) -> NodeRecord:
    return NodeRecord(f"esp-{name}", name, "ns", name, "garden", address, "1.35.4")


def test_every_node_gets_routes_to_pods_of_all_others() -> None:
    oak, elm, ash = node("oak", "10.77.0.3"), node("elm", "10.77.0.4"), node("ash", "10.77.0.5")
    assert pod_routes({oak: "192.168.0.0/24", elm: "192.168.1.0/24", ash: "192.168.2.0/24"}) == {
        oak: [("192.168.1.0/24", "10.77.0.4"), ("192.168.2.0/24", "10.77.0.5")],
        elm: [("192.168.0.0/24", "10.77.0.3"), ("192.168.2.0/24", "10.77.0.5")],
        ash: [("192.168.0.0/24", "10.77.0.3"), ("192.168.1.0/24", "10.77.0.4")],
    }


def test_a_booting_node_gets_no_routes() -> None:
    oak = node("oak", "10.77.0.3")
    assert pod_routes({oak: "192.168.0.0/24"}) == {oak: []}
