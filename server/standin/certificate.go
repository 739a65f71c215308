package standin

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/coordd/coordd/server/listen"
)

// CertificateAuthority is the file with the certificate that clients have to trust, empty without TLS.
func (s *Server) CertificateAuthority() string { return s.files.Certificate }

// makeCertificate puts a self-signed certificate into a directory; a client needs to trust nothing else.
func makeCertificate(dir string) (listen.TLSFiles, error) {
	files := listen.TLSFiles{Certificate: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return files, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "coordd standin"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(30 * 24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true, IsCA: true,
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return files, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return files, err
	}
	return files, errors.Join(writePEM(files.Certificate, "CERTIFICATE", certificate),
		writePEM(files.Key, "PRIVATE KEY", secret))
}

func writePEM(name, kind string, content []byte) error {
	return os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600)
}
