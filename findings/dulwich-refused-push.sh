#!/usr/bin/env bash
# Library:       dulwich 1.2.21 (Git in Python), its `porcelain.push`, against Git's own `git receive-pack`.
# Guess:         a push that the server refuses raises, as `git push` exits with 1; the remote-tracking branch stays.
# What happens:  nothing is raised, the output says "successful", and refs/remotes/origin/main moves to the commit that
#                the server does not have. Output seen, the address replaced:
#                  Push to ssh://HOST/remote.git successful.
#                  Push of ref refs/heads/main failed: pre-receive hook declined
#                  ref_status: {b'refs/heads/main': 'pre-receive hook declined'}
#                  server has the commit: False, refs/remotes/origin/main has it: True
# For users:     a controller that commits to a GitOps repository takes a protected branch for a delivered change, and a
#                later comparison with origin/main finds nothing left to push. Only `ref_status` of the result tells:
#                each of its values must be None.
# Espalier:      does not push to Git; it has no guard because it needs none.
#
# Needs git. The transport is a program that runs the server's command here instead of over ssh.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check dulwich==1.2.21
cd "$work"
export HOME=$work GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_SSH_COMMAND=$work/transport
cat > transport <<'E'
#!/bin/sh
for command; do :; done
exec sh -c "$command"
E
git init --quiet --bare --initial-branch=main remote.git
cat > remote.git/hooks/pre-receive <<'E'
#!/bin/sh
echo "main is protected" >&2
exit 1
E
chmod +x transport remote.git/hooks/pre-receive
git init --quiet --initial-branch=main clone
git -C clone -c user.name=A -c user.email=a@example.com commit --quiet --allow-empty --message=first
git -C clone remote add origin "ssh://host$work/remote.git"
if git -C clone push --quiet origin main 2>/dev/null; then
    echo "git push was expected to fail: the setup is wrong"
    exit 1
fi
venv/bin/python - <<'E'
import io
import sys

from dulwich import porcelain
from dulwich.repo import Repo

clone, remote, output = Repo("clone"), Repo("remote.git"), io.BytesIO()
commit = clone.head()
try:
    result = porcelain.push(clone, "origin", "refs/heads/main:refs/heads/main", outstream=output, errstream=output)
except Exception as error:
    sys.exit(f"a refused push raises now: {type(error).__name__}: {error}")
print(output.getvalue().decode())
delivered, tracked = commit in remote.object_store, clone.refs[b"refs/remotes/origin/main"] == commit
print(f"ref_status: {result.ref_status}")
print(f"server has the commit: {delivered}, refs/remotes/origin/main has it: {tracked}")
if b"successful" not in output.getvalue() or b"refs/heads/main" in remote.refs or not tracked:
    sys.exit("a refused push is no longer reported and tracked as a successful one")
if result.ref_status != {b"refs/heads/main": "pre-receive hook declined"}:
    sys.exit("ref_status no longer names the refusal")
E
