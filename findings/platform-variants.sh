#!/usr/bin/env bash
# Libraries:     oras.land/oras-go 2.7.0 (what oras and Helm copy and pull images and charts with), and
#                github.com/containerd/platforms 0.2.1 (what containerd, and so kubelet, choose an image by).
# Guess:         a platform that one of them finds in an index is found by the other: linux/arm64 is linux/arm64/v8.
# What happens:  containerd adds the default variant on both sides, and takes an older variant for a newer one. oras
#                compares texts, and takes any where none is asked for. Output seen:
#                  image in the index  asked for       oras-go    containerd
#                  linux/arm64         linux/arm64     found      found
#                  linux/arm64         linux/arm64/v8  not found  found
#                  linux/arm64/v8      linux/arm64     found      found
#                  linux/amd64         linux/amd64/v2  not found  found
#                  linux/amd64/v2      linux/amd64     found      not found
#                  linux/arm           linux/arm/v7    not found  found
# For users:     a mirror that is filled for linux/arm64/v8, the full name of such a machine, lacks each image whose
#                index says linux/arm64. One that is filled for linux/amd64 has what containerd doesn't take on such a
#                machine. Ask oras for a platform as the index has it, or copy whole indexes.
# Espalier:      copies whole indexes: src/espalier/cli/clusters/airgap/copying.py.
#
# Needs Go.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat > main.go <<'E'
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/memory"
	"oras.land/oras-go/v2/errdef"
)

var ctx = context.Background()

func main() {
	fmt.Printf("%-18s  %-14s  %-9s  %s\n", "image in the index", "asked for", "oras-go", "containerd")
	for _, pair := range [][2]string{
		{"linux/arm64", "linux/arm64"}, {"linux/arm64", "linux/arm64/v8"}, {"linux/arm64/v8", "linux/arm64"},
		{"linux/amd64", "linux/amd64/v2"}, {"linux/amd64/v2", "linux/amd64"}, {"linux/arm", "linux/arm/v7"},
	} {
		image, asked := platform(pair[0]), platform(pair[1])
		byContainerd := platforms.Only(asked).Match(image)
		fmt.Printf("%-18s  %-14s  %-9s  %s\n", pair[0], pair[1], found(byOras(image, asked)), found(byContainerd))
	}
}

// As it is written: platforms.Parse would add variants.
func platform(text string) ocispec.Platform {
	parts := append(strings.Split(text, "/"), "")
	return ocispec.Platform{OS: parts[0], Architecture: parts[1], Variant: parts[2]}
}

func byOras(image, asked ocispec.Platform) bool {
	store := memory.New()
	versioned := specs.Versioned{SchemaVersion: 2}
	manifest := push(store, ocispec.MediaTypeImageManifest, ocispec.Manifest{
		Versioned: versioned, MediaType: ocispec.MediaTypeImageManifest,
		Config: push(store, ocispec.MediaTypeImageConfig, ocispec.Image{Platform: image}), Layers: []ocispec.Descriptor{},
	})
	manifest.Platform = &image
	index := push(store, ocispec.MediaTypeImageIndex, ocispec.Index{
		Versioned: versioned, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{manifest},
	})
	if err := store.Tag(ctx, index, "v1"); err != nil {
		panic(err)
	}
	_, err := oras.Resolve(ctx, store, "v1", oras.ResolveOptions{TargetPlatform: &asked})
	if err != nil && !errors.Is(err, errdef.ErrNotFound) {
		panic(err)
	}
	return err == nil
}

func push(store *memory.Store, mediaType string, value any) ocispec.Descriptor {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	descriptor := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(text), Size: int64(len(text))}
	if err := store.Push(ctx, descriptor, bytes.NewReader(text)); err != nil {
		panic(err)
	}
	return descriptor
}

func found(is bool) string {
	if is {
		return "found"
	}
	return "not found"
}
E
go mod init finding 2>/dev/null
go get oras.land/oras-go/v2@v2.7.0 github.com/containerd/platforms@v0.2.1 \
    github.com/opencontainers/image-spec@v1.1.1 2>/dev/null
go mod tidy 2>/dev/null
output=$(go run .)
echo "$output"
expected="image in the index  asked for       oras-go    containerd
linux/arm64         linux/arm64     found      found
linux/arm64         linux/arm64/v8  not found  found
linux/arm64/v8      linux/arm64     found      found
linux/amd64         linux/amd64/v2  not found  found
linux/amd64/v2      linux/amd64     found      not found
linux/arm           linux/arm/v7    not found  found"
if [ "$output" != "$expected" ]; then
    echo "platforms of an index are matched otherwise now"
    exit 1
fi
