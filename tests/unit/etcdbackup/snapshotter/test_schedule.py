"""Times of schedules, which are those of Kubernetes' cron."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from espalier.etcdbackup.snapshotter.schedule import Schedule, following

SUNDAY = datetime(2026, 11, 29, tzinfo=UTC)


@pytest.mark.parametrize(
    ("expression", "days"),
    [
        ("0 0 */2 * 1", ["2026-11-30", "2026-12-01", "2026-12-03"]),
        ("0 0 1 * */2", ["2026-12-01", "2026-12-03", "2026-12-05"]),
        ("0 0 */2,*/5 * 1", ["2026-11-30", "2026-12-01", "2026-12-03"]),
        ("0 0 */2,* * 1", ["2026-11-30", "2026-12-07", "2026-12-14"]),
        ("0 0 5,* * 1", ["2026-11-30", "2026-12-07", "2026-12-14"]),
        ("0 0 */1 * 1", ["2026-11-30", "2026-12-07", "2026-12-14"]),
        ("0 0 */2 * *", ["2026-12-01", "2026-12-03", "2026-12-05"]),
        ("0 0 * * 1", ["2026-11-30", "2026-12-07", "2026-12-14"]),
        ("0 0 1 * 1", ["2026-11-30", "2026-12-01", "2026-12-07"]),
    ],
)
def test_days_of_steps_are_those_of_kubernetes_cron(expression: str, days: list[str]) -> None:
    times, moment = [], SUNDAY
    for _ in days:
        moment = following(expression, moment)
        times.append(f"{moment:%Y-%m-%d}")
    assert times == days


def test_invalid_schedules_are_shown_as_written() -> None:
    with pytest.raises(ValueError, match=r"schedule: found '0 0 \*/2 \* 9', allowed is a cron expression"):
        Schedule(full="0 0 */2 * 9")
