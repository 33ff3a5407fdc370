#!/usr/bin/env bash
# Library:       obstore 0.12.1 (object stores in Python, on Rust's object_store), with S3Store.
# Guess:         HTTP_PROXY doesn't concern an endpoint at 127.0.0.1, as it doesn't in programs written in Go, such as
#                etcd-backup-restore and everything else of Kubernetes.
# What happens:  the proxy is asked for loopback addresses, too, unless NO_PROXY names them. Output seen, ports replaced:
#                  net/http: proxy of 127.0.0.1:9000: <nil>
#                  obstore:  the proxy got GET http://127.0.0.1:PORT/bucket/key HTTP/1.1
#                  obstore:  the store got GET /bucket/key HTTP/1.1 (with NO_PROXY=127.0.0.1)
# For users:     a backup to a store, emulator or tunnel in the same pod works until a cluster's proxy settings are put
#                into the environment; then a proxy elsewhere is asked for its own port. Put 127.0.0.1 into NO_PROXY.
# Espalier:      the etcd agent takes proxies from its environment as obstore does; it has no guard.
#
# Needs Go (its standard library only).
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check obstore==0.12.1
cd "$work"
unset HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy
cat > main.go <<'E'
package main

import (
	"fmt"
	"net/http"
)

func main() {
	for _, host := range []string{"127.0.0.1:9000", "store.example.com:9000"} {
		request, err := http.NewRequest("GET", "http://"+host+"/bucket/key", nil)
		if err != nil {
			panic(err)
		}
		proxy, err := http.ProxyFromEnvironment(request)
		if err != nil {
			panic(err)
		}
		fmt.Printf("net/http: proxy of %s: %v\n", host, proxy)
	}
}
E
cat > get.py <<'E'
import os
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import obstore
from obstore.store import S3Store


class Handler(BaseHTTPRequestHandler):
    """Prints what arrives, and answers as a store."""

    def do_GET(self):
        line = self.requestline.replace(f":{store.server_port}", ":PORT")
        print(f"obstore:  {'the store' if self.server is store else 'the proxy'} got {line}")
        self.send_response(200)
        self.send_header("Content-Length", "1")
        self.send_header("Last-Modified", "Sun, 29 Nov 2026 12:00:00 GMT")
        self.send_header("ETag", '"1"')
        self.end_headers()
        self.wfile.write(b"1")

    def log_message(self, *_):
        pass


store, proxy = (HTTPServer(("127.0.0.1", 0), Handler) for _ in range(2))
for server in (store, proxy):
    Thread(target=server.serve_forever, daemon=True).start()
os.environ["HTTP_PROXY"] = f"http://127.0.0.1:{proxy.server_port}"
for exception in ("", "127.0.0.1"):
    os.environ["NO_PROXY"] = exception
    bucket = S3Store(
        "bucket",
        endpoint=f"http://127.0.0.1:{store.server_port}",
        access_key_id="example",
        secret_access_key="example",
        region="us-east-1",
        client_options={"allow_http": True},
    )
    obstore.get(bucket, "key").bytes()
E
go mod init finding 2>/dev/null
result=$(
    HTTP_PROXY=http://proxy.example.com:3128 go run .
    venv/bin/python get.py
)
echo "$result"
expected="net/http: proxy of 127.0.0.1:9000: <nil>
net/http: proxy of store.example.com:9000: http://proxy.example.com:3128
obstore:  the proxy got GET http://127.0.0.1:PORT/bucket/key HTTP/1.1
obstore:  the store got GET /bucket/key HTTP/1.1"
if [ "$result" != "$expected" ]; then
    echo "obstore or net/http takes proxies from the environment otherwise now"
    exit 1
fi
