"""Set up all tests."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager
from pathlib import PurePosixPath
from typing import Any

import pytest
import pytest_asyncio
import structlog
from hypothesis import settings

from tests.support import left_files
from tests.support.environments.control_plane import ControlPlane, find_assets, real_control_plane, why_no_assets

DEBUG_LOGS = "ESPALIER_DEBUG_LOGS"
"""Set, tests log every reconcile and step of every controller: for a test that failed. It is a tenth of their time."""
EXPLORE = "ESPALIER_EXPLORE"
"""Set, properties are tried with examples that nobody has seen before, and faults strike at every place that there is.

Else examples are the same ones each time, and of places that are much alike some are taken."""
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
"""Unset: tests connect to this machine alone, and clients of object stores would ask the proxy for it."""
SOAK = "ESPALIER_SOAK_SECONDS"
"""Set by `make soak`: properties are tried with thousands of examples, new ones each time."""


def _close_with_connections(loop: Any, close: Callable[[Any], None] = asyncio.SelectorEventLoop.close) -> None:
    """Close an event loop, after the connections that are left in it.

    A TLS connection that is closed waits for the other side's close_notify, 30 s if need be. One that waits when its
    loop ends is left to the garbage collector, whose warning would fail whichever test runs by then.
    """
    if not loop.is_closed():
        # asyncio tells of them nowhere else; it drops the loop of those it is done with, which can't be aborted
        left = [transport for transport in loop._transports.values() if transport._loop is not None]
        for transport in left:
            transport.abort()
        if left:
            loop.run_until_complete(asyncio.sleep(0))  # connections are lost in the next turn
    close(loop)


def _attach(server: Any, attach: Callable[[Any], None] = asyncio.Server._attach) -> None:  # type: ignore[attr-defined]
    """Count a connection of a server, also of one that has been closed since it accepted it.

    Python 3.11 fails an assertion there, and forgets the connection half made: the garbage collector finds it.
    """
    if server._sockets is None:
        server._active_count += 1
    else:
        attach(server)


def pytest_configure() -> None:
    """Leave the debug logs out, unless they are asked for; and no property is late: machines are busy at times.

    Programs that tests start keep their bytecode: without, each compiles all it imports, a second of CPU.
    """
    for name in ("PYTHONDONTWRITEBYTECODE", *PROXIES, *map(str.lower, PROXIES)):
        os.environ.pop(name, None)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it, with all it starts
    asyncio.SelectorEventLoop.close = _close_with_connections  # type: ignore[method-assign, assignment]
    if sys.version_info < (3, 12):
        asyncio.Server._attach = _attach  # type: ignore[attr-defined]
    settings.register_profile("test", deadline=None, derandomize=EXPLORE not in os.environ, max_examples=30)
    settings.register_profile("soak", deadline=None, derandomize=False, max_examples=2000)
    settings.load_profile("soak" if SOAK in os.environ else "test")
    level = logging.DEBUG if os.environ.get(DEBUG_LOGS) else logging.INFO
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(level))
    _LOGGING.update(structlog.get_config())
    configure = structlog.configure

    def uncached(**settings: Any) -> None:
        configure(**{**settings, "cache_logger_on_first_use": False})

    structlog.configure = uncached  # type: ignore[assignment]


_LOGGING: dict[str, Any] = {}
"""How tests log. A program that ran in this process may have set another way, and loggers keep what they cached."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`@pytest.mark.often("envtest")`: of a test's variants, those with these words in their names are in every run.

    Of a module it is about all its tests that have variants.
    """
    for item in items:
        callspec = getattr(item, "callspec", None)
        for mark in item.iter_markers("often"):
            if callspec is not None and not any(word in callspec.id for word in mark.args):
                item.add_marker(pytest.mark.soak)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Log as before; and a failed test leaves its files only if they are few."""
    folder = (getattr(item, "funcargs", None) or {}).get("tmp_path")
    try:
        return (yield)
    finally:
        structlog.configure(**_LOGGING)
        if folder is not None and folder.exists() and (removed := _LEFT_FILES.after(folder)):
            item.add_report_section("teardown", "files", removed)


_LEFT_FILES = left_files.of_this_process()


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, object, object]:
    """Leave less than a bound, with the folders of fixtures that many tests share."""
    result = yield
    factory = getattr(session.config, "_tmp_path_factory", None)
    folder = factory and factory._basetemp
    if folder is not None:
        for removed in _LEFT_FILES.at_the_end(folder, left_files.share()):
            print(removed, file=sys.stderr)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collected tests and imported modules stay: no garbage collection looks at them, now or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say why tests were skipped, each reason once, and how long those of each directory took."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in skipped)
    if reasons:
        terminalreporter.section("skipped")
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count:5}  {reason}")
    _say_seconds(terminalreporter)


def _say_seconds(terminalreporter: pytest.TerminalReporter) -> None:
    """The sum over all workers, with their fixtures."""
    seconds: defaultdict[str, float] = defaultdict(float)
    tests: defaultdict[str, set[str]] = defaultdict(set)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                directory = str(PurePosixPath(report.nodeid.partition("::")[0]).parent)
                seconds[directory] += report.duration
                tests[directory].add(report.nodeid)
    if len(seconds) < 2:
        return
    terminalreporter.section("seconds by directory")
    for directory in sorted(seconds, key=lambda second: -seconds[second]):
        terminalreporter.write_line(f"{seconds[directory]:8.1f}  {len(tests[directory]):5}  {directory}")


@asynccontextmanager
async def _started(factory: pytest.TempPathFactory) -> AsyncIterator[ControlPlane]:
    assets = find_assets()
    if assets is None:
        pytest.skip(why_no_assets())
    with left_files.folder_of_a_fixture(factory, "control-plane") as folder:
        async with real_control_plane(folder, assets) as running:
            yield running


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def control_plane(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ControlPlane]:
    """A real control plane for the tests of a module; without the programs, they are skipped.

    It goes with the module: a dozen that idle to the end of the run would take half a core.
    """
    async with _started(tmp_path_factory) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def other_control_plane(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ControlPlane]:
    """A second one, for what goes on between two."""
    async with _started(tmp_path_factory) as running:
        yield running


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared_control_plane(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ControlPlane]:
    """One for tests of many modules that leave nothing behind which another one would notice."""
    async with _started(tmp_path_factory) as running:
        yield running
