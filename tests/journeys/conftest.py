from tests.support.control_plane_fixture import control_plane

__all__ = ["control_plane"]
