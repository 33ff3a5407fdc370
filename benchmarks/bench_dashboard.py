"""`espalier dashboard` with a thousand clusters, in a real Chromium: first paint, updates, CPU and memory of both.

    python -m benchmarks.bench_dashboard [--clusters 1000]

The API server is the embedded one, in another process, with copies of one cluster that was really made. An update is a
write to one Cluster; its latency ends when the row on the page has changed. A storm changes many clusters as fast as
the API server takes it.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.async_api import CDPSession, Page, async_playwright

from benchmarks.bench_manager import fleet, one_steady_cluster
from benchmarks.measure import PROGRAM, arguments, cpu_seconds, peak_memory, report, size, spread
from espalier.api.eksa.cluster import Cluster
from espalier.kube.client import Client, PatchType
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.transports.http import HttpTransport
from tests.support.environments.browser import FLAGS

SHORT: dict[str, str | float | bool] = {**os.environ, "TMPDIR": "/tmp"}
"""Chromium's environment: it makes a socket in that folder, whose path may have no more than 108 characters."""
UPDATES = size(30, 2)
STORM = size(1000, 2)
IDLE = size(20.0, 0.5)
PAINTS = size(5, 1)
CHANGED = """([id, text]) => new Promise((done) => {
  const look = () => {
    if (document.getElementById(id)?.textContent.includes(text)) { observer.disconnect(); done(Date.now()); }
  };
  const observer = new MutationObserver(look);
  observer.observe(document.body, { subtree: true, childList: true, characterData: true });
  look();
})"""
"""The time at which a row has a text."""
SORT = """() => { const began = performance.now(); document.querySelector("th.name button").click();
  document.body.offsetHeight; return performance.now() - began; }"""
FILTER = """() => new Promise((done) => {
  const began = performance.now(), filter = document.getElementById("filter");
  new MutationObserver(() => { document.body.offsetHeight; done(performance.now() - began); })
    .observe(document.getElementById("count"), { childList: true, subtree: true, characterData: true });
  filter.value = "00001"; filter.dispatchEvent(new Event("input")); })"""
PAINT = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"


@contextmanager
def served(home: Path) -> Iterator[tuple[int, str, float]]:
    """A dashboard of the fleet: its process, its address, and the seconds until it was printed."""
    began = time.monotonic()
    command = [*PROGRAM, "dashboard", "--no-open", "--kubeconfig", str(home / "fleet.kubeconfig")]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "ESPALIER_HOME": str(home)}
    )
    try:
        assert process.stdout is not None
        match = re.search(r"http://\S+", process.stdout.readline())
        assert match is not None
        yield process.pid, match[0], time.monotonic() - began
    finally:
        process.terminate()
        process.wait()


async def metrics(session: CDPSession) -> dict[str, float]:
    """Figures of a page, as Chromium has them."""
    answer = await session.send("Performance.getMetrics")
    return {each["name"]: each["value"] for each in answer["metrics"]}


async def change(client: Client, name: str, workers: int) -> None:
    patch: dict[str, Any] = {"spec": {"workerNodeGroupConfigurations": [{"name": "md-0", "count": workers}]}}
    await client.patch(Cluster.resource, name, "default", patch=patch, type=PatchType.MERGE)


async def paints(page: Page, address: str, count: int) -> tuple[list[float], list[float], int]:
    """First paints, and times until all rows are there, of some loads; and the bytes of the page."""
    await page.goto(address)
    await page.wait_for_selector("#live.on")
    await page.wait_for_selector(f"tbody#clusters tr:nth-child({count})", state="attached")
    first, complete, length = [], [], 0
    for _ in range(PAINTS):
        began = time.monotonic()
        response = await page.reload(wait_until="load")
        complete.append(time.monotonic() - began)
        assert response is not None
        length = len(await response.body())
        await page.wait_for_selector("#live.on")
        first.append((await page.evaluate(PAINT)) / 1000)
    return first, complete, length


async def main(count: int) -> None:
    program = shutil.which("chromium")
    if program is None:
        print("not measured: there is no Chromium: install it (Debian: chromium)")
        return
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        await one_steady_cluster(home)
        with fleet(home, count), served(home) as (pid, address, start):
            client = Client(HttpTransport(Kubeconfig.load([home / "fleet.kubeconfig"]).context()))
            async with async_playwright() as playwright:
                browser = await playwright.chromium.launch(executable_path=program, args=list(FLAGS), env=SHORT)
                page = await browser.new_page(viewport={"width": 1280, "height": 900})
                session = await page.context.new_cdp_session(page)
                await session.send("Performance.enable")
                first, complete, length = await paints(page, address, count)
                sort, filtered = await page.evaluate(SORT), await page.evaluate(FILTER)
                await page.fill("#filter", "")
                before, page_before = cpu_seconds(pid), await metrics(session)
                await asyncio.sleep(IDLE)
                idle, page_idle = cpu_seconds(pid) - before, await metrics(session)
                latencies = []
                for number in range(UPDATES):
                    name, workers = f"garden-{number % count:05}", 10 + number
                    waiting = asyncio.create_task(page.evaluate(CHANGED, [f"c/default/{name}", f"1 + {workers}"]))
                    await asyncio.sleep(0.05)
                    began = time.time()
                    await change(client, name, workers)
                    latencies.append(max(0.0, await waiting / 1000 - began))
                names = [f"garden-{number % count:05}" for number in range(STORM)]
                before, page_before_storm = cpu_seconds(pid), await metrics(session)
                began = time.monotonic()
                for batch in range(0, STORM, 50):
                    await asyncio.gather(
                        *(change(client, name, 100 + batch // 50) for name in names[batch : batch + 50])
                    )
                await change(client, names[-1], 99)
                written = time.monotonic() - began
                await page.evaluate(CHANGED, [f"c/default/{names[-1]}", "1 + 99"])
                shown = time.monotonic() - began
                storm, page_storm = cpu_seconds(pid) - before, await metrics(session)
                memory = peak_memory(pid)
                await browser.close()
            await client.close()

    def spent(later: dict[str, float], earlier: dict[str, float]) -> float:
        return later["TaskDuration"] - earlier["TaskDuration"]

    report(
        f"the dashboard with {count} clusters",
        f"start until its address is printed: {start:.1f} s",
        f"first paint: {spread(first)}   (aim: <= 1 s)",
        f"loaded with all rows: {spread(complete)}; {length / 1024:.0f} KiB",
        f"a change of one cluster is on the page after {spread(latencies)}   (aim: <= 1 s)",
        f"sorted in {sort:.0f} ms, filtered in {filtered:.0f} ms with 80 ms of patience   (aim: <= 200 ms)",
        f"idle: server {100 * idle / IDLE:.1f} %, page {100 * spent(page_idle, page_before) / IDLE:.1f} % of a core",
        f"{STORM} changes, written in {written:.1f} s, all shown {max(0.0, shown - written):.1f} s later: "
        f"{storm:.1f} CPU seconds of the server, {spent(page_storm, page_before_storm):.1f} of the page",
        f"peak memory of the server: {memory} MiB   (aim: <= 200 MiB); "
        f"JavaScript's heap: {page_storm['JSHeapUsedSize'] / 1024**2:.0f} MiB, {page_storm['Nodes']:.0f} nodes",
    )


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--clusters", type=int, default=size(1000, 3))
    asyncio.run(main(parser.parse_args().clusters))
