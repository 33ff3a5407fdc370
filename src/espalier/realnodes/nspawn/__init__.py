"""Real nodes on one Linux machine: an infrastructure provider whose machines are systemd-nspawn containers.

Everything is recorded in one folder before it is created, so the next process finds it: nodes keep running when this
process ends, and are taken over by the next. Nothing else on the machine is changed.
"""
