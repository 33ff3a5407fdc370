#!/usr/bin/env bash
# Libraries:     cryptography 50.0.2, and crypto/x509 of Go 1.25 and newer, with which kubeadm, Cluster API and
#                cert-manager make authorities.
# Guess:         AuthorityKeyIdentifier.from_issuer_public_key gives what the authority has as its own identifier, as it
#                does with authorities of OpenSSL, cryptography and older Go. Who accepts the chain accepts it anywhere.
# What happens:  it is the SHA-1 of the key, and Go's is of SHA-256. Go accepts the chain, OpenSSL finds no issuer.
#                Output seen:
#                  identifier by            equals the authority's  Go        OpenSSL
#                  from_issuer_public_key   False                   accepted  unable to get local issuer certificate
#                  the authority's own      True                    accepted  accepted
# For users:     a server certificate that a program in Python issues with a cluster's authority works with kubectl and
#                each controller, and with no client in Python, no curl. Take the identifier from the authority's
#                certificate: from_issuer_subject_key_identifier.
# Espalier:      does so: `Authority` in src/espalier/kube/connection/pki.py, tests/unit/kube/test_pki.py.
#
# Needs Go 1.25 or newer (its standard library only).
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check cryptography==50.0.2
cd "$work"
cat > main.go <<'E'
// make: writes an authority. verify FILE: verifies a server's certificate with it.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"time"
)

func main() {
	if os.Args[1] == "make" {
		makeAuthority()
		return
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(read("ca.crt"))
	block, _ := pem.Decode(read(os.Args[2]))
	server := must(x509.ParseCertificate(block.Bytes))
	if _, err := server.Verify(x509.VerifyOptions{Roots: pool, DNSName: "node.test"}); err != nil {
		fmt.Println(err)
	} else {
		fmt.Println("accepted")
	}
}

func makeAuthority() {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubernetes"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	write("ca.crt", "CERTIFICATE", must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)))
	write("ca.key", "PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(key)))
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func read(name string) []byte { return must(os.ReadFile(name)) }

func write(name, kind string, der []byte) {
	if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		panic(err)
	}
}
E
cat > issue.py <<'E'
import ssl
import subprocess
from contextlib import suppress

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509 import AuthorityKeyIdentifier, SubjectKeyIdentifier

authority = x509.load_pem_x509_certificate(open("ca.crt", "rb").read())
own = authority.extensions.get_extension_for_class(SubjectKeyIdentifier).value


def issue(file, identifier):
    key = ec.generate_private_key(ec.SECP256R1())
    builder = x509.CertificateBuilder().subject_name(x509.Name([])).issuer_name(authority.subject)
    builder = builder.public_key(key.public_key()).serial_number(2)
    builder = builder.not_valid_before(authority.not_valid_before_utc).not_valid_after(authority.not_valid_after_utc)
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("node.test")]), critical=True)
    builder = builder.add_extension(identifier, critical=False)
    certificate = builder.sign(load_pem_private_key(open("ca.key", "rb").read(), None), hashes.SHA256())
    with open(file, "wb") as pair:
        pair.write(certificate.public_bytes(Encoding.PEM))
        pair.write(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def by_openssl(file):
    """The verdict of OpenSSL, which is in Python's ssl."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    server = context.wrap_bio(to_server, to_client, server_side=True)
    trusting = ssl.create_default_context(cafile="ca.crt")
    client = trusting.wrap_bio(to_client, to_server, server_hostname="node.test")
    try:
        for end in (client, server, client):
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
    except ssl.SSLCertVerificationError as error:
        return error.verify_message
    return "accepted"


print(f"{'identifier by':24} equals the authority's  {'Go':9} OpenSSL")
for file, name, identifier in (
    ("key.pem", "from_issuer_public_key", AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())),
    ("own.pem", "the authority's own", AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)),
):
    issue(file, identifier)
    by_go = subprocess.run(["./go-x509", "verify", file], capture_output=True, text=True, check=True).stdout.strip()
    print(f"{name:24} {identifier.key_identifier == own.digest!s:23} {by_go:9} {by_openssl(file)}")
E
go mod init finding 2>/dev/null
go mod edit -go=1.25.0
go build -o go-x509 .
./go-x509 make
output=$(venv/bin/python issue.py)
echo "$output"
expected="identifier by            equals the authority's  Go        OpenSSL
from_issuer_public_key   False                   accepted  unable to get local issuer certificate
the authority's own      True                    accepted  accepted"
if [ "$output" != "$expected" ]; then
    echo "identifiers of authorities are made or compared otherwise now"
    exit 1
fi
