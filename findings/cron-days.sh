#!/usr/bin/env bash
# Libraries:     cronsim 2.8 (schedules of Debian's cron in Python), and github.com/robfig/cron/v3 3.0.1 (schedules of
#                Kubernetes' CronJobs and of etcd-backup-restore).
# Guess:         five fields of digits, * and / mean the same to every cron.
# What happens:  if a day of the month and a day of the week are given, a time must match either, unless one of them is
#                unrestricted. To Debian's cron each field that begins with * is unrestricted, so `*/2` leads to days
#                that match both; to robfig/cron only * itself is. Output seen for `0 0 */2 * 1`:
#                  cronsim:     2026-12-07 2026-12-21 2027-01-11 2027-01-25
#                  robfig/cron: 2026-11-30 2026-12-01 2026-12-03 2026-12-05
#                  both, for 0 0 1-31/2 * 1: 2026-11-30 2026-12-01 2026-12-03 2026-12-05
# For users:     a schedule that moves between a CronJob and a Python scheduler, or a monitor that predicts the next run
#                of a CronJob, is wrong by weeks. `1-31/2` (and `0-6/2` for the days of the week) means the same to both.
# Espalier:      reads schedules of snapshots and defragmentation with cronsim, and replaces `*/2` in those two fields
#                as above: src/espalier/etcdbackup/snapshotter/schedule.py;
#                tests/unit/etcdbackup/snapshotter/test_schedule.py.
#
# Needs Go.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check cronsim==2.8
cd "$work"
cat > main.go <<'E'
package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

func main() {
	schedule, err := cron.ParseStandard(os.Args[1])
	if err != nil {
		panic(err)
	}
	moment, days := time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC), []string{}
	for len(days) < 4 {
		moment = schedule.Next(moment)
		days = append(days, moment.Format(time.DateOnly))
	}
	fmt.Println(strings.Join(days, " "))
}
E
cat > days.py <<'E'
import sys
from datetime import UTC, datetime
from itertools import islice

from cronsim import CronSim

moments = islice(CronSim(sys.argv[1], datetime(2026, 11, 29, tzinfo=UTC)), 4)
print(*(f"{moment:%Y-%m-%d}" for moment in moments))
E
go mod init finding 2>/dev/null
go get github.com/robfig/cron/v3@v3.0.1 2>/dev/null
go build -o robfig .
step_debian=$(venv/bin/python days.py '0 0 */2 * 1')
step_robfig=$(./robfig '0 0 */2 * 1')
range_debian=$(venv/bin/python days.py '0 0 1-31/2 * 1')
range_robfig=$(./robfig '0 0 1-31/2 * 1')
either="2026-11-30 2026-12-01 2026-12-03 2026-12-05"
echo "0 0 */2 * 1     cronsim:     $step_debian"
echo "                robfig/cron: $step_robfig"
echo "0 0 1-31/2 * 1  cronsim:     $range_debian"
echo "                robfig/cron: $range_robfig"
if [ "$step_debian" != "2026-12-07 2026-12-21 2027-01-11 2027-01-25" ] || [ "$step_robfig" != "$either" ]; then
    echo "cronsim and robfig/cron no longer differ about */2 as they did"
    exit 1
fi
if [ "$range_debian" != "$either" ] || [ "$range_robfig" != "$either" ]; then
    echo "cronsim and robfig/cron no longer agree about 1-31/2"
    exit 1
fi
