package conformance

import (
	"fmt"
	"slices"
	"strings"
)

// fields reads the words and the key=value pairs of a request line, and notes what it cannot read. What
// nobody has asked for is an error, so that a misspelled key does not pass for an absent one.
type fields struct {
	request request
	run     *Replay
	words   []string // not read yet
	unread  map[string]string
	err     error
}

func (r *Replay) fieldsOf(q request) *fields {
	f := &fields{request: q, run: r, words: slices.Clone(q.words), unread: make(map[string]string)}
	for key, value := range q.fields {
		f.unread[key] = value
	}
	return f
}

func (f *fields) fail(err error) {
	if f.err == nil && err != nil {
		f.err = err
	}
}

// word takes the next word.
func (f *fields) word() string {
	if len(f.words) == 0 {
		f.fail(fmt.Errorf("a word is missing"))
		return ""
	}
	w := f.words[0]
	f.words = f.words[1:]
	return w
}

// name takes the next word as the name of a semaphore.
func (f *fields) name() string {
	name, err := parseText(f.word())
	f.fail(err)
	return name
}

// flag takes a word if it is there.
func (f *fields) flag(word string) bool {
	at := slices.Index(f.words, word)
	if at < 0 {
		return false
	}
	f.words = slices.Delete(f.words, at, at+1)
	return true
}

func (f *fields) take(key string) (string, bool) {
	value, found := f.unread[key]
	delete(f.unread, key)
	return value, found
}

func (f *fields) text(key string) string {
	value, found := f.take(key)
	if !found {
		return ""
	}
	text, err := parseText(value)
	f.fail(err)
	return text
}

// path is a text in which {dir} and the like are filled in.
func (f *fields) path(value string) string {
	text, err := parseText(f.run.expand(value))
	f.fail(err)
	return text
}

func (f *fields) number(key string, absent uint64) uint64 {
	value, found := f.take(key)
	if !found {
		return absent
	}
	n, err := parseNumber(value)
	f.fail(err)
	return n
}

func (f *fields) millis(key string, absent uint64) uint64 {
	value, found := f.take(key)
	if !found {
		return absent
	}
	n, err := parseMillis(value)
	f.fail(err)
	return n
}

// timeout is a time that the server is to count, at the pace of the run.
func (f *fields) timeout(absent uint64) uint64 {
	return f.run.pace.stretch(f.millis("timeout", absent))
}

// done reports the first thing that could not be read.
func (f *fields) done() error {
	switch {
	case f.err != nil:
		return f.err
	case len(f.words) > 0:
		return fmt.Errorf("unexpected %q", strings.Join(f.words, " "))
	}
	for key := range f.unread {
		return fmt.Errorf("unexpected %s=", key)
	}
	return nil
}
