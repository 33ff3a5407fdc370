#!/usr/bin/env bash
# Library:       pyvmomi 9.1.1.0 (VMware's client of vCenter in Python).
# Guess:         virtual machines that were read in two sessions, with two vCenters, are two objects.
# What happens:  they are equal, and of the same hash, if their vCenters gave them the same identifier: a session isn't
#                compared. Each vCenter counts its own, from small numbers, so they meet. Output seen:
#                  'vim.VirtualMachine:vm-12' == 'vim.VirtualMachine:vm-12': True
#                  keys of a dict: 1, its value: that of vcenter-b
# For users:     a dict or set of the machines of several vCenters loses some, and takes others' values for theirs, as
#                soon as there is a second vCenter. Use (host, moId) as a key, or the instanceUuid of the machine.
# Espalier:      no such object leaves its session; answers are by path, those of a session by its server:
#                src/espalier/providers/vsphere/checks/vcenter.py.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check pyvmomi==9.1.1.0
"$work/venv/bin/python" - <<'E'
import sys

from pyVmomi import SoapStubAdapter, vim

# As the library makes them from answers: each with the connection that it was read from. Nothing is sent.
ours, theirs = (vim.VirtualMachine("vm-12", SoapStubAdapter(host)) for host in ("vcenter-a", "vcenter-b"))
if (ours._stub.host, theirs._stub.host) != ("vcenter-a:443", "vcenter-b:443"):
    sys.exit("the machines are not of two vCenters")
notes = {ours: "that of vcenter-a"}
notes[theirs] = "that of vcenter-b"
print(f"{ours} == {theirs}: {ours == theirs}")
print(f"keys of a dict: {len(notes)}, its value: {notes[ours]}")
if ours != theirs or notes != {ours: "that of vcenter-b"}:
    sys.exit("machines of two vCenters are compared otherwise now")
E
