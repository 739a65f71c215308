package serve

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/coordd/coordd/server/filestamp"
)

// EachCertificate calls do for each file of certificates that the settings name, with the name of the setting.
func EachCertificate(s Settings, do func(name, path string)) {
	Each(s, func(name string, path File) {
		if strings.HasSuffix(name, "-cert") || strings.HasSuffix(name, "-ca") {
			do(name, string(path))
		}
	})
}

// CertificateEnd returns when the first of the certificates in a file expires.
func CertificateEnd(path string) (first time.Time, err error) {
	rest, err := os.ReadFile(path)
	if err != nil {
		return first, err
	}
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return first, fmt.Errorf("%s: %w", path, err)
		}
		if first.IsZero() || certificate.NotAfter.Before(first) {
			first = certificate.NotAfter
		}
	}
	if first.IsZero() {
		return first, fmt.Errorf("%s has no certificate in it", path)
	}
	return first, nil
}

// certificateFiles remembers when certificates expire until their files change.
type certificateFiles struct {
	mutex sync.Mutex
	known map[string]*certificateFile // by the setting
}

type certificateFile struct {
	path  string
	stamp filestamp.Stamp
	end   time.Time // zero: it cannot be read
}

func certificatesOf(s Settings) *certificateFiles {
	c := &certificateFiles{known: make(map[string]*certificateFile)}
	EachCertificate(s, func(name, path string) { c.known[name] = &certificateFile{path: path} })
	return c
}

// ends returns when the first certificate of each file expires.
func (c *certificateFiles) ends() map[string]time.Time {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	ends := make(map[string]time.Time)
	for name, file := range c.known {
		if stamp, err := filestamp.Of(file.path); err != nil || stamp != file.stamp {
			file.stamp = stamp
			file.end, _ = CertificateEnd(file.path)
		}
		ends[name] = file.end
	}
	return ends
}
