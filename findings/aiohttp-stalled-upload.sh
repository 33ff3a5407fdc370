#!/usr/bin/env bash
# Library:       aiohttp 3.14.5.
# Guess:         ClientTimeout(sock_read=SECONDS) ends a request to a server that has gone silent.
# What happens:  only from the moment when the whole body is written. A server that stops reading in the middle of an
#                upload stops it for ever: nothing limits the silence of a writer.
#                Output seen:
#                  a small body:  SocketTimeoutError after 1 s
#                  a large body:  goes on after 5 s
# For users:     an upload to a registry or a bucket hangs until somebody ends it. `total` would end slow uploads as
#                well; a limit that each written piece puts off (asyncio.timeout and `reschedule`) ends stalled ones only.
# Espalier:      src/espalier/cli/local/images/push/registry.py (`_pieces`).
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check aiohttp==3.14.5
env -u HTTP_PROXY -u http_proxy "$work/venv/bin/python" - <<'E'
import asyncio
import sys
import time

import aiohttp

PATIENCE = 5


async def large():
    for _ in range(64):
        yield bytes(2**20)


async def outcome(session, url, body):
    """How a request ends whose server reads nothing, or that it has not ended."""
    started = time.monotonic()
    try:
        async with asyncio.timeout(PATIENCE), session.put(url, data=body):
            return "an answer", 0
    except aiohttp.SocketTimeoutError as error:
        return type(error).__name__, round(time.monotonic() - started)
    except TimeoutError:
        return "goes on", PATIENCE


async def main():
    ended = asyncio.Event()

    async def read_nothing(reader, writer):
        await ended.wait()
        writer.close()

    server = await asyncio.start_server(read_nothing, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=1, sock_read=1)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        outcomes = {name: await outcome(session, url, body) for name, body in (("small", b"body"), ("large", large()))}
    ended.set()
    for name, (what, seconds) in outcomes.items():
        print(f"a {name} body:  {what} after {seconds} s")
    if [what for what, _ in outcomes.values()] != ["SocketTimeoutError", "goes on"]:
        sys.exit("the limits of uploads have changed")


asyncio.run(main())
E
