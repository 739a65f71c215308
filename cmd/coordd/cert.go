package main

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
	"strings"
	"time"

	"github.com/spf13/cobra"
)

const (
	authorityLifetime   = 10 * 365 * 24 * time.Hour
	certificateLifetime = 365 * 24 * time.Hour
)

const certText = `Make what TLS needs for development: an authority (ca.pem, ca-key.pem) and a server
certificate of it (cert.pem, key.pem), in a directory that is made if it does not
exist. An authority that is there already is used again, so that clients need not
trust a new one; the server certificate is made anew each time, and a running server
takes it up. With --client a certificate for a client is made instead, in NAME.pem
and NAME-key.pem, by which it is known as NAME@cert. With --peer a certificate is made
with which a server of a cluster shows itself to the others, in NAME.pem and
NAME-key.pem; --host has to name the host of its peer address, or it is for servers
on one machine.`

func (p *program) certCommand() *cobra.Command {
	var directory, hosts, client, peer string
	command := &cobra.Command{
		Use:   "cert",
		Short: "Make certificates for development",
		Long:  certText,
		Example: `  coordd cert --dir certs --host db.example.com
  coordd cert --dir certs --client reporter
  coordd cert --dir certs --peer a --host a.example.com`,
		Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			if directory == "" {
				return usageError("flag --dir: no value given; want the path of a directory")
			}
			for flag, name := range map[string]string{"client": client, "peer": peer} {
				if strings.ContainsAny(name, "/\\") || strings.HasPrefix(name, ".") {
					return usageError("flag --%s: value %q is not allowed: want a name that can be that of a file",
						flag, name)
				}
			}
			if client != "" && peer != "" {
				return usageError("flag --peer: one certificate at a time, so not together with --client")
			}
			made := wanted{hosts: splitHosts(hosts), client: client, peer: peer}
			if err := makeCertificates(directory, made); err != nil {
				return err
			}
			p.printCertificate(directory, made)
			return nil
		},
	}
	command.Flags().StringVar(&directory, "dir", "", "directory to put the files into")
	command.Flags().StringVar(&hosts, "host", "",
		"names and addresses, by commas, that clients connect to besides localhost and this machine's name")
	command.Flags().StringVar(&client, "client", "", "make a client's certificate with this name")
	command.Flags().StringVar(&peer, "peer", "",
		"make the certificate of a server of this name for its peers")
	return command
}

// splitHosts takes a list apart.
func splitHosts(list string) []string {
	var hosts []string
	for _, host := range strings.Split(list, ",") {
		if host = strings.TrimSpace(host); host != "" {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// loopback is the names of this machine for itself.
var loopback = []string{"localhost", "127.0.0.1", "::1"}

// developmentHosts are the names that development needs besides those asked for.
func developmentHosts() []string {
	if name, err := os.Hostname(); err == nil && name != "" {
		return append([]string{name}, loopback...)
	}
	return loopback
}

// wanted is what a certificate is for: a server by default, or a client, or a server among its peers.
type wanted struct {
	hosts        []string
	client, peer string // names, empty: not that
}

// authority is a certificate that signs others.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func makeCertificates(directory string, w wanted) error {
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return err
	}
	ca, err := openAuthority(directory)
	if err != nil {
		return err
	}
	now := time.Now()
	template := &x509.Certificate{
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certificateLifetime),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		Subject:     pkix.Name{CommonName: "coordd"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	switch {
	case w.client != "":
		template.Subject.CommonName, template.ExtKeyUsage = w.client,
			[]x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	case w.peer != "": // among its peers a server is both; a name too many would let it speak for others
		template.Subject.CommonName = w.peer
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
		if len(w.hosts) == 0 {
			w.hosts = loopback
		}
		addHosts(template, w.hosts)
	default:
		addHosts(template, append(w.hosts, developmentHosts()...))
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	certificateFile, keyFile := w.files(directory)
	return ca.issue(template, key, certificateFile, keyFile)
}

// files is where a certificate and its key are written.
func (w wanted) files(directory string) (certificate, key string) {
	base, keyName := "cert", "key"
	if name := cmp.Or(w.client, w.peer); name != "" {
		base, keyName = name, name+"-key"
	}
	return filepath.Join(directory, base+".pem"), filepath.Join(directory, keyName+".pem")
}

// printCertificate says which files there are now, and who is to have them.
func (p *program) printCertificate(directory string, w wanted) {
	certificate, key := w.files(directory)
	authority, authorityKey := filepath.Join(directory, "ca.pem"), filepath.Join(directory, "ca-key.pem")
	fmt.Fprintf(p.stdout, "%s and its key %s, good until %s\n", certificate, key,
		time.Now().Add(certificateLifetime).Format(time.DateOnly))
	fmt.Fprintf(p.stdout, "%s is for all who are to trust it; keep %s away from servers and clients\n",
		authority, authorityKey)
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
