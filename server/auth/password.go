package auth

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/argon2"

	"github.com/coordd/coordd/server/share"
)

// The cost of one password hash: about 20 ms and 19 MiB. The parameters are stored with each hash, so that
// they can be raised later.
const (
	argonMemoryKiB = 19 << 10
	argonPasses    = 2
	argonLanes     = 1
	argonSaltBytes = 16
	argonHashBytes = 32
)

// maxPasswordBytes bounds a password.
const maxPasswordBytes = 1024

const (
	// maxHashesAtOnce bounds how many passwords are hashed at a time, so that logins cannot eat the machine:
	// one user, and strangers together, have one of them at most.
	maxHashesAtOnce = 2
	// maxHashesWaiting bounds how many of each, known callers and strangers, wait for a turn.
	maxHashesWaiting = 128
)

// What becomes of a password that is not hashed.
var (
	// ErrOverloaded says that too many wait already.
	ErrOverloaded = errors.New("too many logins at once")
	// ErrPasswordLength says that a password is empty or too long.
	ErrPasswordLength = fmt.Errorf("a password must have 1 to %d bytes", maxPasswordBytes)
)

// Hasher hashes passwords with argon2id, a few at a time.
type Hasher struct {
	line      *share.Line
	memoryKiB uint32 // of one hash
	decoy     string // verified where there is no user, so that the answer takes as long
}

// NewHasher is a hasher with nothing under way.
func NewHasher() *Hasher { return NewCheapHasher(argonMemoryKiB) }

// NewCheapHasher is one whose hashes take so much memory, and in proportion so much time: for tests of what
// is done with passwords, not of what it costs to guess them.
func NewCheapHasher(memoryKiB uint32) *Hasher {
	return &Hasher{line: share.NewLine(maxHashesAtOnce, maxHashesWaiting), memoryKiB: memoryKiB,
		decoy: encodeHash(memoryKiB, make([]byte, argonSaltBytes),
			make([]byte, argonHashBytes))}
}

// Hash returns what is stored for a password: algorithm, parameters, salt and hash in the usual form. It is
// for callers who are known.
func (h *Hasher) Hash(ctx context.Context, password string) (string, error) {
	if password == "" || len(password) > maxPasswordBytes {
		return "", ErrPasswordLength
	}
	subject := share.Subject{Class: share.Known, Name: cmp.Or(Of(ctx).Name, SourceOf(ctx))}
	done, err := h.line.Acquire(ctx, subject)
	if err != nil {
		return "", overloaded(err)
	}
	defer done()
	salt := make([]byte, argonSaltBytes)
	if _, err := rand.Read(salt); err != nil {
		return "", err
	}
	return encodeHash(h.memoryKiB, salt, argon2.IDKey([]byte(password), salt, argonPasses, h.memoryKiB,
		argonLanes, argonHashBytes)), nil
}

// verify reports whether the password is the one that stored was made of. An empty stored value is a user who
// is not there: the answer is no, and takes as long. may is asked when there is a slot; its error ends the
// matter. note is told what came of it before the slot goes to the next.
func (h *Hasher) verify(ctx context.Context, subject share.Subject, password, stored string,
	may func() error,
	note func(right bool)) (bool, error) {
	if len(password) > maxPasswordBytes {
		return false, nil // no guess: nobody has it
	}
	done, err := h.line.Acquire(ctx, subject)
	if err != nil {
		return false, overloaded(err)
	}
	defer done()
	if err := may(); err != nil {
		return false, err
	}
	exists := stored != ""
	if !exists {
		stored = h.decoy
	}
	p, err := parseHash(stored)
	if err != nil {
		return false, err
	}
	got := argon2.IDKey([]byte(password), p.salt, p.passes, p.memory, p.lanes, uint32(len(p.hash)))
	right := subtle.ConstantTimeCompare(got, p.hash) == 1 && exists
	note(right)
	return right, nil
}

// overloaded is an error of the line as this package's callers know it.
func overloaded(err error) error {
	if errors.Is(err, share.ErrFull) {
		return ErrOverloaded
	}
	return err
}

func encodeHash(memoryKiB uint32, salt, hash []byte) string {
	encode := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, memoryKiB, argonPasses,
		argonLanes, encode(salt), encode(hash))
}

// storedHash is a stored value taken apart.
type storedHash struct {
	memory, passes uint32
	lanes          uint8
	salt, hash     []byte
}

// ErrStoredHash says that what is stored for a user is no hash.
var ErrStoredHash = errors.New("a stored password hash is not one that this program knows")

func parseHash(stored string) (storedHash, error) {
	var p storedHash
	parts := strings.Split(stored, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" ||
		parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return p, ErrStoredHash
	}
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &p.memory, &p.passes, &p.lanes); err != nil ||
		p.passes == 0 || p.lanes == 0 {
		return p, ErrStoredHash
	}
	var err error
	if p.salt, err = base64.RawStdEncoding.DecodeString(parts[4]); err != nil {
		return p, ErrStoredHash
	}
	if p.hash, err = base64.RawStdEncoding.DecodeString(parts[5]); err != nil || len(p.hash) == 0 {
		return p, ErrStoredHash
	}
	return p, nil
}
