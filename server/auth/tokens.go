package auth

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/server/filestamp"
)

// maxTokenFileBytes bounds the token file.
const maxTokenFileBytes = 16 << 20

// tokenFile is the access tokens of a file. It keeps only their digests: a look-up by digest takes no time
// that depends on how much of a guessed token is right, and memory holds no token.
type tokenFile struct {
	path    string
	content atomic.Pointer[map[[sha256.Size]byte]*Identity]
	seen    filestamp.Stamp // owned by whoever reloads, like the next
	told    string          // the last error that was logged
}

// openTokenFile reads the file. An empty path gives nil, which knows no token.
func openTokenFile(path string) (*tokenFile, error) {
	if path == "" {
		return nil, nil
	}
	f := &tokenFile{path: path}
	if _, err := f.reload(); err != nil {
		return nil, err
	}
	if f.seen == (filestamp.Stamp{}) {
		return nil, fmt.Errorf("token file: %w", &fs.PathError{Op: "open", Path: path, Err: syscall.ENOENT})
	}
	return f, nil
}

// reload reads the file again if it has changed, and reports whether it had. A file that is gone holds no
// tokens. After an error, which says which line is wrong and nothing of its content, the tokens from before
// go on.
func (f *tokenFile) reload() (changed bool, err error) {
	stamp, err := filestamp.Of(f.path)
	if err != nil {
		return false, fmt.Errorf("token file: %w", err)
	}
	if f.content.Load() != nil && stamp == f.seen {
		return false, nil
	}
	f.seen = stamp
	content := make(map[[sha256.Size]byte]*Identity)
	if stamp != (filestamp.Stamp{}) {
		if content, err = readTokens(f.path); err != nil {
			return false, fmt.Errorf("token file %s: %w", f.path, err)
		}
	}
	f.content.Store(&content)
	return true, nil
}

// text is how many tokens there are, and two bytes of a sum of them and their users.
func (f *tokenFile) text() string {
	content := *f.content.Load()
	var sum [sha256.Size]byte
	for token, id := range content { // in any order
		one := sha256.Sum256(append(token[:], id.Name...))
		for i := range sum {
			sum[i] ^= one[i]
		}
	}
	return fmt.Sprintf("%d tokens (%x)", len(content), sum[:2])
}

func readTokens(path string) (map[[sha256.Size]byte]*Identity, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxTokenFileBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxTokenFileBytes {
		return nil, fmt.Errorf("larger than %d bytes", maxTokenFileBytes)
	}
	content := make(map[[sha256.Size]byte]*Identity)
	scanner := bufio.NewScanner(bytes.NewReader(data))
	scanner.Buffer(nil, maxTokenFileBytes)
	for number := 1; scanner.Scan(); number++ {
		fields := strings.Fields(scanner.Text())
		switch {
		case len(fields) == 0 || strings.HasPrefix(fields[0], "#"):
			continue
		case len(fields) != 2 || len(fields[0]) > maxTicketBytes:
			return nil, fmt.Errorf("line %d: want a token, a space and the user's name", number)
		case !scheme.IsSubject(fields[1]):
			return nil, fmt.Errorf("line %d: the user's name is not UTF-8, or has more than %d bytes", number,
				scheme.SubjectBytesMax)
		}
		digest := sha256.Sum256([]byte(fields[0]))
		if content[digest] != nil {
			return nil, fmt.Errorf("line %d: the token has been given before", number)
		}
		content[digest] = &Identity{Name: fields[1], source: fromTokenFile, token: digest}
	}
	return content, scanner.Err()
}

func (f *tokenFile) resolve(token string) *Identity {
	if f == nil {
		return nil
	}
	return (*f.content.Load())[sha256.Sum256([]byte(token))]
}

// has reports whether the token of an identity is still in the file, for the same user.
func (f *tokenFile) has(id *Identity) bool {
	now := (*f.content.Load())[id.token]
	return now != nil && now.Name == id.Name
}

// maxTicketBytes bounds a token. This server has given out none that is longer.
const maxTicketBytes = 16 << 10
