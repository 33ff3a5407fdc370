#!/usr/bin/env bash
# Library:       pip 26.3.
# Guess:         `pip download --python-version 3.x` downloads what an installation by Python 3.x would.
# What happens:  the option chooses files and reads Requires-Python; conditions of requirements (`; python_version ...`)
#                are read as the Python that runs pip. So are those of machines and systems with --platform.
#                Output seen (of Python 3.11, asked for 3.12):
#                  idna==3.10; python_version < "3.12"            downloaded
#                  certifi==2025.1.31; python_version >= "3.12"   left out
# For users:     an image for another Python, or another architecture, lacks libraries or has some too many; nothing
#                says so until one is imported. Run pip by the Python that the files are for.
# Espalier:      src/espalier/cli/local/images/wheels.py (`download`) runs pip by the image's own Python.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
python="$work/venv/bin/python"
"$python" -m pip install --quiet --disable-pip-version-check pip==26.3
other=$("$python" -c 'import sys; print(f"3.{sys.version_info[1] + 1}")')
older="idna==3.10; python_version < \"$other\""
newer="certifi==2025.1.31; python_version >= \"$other\""
"$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
  --python-version "$other" --dest "$work/files" "$older" "$newer"
found() { if compgen -G "$work/files/$1-*" >/dev/null; then echo downloaded; else echo "left out"; fi; }
printf '%-46s %s\n' "$older" "$(found idna)" "$newer" "$(found certifi)"
if [ "$(found idna) $(found certifi)" != "downloaded left out" ]; then
  echo "conditions are read as the Python that was asked for" >&2
  exit 1
fi
