#!/usr/bin/env bash
# Libraries:     cronsim 2.8 (Python), and robfig/cron 3.0.1, the version of kube-controller-manager's CronJobs with a
#                `timeZone`.
# Guess:         a daily time that the clock skips or repeats, such as 02:30 in Berlin, is due once that day in both.
# What happens:  in cronsim it is, in March at 03:00. robfig/cron leaves the day in March out, and is due twice in
#                October. Output seen, days and times of "30 2 * * *":
#                  cronsim      March 28T02:30+0100 29T03:00+0200 30T02:30+0200
#                  robfig/cron  March 28T02:30+0100 30T02:30+0200
#                  cronsim      October 24T02:30+0200 25T02:30+0200 26T02:30+0100
#                  robfig/cron  October 24T02:30+0200 25T02:30+0200 25T02:30+0100 26T02:30+0100
# For users:     a backup of a CronJob with `timeZone: Europe/Berlin` is left out one night a year, and one that must not
#                run twice does; a forecast, or an alert on missed runs, that is computed in Python doesn't tell.
# Espalier:      all schedules are in UTC, where no time is skipped: src/espalier/etcdbackup/snapshotter/schedule.py.
#
# Needs Go.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check cronsim==2.8 tzdata==2025.2
cd "$work"
cat > main.go <<'E'
package main

import (
	"fmt"
	"time"
	_ "time/tzdata"

	"github.com/robfig/cron/v3"
)

func main() {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		panic(err)
	}
	schedule, err := cron.ParseStandard("30 2 * * *")
	if err != nil {
		panic(err)
	}
	for _, start := range []time.Time{
		time.Date(2026, time.March, 28, 0, 0, 0, 0, zone), time.Date(2026, time.October, 24, 0, 0, 0, 0, zone),
	} {
		fmt.Print(start.Month())
		for moment := schedule.Next(start); moment.Before(start.AddDate(0, 0, 3)); moment = schedule.Next(moment) {
			fmt.Print(moment.Format(" 02T15:04-0700"))
		}
		fmt.Println()
	}
}
E
cat > times.py <<'E'
from datetime import datetime, timedelta
from itertools import takewhile
from zoneinfo import ZoneInfo

from cronsim import CronSim

for month, day, name in ((3, 28, "March"), (10, 24, "October")):
    start = datetime(2026, month, day, tzinfo=ZoneInfo("Europe/Berlin"))
    moments = takewhile(lambda moment: moment < start + timedelta(days=3), CronSim("30 2 * * *", start))
    print(name, *(moment.strftime("%dT%H:%M%z") for moment in moments))
E
go mod init finding 2>/dev/null
go get github.com/robfig/cron/v3@v3.0.1 2>/dev/null
venv/bin/python times.py > python.txt
go run . > go.txt
sed 's/^/cronsim      /' python.txt
sed 's/^/robfig\/cron  /' go.txt
if [ "$(cat python.txt)" != "March 28T02:30+0100 29T03:00+0200 30T02:30+0200
October 24T02:30+0200 25T02:30+0200 26T02:30+0100" ]; then
    echo "cronsim treats changes of the clock otherwise now"
    exit 1
fi
if [ "$(cat go.txt)" != "March 28T02:30+0100 30T02:30+0200
October 24T02:30+0200 25T02:30+0200 25T02:30+0100 26T02:30+0100" ]; then
    echo "robfig/cron treats changes of the clock otherwise now"
    exit 1
fi
