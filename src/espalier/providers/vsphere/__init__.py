"""Provider vSphere: machines are virtual machines of a vCenter."""
