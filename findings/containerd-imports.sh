#!/usr/bin/env bash
# Library:       containerd 2.4.2, the reader of its configuration, with a file in conf.d that config.toml imports.
# Guess:         a setting in conf.d takes the place of config.toml's, as in all programs that have such a folder.
# What happens:  settings of plugins do. Of containerd's own, false, 0 and "" change nothing, and lists are joined. So
#                what config.toml switches on, or disables, conf.d can't take back. Output seen:
#                  setting                           config.toml                  conf.d  in effect
#                  disabled_plugins                  [io.containerd.grpc.v1.cri]  []      [io.containerd.grpc.v1.cri]
#                  oom_score                         -999                         0       -999
#                  metrics.grpc_histogram            true                         false   true
#                  images: discard_unpacked_layers   true                         false   false
#                  images: max_concurrent_downloads  3                            0       0
# For users:     a node whose package's config.toml disables the CRI plugin has no runtime for kubelet, whatever conf.d
#                says, and nothing is logged about a file that has no effect. Write config.toml itself where a setting
#                of containerd has to be switched off or a list shortened.
# Espalier:      config.toml of its real nodes disables nothing, and their conf.d has settings of plugins alone:
#                src/espalier/assets/node/etc/containerd/config.toml. A mirror is added to config.toml itself:
#                src/espalier/clusters/design/render/nodes/node_setup.py.
#
# Needs Go; the first build takes about half a minute.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/conf.d"
cd "$work"
cat > config.toml <<'E'
version = 3
imports = ["conf.d/*.toml"]
disabled_plugins = ["io.containerd.grpc.v1.cri"]
oom_score = -999

[metrics]
  grpc_histogram = true

[plugins.'io.containerd.cri.v1.images']
  discard_unpacked_layers = true
  max_concurrent_downloads = 3
E
cat > conf.d/site.toml <<'E'
version = 3
disabled_plugins = []
oom_score = 0

[metrics]
  grpc_histogram = false

[plugins.'io.containerd.cri.v1.images']
  discard_unpacked_layers = false
  max_concurrent_downloads = 0
E
cat > main.go <<'E'
package main

import (
	"context"
	"fmt"

	"github.com/containerd/containerd/v2/cmd/containerd/server/config"
)

func main() {
	before, site, effective := load("before.toml"), load("conf.d/site.toml"), load("config.toml")
	show("setting", "config.toml", "conf.d", "in effect")
	for _, setting := range []struct {
		name  string
		value func(*config.Config) any
	}{
		{"disabled_plugins", func(c *config.Config) any { return c.DisabledPlugins }},
		{"oom_score", func(c *config.Config) any { return c.OOMScore }},
		{"metrics.grpc_histogram", func(c *config.Config) any { return c.Metrics.GRPCHistogram }},
		{"images: discard_unpacked_layers", ofImages("discard_unpacked_layers")},
		{"images: max_concurrent_downloads", ofImages("max_concurrent_downloads")},
	} {
		show(setting.name, setting.value(before), setting.value(site), setting.value(effective))
	}
}

func show(name string, before, site, effective any) {
	fmt.Printf("%-33s %-28s %-7s %s\n", name, fmt.Sprint(before), fmt.Sprint(site), fmt.Sprint(effective))
}

func ofImages(name string) func(*config.Config) any {
	return func(c *config.Config) any { return c.Plugins["io.containerd.cri.v1.images"].(map[string]any)[name] }
}

func load(file string) *config.Config {
	out := &config.Config{Version: 3}
	if err := config.LoadConfig(context.Background(), file, out); err != nil {
		panic(err)
	}
	return out
}
E
grep -v '^imports' config.toml > before.toml
go mod init finding 2>/dev/null
go get github.com/containerd/containerd/v2/cmd/containerd/server/config@v2.4.2 2>/dev/null
output=$(go run .)
echo "$output"
expected="setting                           config.toml                  conf.d  in effect
disabled_plugins                  [io.containerd.grpc.v1.cri]  []      [io.containerd.grpc.v1.cri]
oom_score                         -999                         0       -999
metrics.grpc_histogram            true                         false   true
images: discard_unpacked_layers   true                         false   false
images: max_concurrent_downloads  3                            0       0"
if [ "$output" != "$expected" ]; then
    echo "containerd merges imported files otherwise now"
    exit 1
fi
