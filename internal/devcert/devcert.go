// Package devcert makes authorities and certificates for development.
package devcert

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const (
	authorityLifetime = 10 * 365 * 24 * time.Hour
	// Lifetime limits how long a certificate is good.
	Lifetime = 365 * 24 * time.Hour
)

// loopback is the names of this machine for itself.
var loopback = []string{"localhost", "127.0.0.1", "::1"}

// developmentHosts are the names that development needs besides those asked for.
func developmentHosts() []string {
	if name, err := os.Hostname(); err == nil && name != "" {
		return append([]string{name}, loopback...)
	}
	return loopback
}

// Wanted describes the certificate to make: for a server by default, or for a client, or for a server among its peers.
type Wanted struct {
	Hosts        []string
	Client, Peer string // names, empty: not that
}

// authority is a certificate that signs others.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// Make writes a certificate, its key and its authority to a directory, which is made if it does not exist. An authority
// that is there is used again.
func Make(directory string, w Wanted) error {
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return err
	}
	ca, err := openAuthority(directory)
	if err != nil {
		return err
	}
	now := time.Now()
	template := &x509.Certificate{
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(Lifetime),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		Subject:     pkix.Name{CommonName: "coordd"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	switch {
	case w.Client != "":
		template.Subject.CommonName, template.ExtKeyUsage = w.Client,
			[]x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	case w.Peer != "": // among its peers a server is both; a name too many would let it speak for others
		template.Subject.CommonName = w.Peer
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
		if len(w.Hosts) == 0 {
			w.Hosts = loopback
		}
		addHosts(template, w.Hosts)
	default:
		addHosts(template, append(w.Hosts, developmentHosts()...))
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	certificateFile, keyFile := w.Files(directory)
	return ca.issue(template, key, certificateFile, keyFile)
}

// Files names the files of a certificate and its key.
func (w Wanted) Files(directory string) (certificate, key string) {
	base, keyName := "cert", "key"
	if name := cmp.Or(w.Client, w.Peer); name != "" {
		base, keyName = name, name+"-key"
	}
	return filepath.Join(directory, base+".pem"), filepath.Join(directory, keyName+".pem")
}

func addHosts(template *x509.Certificate, hosts []string) {
	for _, host := range hosts {
		if address := net.ParseIP(host); address != nil {
			template.IPAddresses = append(template.IPAddresses, address)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
}

// openAuthority reads the authority of a directory, or makes it.
func openAuthority(directory string) (*authority, error) {
	certificateFile, keyFile := filepath.Join(directory, "ca.pem"), filepath.Join(directory, "ca-key.pem")
	pair, err := tls.LoadX509KeyPair(certificateFile, keyFile)
	if err == nil {
		key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
		if !ok {
			return nil, fmt.Errorf("%s: want a key of the kind that this command makes", keyFile)
		}
		return &authority{pair.Leaf, key}, nil
	}
	if _, statErr := os.Stat(certificateFile); !errors.Is(statErr, fs.ErrNotExist) {
		return nil, fmt.Errorf("the authority in %s cannot be used: %w", directory, err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(authorityLifetime), IsCA: true,
		BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		Subject:  pkix.Name{CommonName: "coordd development authority"},
	}
	self := &authority{template, key}
	if err := self.issue(template, key, certificateFile, keyFile); err != nil {
		return nil, err
	}
	pair, err = tls.LoadX509KeyPair(certificateFile, keyFile)
	return &authority{pair.Leaf, key}, err
}

// issue signs a certificate and writes it and its key. The key is for its owner only.
func (a *authority) issue(template *x509.Certificate, key *ecdsa.PrivateKey, certificateFile,
	keyFile string) error {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return err
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := replaceFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
		0o600); err != nil {
		return err
	}
	return replaceFile(certificateFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		0o644)
}

// replaceFile writes a file in one step, so that a running server never reads half of it.
func replaceFile(path string, content []byte, mode fs.FileMode) error {
	next := path + ".new"
	if err := os.WriteFile(next, content, mode); err != nil {
		return err
	}
	return os.Rename(next, path)
}
