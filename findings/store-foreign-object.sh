#!/usr/bin/env bash
# Library:       obstore 0.12.1 (object stores in Python, on Rust's object_store), with S3Store.
# Guess:         an object of somebody else is listed, or at least the others are.
# What happens:  one key with an empty segment (a//2) or a segment of dots ends the listing with InvalidPathError; S3
#                allows both. Of a page that has one, no object is returned. Output seen:
#                  a/1 a/3       ['a/1', 'a/3']
#                  a/1 a//2 a/3  InvalidPathError: Encountered object with invalid path: Path "a//2" contained empty
#                                path segment
#                  a/1 a/./2     InvalidPathError
#                  delete a//2   TypeError: Expected string path or sequence of string paths.
# For users:     a script that joins a prefix that ends with a slash and a name (aws s3 cp x s3://bucket/a//2) makes all
#                objects below the prefix unreadable to a listing, backups included; and obstore can't delete that object
#                itself, because it refuses the key. Delete it with another client.
# Espalier:      refuses the store, names the key and says that the object must be removed: `_store_error` in
#                src/espalier/etcdbackup/stores/remote.py. A backup needs a prefix of its own.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check obstore==0.12.1
NO_PROXY=127.0.0.1 no_proxy=127.0.0.1 "$work/venv/bin/python" - <<'E'
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import obstore
from obstore.store import S3Store

keys = []
OBJECT = "<Contents><Key>{}</Key><LastModified>2026-01-02T03:04:05.000Z</LastModified><Size>1</Size></Contents>"


class Bucket(BaseHTTPRequestHandler):
    def do_GET(self):
        objects = "".join(map(OBJECT.format, keys))
        head = f"<Name>bucket</Name><KeyCount>{len(keys)}</KeyCount><IsTruncated>false</IsTruncated>"
        answer = f"<ListBucketResult>{head}{objects}</ListBucketResult>".encode()
        self.send_response(200)
        self.send_header("content-type", "application/xml")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Bucket)
threading.Thread(target=server.serve_forever, daemon=True).start()
store = S3Store(
    "bucket",
    endpoint=f"http://127.0.0.1:{server.server_port}",
    access_key_id="key",
    secret_access_key="secret",
    region="region",
    client_options={"allow_http": True},
)


def listed():
    try:
        return str([meta["path"] for page in obstore.list(store, "a") for meta in page])
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"


INVALID = "InvalidPathError: Encountered object with invalid path: "
for keys, expected in (
    (["a/1", "a/3"], "['a/1', 'a/3']"),
    (["a/1", "a//2", "a/3"], f'{INVALID}Path "a//2" contained empty path segment'),
    (["a/1", "a/./2"], INVALID),
):
    result = listed()
    print(f"{' '.join(keys):13} {result}")
    if not result.startswith(expected):
        sys.exit("a listing with such a key has another outcome now")
try:
    obstore.delete(store, "a//2")
except (TypeError, ValueError) as error:
    print(f"delete a//2   {type(error).__name__}: {str(error).splitlines()[0]}")
else:
    sys.exit("obstore deletes such a key now")
E
