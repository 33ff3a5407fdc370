"""Provider vSphere: machines are virtual machines, cloned from templates of a vCenter."""
