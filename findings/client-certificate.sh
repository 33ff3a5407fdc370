#!/usr/bin/env bash
# Library:       cryptography 50.0.2, `x509.verification`, with a client certificate like that of a kubeconfig.
# Guess:         ClientVerifier accepts the client certificates that a TLS server with the same CA accepts.
# What happens:  it requires a subjectAltName. Certificates of Kubernetes' users have none: the user is the common name,
#                its groups are the organizations. Output seen:
#                  TLS server of Python's ssl: CN=kubernetes-admin,O=system:masters accepted
#                  ClientVerifier: validation failed: invalid extension: 2.5.29.17: Certificate is missing required
#                  extension
# For users:     a program that checks a kubeconfig's certificate in this way before it uses it refuses each kubeconfig
#                of kubeadm; the message doesn't say that the profile of the web's PKI is what asks for the extension.
# Espalier:      leaves client certificates to TLS; it has no guard because it needs none.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check cryptography==50.0.2
cd "$work"
venv/bin/python - <<'E'
import ssl
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

NOW = datetime.now(UTC)
CA_KEY = ec.generate_private_key(ec.SECP256R1())
CA_NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")])


def usages(*, signs_certificates):
    names = ("content_commitment", "data_encipherment", "key_agreement", "crl_sign", "encipher_only", "decipher_only")
    return x509.KeyUsage(
        digital_signature=True,
        key_encipherment=True,
        key_cert_sign=signs_certificates,
        **dict.fromkeys(names, False),
    )


def signed(subject, key, *extensions):
    builder = x509.CertificateBuilder(CA_NAME, subject, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(NOW - timedelta(hours=1)).not_valid_after(NOW + timedelta(days=365))
    for extension, is_critical in extensions:
        builder = builder.add_extension(extension, is_critical)
    return builder.sign(CA_KEY, hashes.SHA256())


def certificate(name, usage, *extensions):
    """A certificate with the extensions that kubeadm gives it, also in a file with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    result = signed(
        x509.Name([x509.NameAttribute(oid, value) for oid, value in name]),
        key,
        (usages(signs_certificates=False), True),
        (x509.ExtendedKeyUsage([usage]), False),
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(CA_KEY.public_key()), False),
        *extensions,
    )
    pem, pkcs8, plain = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    file = Path(f"{usage.dotted_string}.pem")
    file.write_bytes(key.private_bytes(pem, pkcs8, plain) + result.public_bytes(pem))
    return result, file


def shake_hands(server_file, client_file):
    """The subject of the client's certificate, after a handshake in which the server requires it."""
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile="ca.pem")
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_cert_chain(server_file)
    client = ssl.create_default_context(cafile="ca.pem")
    client.load_cert_chain(client_file)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname="kubernetes"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    while ends:
        for end in tuple(ends):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            ends.remove(end)
            last = end
    return last.getpeercert()["subject"]


ca = signed(
    CA_NAME,
    CA_KEY,
    (usages(signs_certificates=True), True),
    (x509.BasicConstraints(ca=True, path_length=None), True),
    (x509.SubjectKeyIdentifier.from_public_key(CA_KEY.public_key()), False),
)
Path("ca.pem").write_bytes(ca.public_bytes(serialization.Encoding.PEM))
alternatives = x509.SubjectAlternativeName([x509.DNSName("kubernetes")])
_, server_file = certificate(
    [(NameOID.COMMON_NAME, "kube-apiserver")], ExtendedKeyUsageOID.SERVER_AUTH, (alternatives, False)
)
user = [(NameOID.ORGANIZATION_NAME, "system:masters"), (NameOID.COMMON_NAME, "kubernetes-admin")]
named, _ = certificate(user, ExtendedKeyUsageOID.CLIENT_AUTH, (alternatives, False))
client, client_file = certificate(user, ExtendedKeyUsageOID.CLIENT_AUTH)  # replaces the file

verifier = PolicyBuilder().store(Store([ca])).build_client_verifier()
verifier.verify(named, [])  # so nothing but the extension is missing in the other one
shake_hands(server_file, client_file)
print(f"TLS server of Python's ssl: {client.subject.rfc4514_string()} accepted")
try:
    verifier.verify(client, [])
except VerificationError as error:
    message = str(error)
    print(f"ClientVerifier: {message.partition(' (encountered')[0]}")
    if "2.5.29.17: Certificate is missing required extension" not in message:
        sys.exit("ClientVerifier refuses the certificate for another reason now")
else:
    sys.exit("ClientVerifier accepts a client certificate without subjectAltName now")
E
