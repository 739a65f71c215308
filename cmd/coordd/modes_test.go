package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coordd/coordd/internal/exit"
)

// TestModesOfWhatIsWritten wants everything closed to others than its owner, whatever the umask says;
// certificates without their keys are for everybody.
func TestModesOfWhatIsWritten(t *testing.T) {
	s := &secured{t: t, directory: t.TempDir()}
	password := s.file("password", adminPassword+"\n")
	script := `umask 0; cd "$1" || exit 1
"$2" cert --dir certs && "$2" cert --dir certs --client ops && "$2" cert --dir certs --peer a && mkfifo ready || exit 1
"$2" serve --listen=127.0.0.1:0 --auth=required --data-dir deep/data >ready & server=$!
read -r line <ready
"$2" user add root --data-dir deep/data --new-password-file "$3" &&
	"$2" cluster snapshot --data-dir deep/data --to backup || exit 1
find deep/data -name admin.sock -exec ls -ld {} +
kill $server; wait $server
"$2" cluster restore --from backup --data-dir restored`
	command := exec.Command("sh", "-c", script, "sh", s.directory, binary, password)
	command.Env = []string{"HOME=" + s.directory, "PATH=" + os.Getenv("PATH")}
	output, err := command.CombinedOutput()
	if err != nil || !strings.Contains(string(output), "srw-------") {
		t.Fatalf("%v\n%s", err, output)
	}
	written := 0
	err = filepath.WalkDir(s.directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == s.directory || entry.Name() == "ready" {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		switch {
		case entry.IsDir():
			want = 0o700
		case strings.HasSuffix(path, ".pem") && !strings.HasSuffix(path, "key.pem"):
			want = 0o666 // as the umask says
		}
		if got := info.Mode().Perm(); got&^want != 0 {
			t.Errorf("mode of %s is %o, want %o", path, got, want)
		}
		written++
		return nil
	})
	if err != nil || written < 20 {
		t.Errorf("%d files and folders, %v", written, err)
	}
}

// TestOpenModes wants a warning, and no more, for each file with secrets that others can read.
func TestOpenModes(t *testing.T) {
	s := &secured{t: t, directory: t.TempDir()}
	tokens, password, key, peerKey := s.file("tokens", ""), s.file("password", "x\n"), s.file("key", ""),
		s.file("peer-key", "")
	data := s.path("data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	inside := filepath.Join(data, "identity.json")
	if err := os.WriteFile(inside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	log := func() string {
		t.Helper()
		r := newRun(newFakeServer())
		r.in <- syscall.SIGTERM
		r.begin("serve", "--token-file", tokens, "--initial-admin=root", "--initial-admin-password-file",
			password, "--tls-key", key, "--peer-key", peerKey, "--data-dir", data)
		if code := r.wait(t); code != exit.OK {
			t.Fatalf("exit code %d, %s", code, r.log.String())
		}
		return r.log.String()
	}
	if text := log(); strings.Contains(text, "open to others") {
		t.Errorf("everything is closed:\n%s", text)
	}
	for path, mode := range map[string]fs.FileMode{tokens: 0o644, password: 0o666, key: 0o640, peerKey: 0o604,
		data: 0o777, inside: 0o644} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	text := log()
	for _, want := range []string{"the token file is open", "mode=0644 want=0600", "the password file of",
		"mode=0666", "the key of --tls-cert", "mode=0640",
		"the key of --peer-cert", "mode=0604", "the data directory is open", "mode=0777 want=0700",
		"files=1 first=" + inside} {
		if strings.Count(text, want) != 1 {
			t.Errorf("want once %q in\n%s", want, text)
		}
	}
	if strings.Count(text, "level=WARN") < 6 {
		t.Errorf("these are no warnings:\n%s", text)
	}
}
