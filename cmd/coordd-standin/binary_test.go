package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Auth_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Auth"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/testserver"
)

// inPlaceOfLocalYDB is a stand-in with the variables of the local-ydb image.
type inPlaceOfLocalYDB struct {
	*testserver.Process
	plain, tls, monitoring string // addresses
	authority              []byte
}

func startInPlaceOfLocalYDB(t *testing.T, certificates string) *inPlaceOfLocalYDB {
	t.Helper()
	addresses := testserver.Addresses(t, 3)
	var ports []string
	for _, address := range addresses {
		_, port, _ := strings.Cut(address, ":")
		ports = append(ports, port)
	}
	p := spawn(t, []string{"COORDD_LOCAL_YDB=true", "GRPC_PORT=" + ports[0],
		"GRPC_TLS_PORT=" + ports[1], "MON_PORT=" + ports[2], "YDB_GRPC_TLS_DATA_PATH=" + certificates,
		"YDB_USE_IN_MEMORY_PDISKS=1", "YDB_DEFAULT_LOG_LEVEL=NOTICE"})
	if line, want := p.FirstLine(), "grpc://localhost:"+ports[0]+"/local"; line != want {
		t.Fatalf("ready line %q, want %q; stderr:\n%s", line, want, p.Logged())
	}
	authority, err := os.ReadFile(filepath.Join(certificates, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	return &inPlaceOfLocalYDB{p, addresses[0], "localhost:" + ports[1], addresses[2], authority}
}

func (s *inPlaceOfLocalYDB) stop(t *testing.T) {
	t.Helper()
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	if lines := s.Lines(); len(lines) > 1 {
		t.Errorf("further lines on stdout: %q", lines[1:])
	}
	log := s.Logged()
	for _, want := range []string{"everybody knows the user root with the password 1234", "msg=serving",
		"msg=stopped"} {
		_, rest, found := strings.Cut(log, want)
		if !found {
			t.Fatalf("no %q behind the rest in\n%s", want, s.Logged())
		}
		log = rest
	}
}

// logsIn returns the status of a login.
func logsIn(t *testing.T, address string, how credentials.TransportCredentials,
	password string) Ydb.StatusIds_StatusCode {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(how))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answer, err := Ydb_Auth_V1.NewAuthServiceClient(conn).Login(t.Context(),
		&Ydb_Auth.LoginRequest{User: "root", Password: password})
	if err != nil {
		t.Fatal(err)
	}
	return answer.GetOperation().GetStatus()
}

// TestStandInInPlaceOfLocalYDB is a real process with the variables of the local-ydb image: it is where those
// say, with the files of its certificate volume, for the user root with and without a login, and it takes
// orders where that one shows its monitoring pages.
func TestStandInInPlaceOfLocalYDB(t *testing.T) {
	certificates := filepath.Join(t.TempDir(), "ydb_certs")
	if err := os.Mkdir(certificates, 0o700); err != nil {
		t.Fatal(err)
	}
	s := startInPlaceOfLocalYDB(t, certificates)
	for _, name := range []string{"cert.pem", "key.pem"} {
		if _, err := os.Stat(filepath.Join(certificates, name)); err != nil {
			t.Error(err)
		}
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(s.authority)
	encrypted := credentials.NewTLS(&tls.Config{RootCAs: pool})
	if got := logsIn(t, s.plain, insecure.NewCredentials(), "1234"); got != Ydb.StatusIds_SUCCESS {
		t.Errorf("root, in plain text: %s", got)
	}
	if got := logsIn(t, s.tls, encrypted, "1234"); got != Ydb.StatusIds_SUCCESS {
		t.Errorf("root, by TLS: %s", got)
	}
	if got := logsIn(t, s.tls, encrypted, "4321"); got == Ydb.StatusIds_SUCCESS {
		t.Error("a wrong password will do")
	}
	conn, err := grpc.NewClient(s.tls, grpc.WithTransportCredentials(encrypted))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	made, err := Ydb_Coordination_V1.NewCoordinationServiceClient(conn).CreateNode(t.Context(),
		&Ydb_Coordination.CreateNodeRequest{Path: "/local/node"})
	if err != nil || made.GetOperation().GetStatus() != Ydb.StatusIds_SUCCESS {
		t.Errorf("without a login: %v, %v", made, err)
	}
	order := begin([]string{"COORDD_STANDIN=" + s.monitoring}, "ctl", "dump")
	if code := order.wait(t); code != exit.OK || order.out.String() != "/local/node\n" {
		t.Errorf("exit code %d: %s%s", code, order.out.String(), order.log.String())
	}
	s.stop(t)

	again := startInPlaceOfLocalYDB(t, certificates) // as a container that is started anew on the volume
	if !bytes.Equal(s.authority, again.authority) {
		t.Error("clients have to trust another authority")
	}
	if got := logsIn(t, again.tls, encrypted, "1234"); got != Ydb.StatusIds_SUCCESS {
		t.Errorf("root, again: %s", got)
	}
	again.stop(t)
}

// TestStandInDefaultsOfLocalYDB are the ports and paths that people publish and mount without any variables.
func TestStandInDefaultsOfLocalYDB(t *testing.T) {
	for _, how := range []struct{ args, variables []string }{{args: []string{"--local-ydb"}},
		{variables: []string{"COORDD_LOCAL_YDB=1"}}} {
		flags := new(program).command().Flags()
		if err := flags.Parse(how.args); err != nil {
			t.Fatal(err)
		}
		s, _, err := resolve(flags, cmdline.Environment(how.variables))
		if err != nil {
			t.Fatal(err)
		}
		if s.Listen != ":2136" || s.TLS.Listen != ":2135" || s.HTTP.Listen != ":8765" ||
			s.TLS.Certificate != "/ydb_certs/cert.pem" ||
			s.TLS.Key != "/ydb_certs/key.pem" || s.Database != "/local" || !s.InMemory || s.DataDir != "" {
			t.Errorf("%v: %+v", how, s)
		}
	}
}
