#!/usr/bin/env bash
# Library:       prometheus-client 0.26.0, `prometheus_client.parser` (metrics of Prometheus' text format, in Python).
# Guess:         it returns samples under the names that the page has.
# What happens:  a counter without `_total`, which that format allows, gets one, as OpenMetrics wants it; and the metric
#                of a counter with `_total` loses it from its own name. Output seen:
#                  authentication_attempts  is in metric authentication_attempts, sample authentication_attempts_total
#                  workqueue_adds_total     is in metric workqueue_adds, sample workqueue_adds_total
#                  process_open_fds         is in metric process_open_fds, sample process_open_fds
# For users:     a program that looks for kube-apiserver's authentication_attempts or authenticated_user_requests finds
#                nothing, and one that serves what it has read serves another metric, which no query or alert knows.
# Espalier:      parses no metrics; its own counters have `_total` in both formats: src/espalier/runtime/metrics.py.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check prometheus-client==0.26.0
"$work/venv/bin/python" - <<'E'
import sys

from prometheus_client.parser import text_string_to_metric_families

PAGE = """\
# TYPE authentication_attempts counter
authentication_attempts{result="success"} 7
# TYPE workqueue_adds_total counter
workqueue_adds_total{name="node"} 5
# TYPE process_open_fds gauge
process_open_fds 9
"""
EXPECTED = {
    "authentication_attempts": ("authentication_attempts", "authentication_attempts_total"),
    "workqueue_adds_total": ("workqueue_adds", "workqueue_adds_total"),
    "process_open_fds": ("process_open_fds", "process_open_fds"),
}
read = [(metric.name, sample.name) for metric in text_string_to_metric_families(PAGE) for sample in metric.samples]
for name, (metric, sample) in zip(EXPECTED, read, strict=True):
    print(f"{name:24} is in metric {metric}, sample {sample}")
if read != list(EXPECTED.values()):
    sys.exit("counters are named otherwise now")
E
