from ipaddress import IPv4Address
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.realnodes.nspawn.system.state import EndpointRecord, NetworkRecord, NodeRecord, State, node_id

UID = "0f3a9c1d-7b7e-4f0a-8d52-2a1f6f1a0001"
NODE = NodeRecord(
    id=node_id(UID),
    name="garden-abcde",
    namespace="eksa-system",
    uid=UID,
    cluster="garden",
    address="10.77.0.3",
    version="1.35.4",
)


@given(st.builds(NodeRecord))
def test_the_stored_state_of_a_node_is_read_back(record: NodeRecord) -> None:
    assert msgspec.json.decode(msgspec.json.encode(record), type=NodeRecord) == record


def test_a_node_is_there_from_its_record_to_its_end(tmp_path: Path) -> None:
    state = State(tmp_path / "nodes")
    assert state.nodes() == []
    state.write_node(NODE)
    (state.folder(NODE.id).upper / "etc").mkdir(parents=True)
    assert State(tmp_path / "nodes").nodes() == [NODE]
    state.forget_node(NODE.id)
    state.forget_node(NODE.id)
    assert state.nodes() == []
    assert list(state.root.iterdir()) == []


def test_addresses_of_nodes_and_clusters_are_taken(tmp_path: Path) -> None:
    state = State(tmp_path / "nodes")
    state.write_node(NODE)
    endpoint = EndpointRecord("eksa-system/garden", "uid", "10.77.0.2", 6443)
    state.write_network(NetworkRecord("esp0", "10.77.0.0/24", (endpoint,)))
    assert set(state.taken()) == {IPv4Address("10.77.0.2"), IPv4Address("10.77.0.3")}


def test_nothing_is_left_of_network_that_was_forgotten(tmp_path: Path) -> None:
    state = State(tmp_path / "nodes")
    state.write_network(NetworkRecord("esp0", "10.77.0.0/24"))
    (state.root / "balancer.conf").write_text("[]")
    state.forget_network()
    assert not state.root.exists()


def test_record_of_another_version_is_kept(tmp_path: Path) -> None:
    state = State(tmp_path / "nodes")
    file = state.folder(NODE.id).record
    file.parent.mkdir(parents=True)
    file.write_text('{"id": 7}')
    with pytest.raises(ValueError, match=r"node\.json.*another version"):
        state.nodes()
    assert file.exists()


def test_name_of_a_node_leaves_room_for_its_interface() -> None:
    assert node_id(UID) == "esp-0f3a9c1d"
    assert len(f"vb-{node_id(UID)}") <= 15
