"""The variables with credentials that users of each provider set, as for the command of EKS Anywhere."""

from __future__ import annotations

import base64
from pathlib import Path

from tests.support.providers import snow

CREDENTIALS = {
    "EKSA_VSPHERE_USERNAME": "maker",
    "EKSA_VSPHERE_PASSWORD": "a-canary",
    "EKSA_VSPHERE_CP_USERNAME": "reader",
    "EKSA_VSPHERE_CP_PASSWORD": "another-canary",
    "EKSA_NUTANIX_USERNAME": "maker",
    "EKSA_NUTANIX_PASSWORD": "a-canary",
    "EKSA_NUTANIX_CP_USERNAME": "reader",
    "EKSA_NUTANIX_CP_PASSWORD": "another-canary",
    "EKSA_CLOUDSTACK_B64ENCODED_SECRET": base64.b64encode(
        b"[global]\napi-url = https://cloudstack.example.com:8443/client/api\n"
        b"api-key = a-canary\nsecret-key = another-canary\nverify-ssl = true\n"
    ).decode(),
}


def in_files(folder: Path) -> dict[str, str]:
    """Variables that name files with credentials, which are written into a folder."""
    variables = {}
    files = {"EKSA_AWS_CREDENTIALS_FILE": snow.PROFILES, "EKSA_AWS_CA_BUNDLES_FILE": snow.AUTHORITY}
    for name, content in files.items():
        file = folder / name
        file.write_text(content)
        variables[name] = str(file)
    return variables
