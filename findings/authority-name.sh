#!/usr/bin/env bash
# Libraries:     cryptography 50.0.2, and crypto/x509 of Go 1.26, which verifies certificates in all of Kubernetes.
# Guess:         an authority that is made anew with its old key, and a subject that is equal to the old one, verifies
#                what the old one issued: `x509.Name` says that they are equal.
# What happens:  names are equal if their texts are. Go writes a name as PrintableString and cryptography as UTF8String;
#                Go, and cryptography's own verifier, compare bytes. OpenSSL compares texts. Output seen, of a server
#                certificate that the old authority issued:
#                  subject of the new one       equal  Go                OpenSSL   cryptography
#                  Name of CN=kubernetes        True   unknown authority accepted  VerificationError
#                  the old certificate's own    True   accepted          accepted  accepted
# For users:     an expired authority of a cluster that a program in Python renews passes its check, and openssl verify;
#                then kubelet, kubectl and kube-apiserver refuse each other. Copy the subject from the old certificate.
# Espalier:      writes the authority's own subject as issuer: `Authority` in src/espalier/kube/connection/pki.py. It
#                makes a new authority with a new key.
#
# Needs Go (its standard library only).
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check cryptography==50.0.2
cd "$work"
cat > main.go <<'E'
// make: writes an authority, and a server's certificate that it issued. verify FILE: verifies that with another one.
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
	"strings"
	"time"
)

func main() {
	if os.Args[1] == "make" {
		issue()
		return
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(read(os.Args[2]))
	block, _ := pem.Decode(read("server.pem"))
	server := must(x509.ParseCertificate(block.Bytes))
	if _, err := server.Verify(x509.VerifyOptions{Roots: pool, DNSName: "node.test"}); err != nil {
		fmt.Println(strings.TrimPrefix(err.Error(), "x509: certificate signed by "))
	} else {
		fmt.Println("accepted")
	}
}

func issue() {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubernetes"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der := must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))
	write("ca.crt", "CERTIFICATE", der)
	write("ca.key", "PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(key)))
	authority := must(x509.ParseCertificate(der))
	serverKey := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	server := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "node"}, DNSNames: []string{"node.test"},
		NotBefore: template.NotBefore, NotAfter: template.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der = must(x509.CreateCertificate(rand.Reader, server, authority, serverKey.Public(), key))
	write("server.pem", "CERTIFICATE", der)
	write("server.key", "PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(serverKey)))
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
cat > renew.py <<'E'
import ssl
import subprocess
from contextlib import suppress

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import NameOID
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

old = x509.load_pem_x509_certificate(open("ca.crt", "rb").read())
server_certificate = x509.load_pem_x509_certificate(open("server.pem", "rb").read())


def renew(file, subject):
    key = load_pem_private_key(open("ca.key", "rb").read(), None)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(subject)
    builder = builder.public_key(key.public_key()).serial_number(3)
    builder = builder.not_valid_before(old.not_valid_before_utc).not_valid_after(old.not_valid_after_utc)
    for extension in old.extensions:
        builder = builder.add_extension(extension.value, extension.critical)
    with open(file, "wb") as out:
        out.write(builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))


def by_openssl(file):
    """The verdict of OpenSSL, which is in Python's ssl."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain("server.pem", "server.key")
    server = context.wrap_bio(to_server, to_client, server_side=True)
    client = ssl.create_default_context(cafile=file).wrap_bio(to_client, to_server, server_hostname="node.test")
    try:
        for end in (client, server, client):
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
    except ssl.SSLCertVerificationError as error:
        return error.verify_message
    return "accepted"


def by_cryptography(file):
    authority = x509.load_pem_x509_certificate(open(file, "rb").read())
    verifier = PolicyBuilder().store(Store([authority])).build_server_verifier(x509.DNSName("node.test"))
    try:
        verifier.verify(server_certificate, [])
    except VerificationError as error:
        return type(error).__name__
    return "accepted"


print(f"{'subject of the new one':28} equal  {'Go':17} OpenSSL   cryptography")
for file, name, subject in (
    ("text.crt", "Name of CN=kubernetes", x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")])),
    ("copy.crt", "the old certificate's own", old.subject),
):
    renew(file, subject)
    by_go = subprocess.run(["./go-x509", "verify", file], capture_output=True, text=True, check=True).stdout.strip()
    print(f"{name:28} {subject == old.subject!s:6} {by_go:17} {by_openssl(file):9} {by_cryptography(file)}")
E
go mod init finding 2>/dev/null
go build -o go-x509 .
./go-x509 make
output=$(venv/bin/python renew.py)
echo "$output"
expected="subject of the new one       equal  Go                OpenSSL   cryptography
Name of CN=kubernetes        True   unknown authority accepted  VerificationError
the old certificate's own    True   accepted          accepted  accepted"
if [ "$output" != "$expected" ]; then
    echo "names of authorities are written or compared otherwise now"
    exit 1
fi
