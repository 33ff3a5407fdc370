"""Real nodes on one Linux machine: an infrastructure provider whose machines are systemd-nspawn containers.

Everything that is made is written down in one folder first, so that whoever starts next finds it: nodes go on when
this process ends, and are taken over again. Nothing is touched that is not written there.
"""
