package deploy_test

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
	"path/filepath"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
)

// secret is the data of a secret, or of a config map.
type secret map[string][]byte

// authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

var usages = map[string]x509.ExtKeyUsage{"server auth": x509.ExtKeyUsageServerAuth,
	"client auth": x509.ExtKeyUsageClientAuth}

// issue makes the secrets of the certificates as cert-manager does. A second call renews all but the authority.
func (k *kubernetes) issue() {
	for _, wanted := range k.objects.certificates {
		if wanted.Spec.IsCA && k.secrets[wanted.Spec.SecretName] == nil {
			k.sign(wanted, nil)
		}
	}
	for _, wanted := range k.objects.certificates {
		if by := k.objects.issuers[wanted.Spec.IssuerRef.Name].Spec.CA; by != nil {
			k.sign(wanted, k.authorities[by.SecretName])
		}
	}
}

// sign makes the secret of a certificate; without an authority it is one.
func (k *kubernetes) sign(wanted certificate, by *authority) {
	k.serial++
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(k.t, err)
	lifetime, err := time.ParseDuration(wanted.Spec.Duration)
	must(k.t, err)
	made := &x509.Certificate{SerialNumber: big.NewInt(k.serial), DNSNames: wanted.Spec.DNSNames,
		Subject:   pkix.Name{CommonName: wanted.Spec.CommonName},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(lifetime),
		KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true, IsCA: wanted.Spec.IsCA}
	for _, usage := range wanted.Spec.Usages {
		if of, found := usages[usage]; found {
			made.ExtKeyUsage = append(made.ExtKeyUsage, of)
		}
	}
	if by == nil {
		made.KeyUsage |= x509.KeyUsageCertSign
		by = &authority{made, key}
		k.authorities[wanted.Spec.SecretName] = by
	}
	der, err := x509.CreateCertificate(rand.Reader, made, by.certificate, &key.PublicKey, by.key)
	must(k.t, err)
	if by.certificate == made {
		by.certificate, err = x509.ParseCertificate(der)
		must(k.t, err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	must(k.t, err)
	k.secrets[wanted.Spec.SecretName] = secret{
		"tls.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		"tls.key": pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}),
		"ca.crt":  pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: by.certificate.Raw}),
	}
}

// volume writes the files of a volume into a directory, as the kubelet does: in a directory of a new name, to which a
// link is then moved, and for root and the pod's group alone.
func (k *kubernetes) volume(directory string, of core.Volume, group int64) {
	files, mode := map[string][]byte{}, int32(0o644)
	switch {
	case of.ConfigMap != nil:
		for key, text := range k.objects.configs[of.ConfigMap.Name].Data {
			files[key] = []byte(text)
		}
	case of.Projected != nil:
		mode = *of.Projected.DefaultMode
		for _, source := range of.Projected.Sources {
			for _, item := range source.Secret.Items {
				text, found := k.secrets[source.Secret.Name][item.Key]
				if !found {
					k.t.Fatalf("secret %s has no %s", source.Secret.Name, item.Key)
				}
				files[item.Path] = text
			}
		}
	default:
		k.t.Fatalf("volume %s is of no known kind", of.Name)
	}
	k.serial++
	now := fmt.Sprintf("..%d", k.serial)
	for name, text := range files {
		path := filepath.Join(directory, now, name)
		must(k.t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(k.t, os.WriteFile(path, text, os.FileMode(mode)))
		must(k.t, os.Chown(path, 0, int(group)))
		must(k.t, os.Chmod(path, os.FileMode(mode|0o440)))
	}
	must(k.t, os.Symlink(now, filepath.Join(directory, "..new")))
	must(k.t, os.Rename(filepath.Join(directory, "..new"), filepath.Join(directory, "..data")))
	seen, err := os.ReadDir(filepath.Join(directory, now))
	must(k.t, err)
	for _, entry := range seen {
		if err := os.Symlink("..data/"+entry.Name(), filepath.Join(directory, entry.Name())); !os.IsExist(err) {
			must(k.t, err)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func pemOf(certificate []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
}
