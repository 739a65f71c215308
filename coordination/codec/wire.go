package codec

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// wire is a message on its way. A function that names the message's fields one after another, in ascending
// order, measures it, writes it or reads it, depending on the mode. After the first error reading does
// nothing more.
type wire struct {
	mode   mode
	copies bool   // reading: byte slices are copied instead of shared with the input
	size   int    // measuring: bytes so far
	data   []byte // writing: what has been written; reading: the whole message
	// reading: where in data what follows tag begins; an index, because moving a slice costs a write barrier
	next int
	tag  uint64 // reading: of the field that is next, 0 at the end
	err  error
}

type mode uint8

const (
	measuring mode = iota
	writing
	reading
)

// reader starts to read a message.
func reader(data []byte, copies bool) wire {
	w := wire{mode: reading, data: data, copies: copies}
	w.nextTag()
	return w
}

// fail ends the reading with an error, unless there was one before.
func (w *wire) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
	w.next, w.tag = len(w.data), 0
}

// finish returns what was wrong with the message that has been read.
func (w *wire) finish() error {
	if w.tag != 0 {
		field, wireType := protowire.DecodeTag(w.tag)
		w.fail("field %d of type %d is unknown or not in its place", field, wireType)
	}
	return w.err
}

// nextTag goes on to the next field.
func (w *wire) nextTag() {
	w.tag = 0
	if w.next == len(w.data) {
		return
	}
	if w.tag = w.takeVarint(); w.tag == 0 {
		w.fail("tag 0")
	}
}

// takeVarint reads a number, which must be in its shortest form. It returns 0 on an error.
func (w *wire) takeVarint() uint64 {
	if w.next < len(w.data) && w.data[w.next] < 0x80 { // most numbers, and nearly every tag
		w.next++
		return uint64(w.data[w.next-1])
	}
	v, n := protowire.ConsumeVarint(w.data[w.next:])
	switch {
	case n < 0:
		w.fail("%w", protowire.ParseError(n))
		return 0
	case w.data[w.next+n-1] == 0: // and there is a byte before it
		w.fail("a number is longer than it needs to be")
		return 0
	}
	w.next += n
	return v
}

// takeBytes reads bytes with their length before them. They are shared with the input.
func (w *wire) takeBytes() []byte {
	length := w.takeVarint()
	if left := len(w.data) - w.next; length > uint64(left) {
		w.fail("%d bytes are announced, %d are there", length, left)
		return nil
	}
	end := w.next + int(length)
	taken := w.data[w.next:end:end]
	w.next = end
	return taken
}

// at reports, when reading, whether the given field comes next.
func (w *wire) at(field protowire.Number, wireType protowire.Type) bool {
	return w.tag == protowire.EncodeTag(field, wireType)
}

// number is a field of one of the integer types; a negative one is encoded as protobuf's int32.
func number[T ~uint64 | ~uint32 | ~int32 | ~uint8](w *wire, field protowire.Number, v *T) {
	switch {
	case w.mode == reading:
		if !w.at(field, protowire.VarintType) {
			return
		}
		read := w.takeVarint()
		if *v = T(read); read == 0 || uint64(*v) != read {
			w.fail("field %d is zero or out of range", field)
		}
		w.nextTag()
	case *v == 0:
	case w.mode == measuring:
		w.size += protowire.SizeTag(field) + protowire.SizeVarint(uint64(*v))
	default:
		w.data = protowire.AppendVarint(protowire.AppendTag(w.data, field, protowire.VarintType), uint64(*v))
	}
}

func (w *wire) flag(field protowire.Number, v *bool) {
	var n uint64
	if *v {
		n = 1
	}
	number(w, field, &n)
	if n > 1 {
		w.fail("field %d is neither true nor false", field)
	}
	*v = n == 1
}

// optionalFlag is a field that distinguishes a missing value (nil) from false.
func (w *wire) optionalFlag(field protowire.Number, v **bool) {
	switch {
	case w.mode == reading:
		if !w.at(field, protowire.VarintType) {
			return
		}
		read := w.takeVarint()
		if read > 1 {
			w.fail("field %d is neither true nor false", field)
		}
		set := read == 1
		*v = &set
		w.nextTag()
	case *v == nil:
	case w.mode == measuring:
		w.size += protowire.SizeTag(field) + 1
	default:
		w.data = protowire.AppendTag(w.data, field, protowire.VarintType)
		w.data = protowire.AppendVarint(w.data, protowire.EncodeBool(**v))
	}
}

func (w *wire) text(field protowire.Number, v *string) {
	switch {
	case w.mode == reading:
		if w.at(field, protowire.BytesType) {
			*v = string(w.takeField(field))
		}
	case *v == "":
	case w.mode == measuring:
		w.size += protowire.SizeTag(field) + protowire.SizeBytes(len(*v))
	default:
		w.data = protowire.AppendString(protowire.AppendTag(w.data, field, protowire.BytesType), *v)
	}
}

func (w *wire) bytes(field protowire.Number, v *[]byte) {
	switch {
	case w.mode == reading:
		if !w.at(field, protowire.BytesType) {
			return
		}
		if *v = w.takeField(field); w.copies {
			*v = slices.Clone(*v)
		}
	case len(*v) == 0:
	case w.mode == measuring:
		w.size += protowire.SizeTag(field) + protowire.SizeBytes(len(*v))
	default:
		w.data = protowire.AppendBytes(protowire.AppendTag(w.data, field, protowire.BytesType), *v)
	}
}

// takeField reads the content of a field that is left out if it is empty.
func (w *wire) takeField(field protowire.Number) []byte {
	taken := w.takeBytes()
	if len(taken) == 0 {
		w.fail("field %d is empty", field)
	}
	w.nextTag()
	return taken
}

// texts is a repeated field; its elements may be empty.
func (w *wire) texts(field protowire.Number, v *[]string) {
	switch w.mode {
	case reading:
		for w.at(field, protowire.BytesType) {
			*v = append(*v, string(w.takeBytes()))
			w.nextTag()
		}
	case measuring:
		for _, s := range *v {
			w.size += protowire.SizeTag(field) + protowire.SizeBytes(len(s))
		}
	case writing:
		for _, s := range *v {
			w.data = protowire.AppendString(protowire.AppendTag(w.data, field, protowire.BytesType), s)
		}
	}
}

// messages is a repeated field of messages whose fields the function names.
func messages[T any](w *wire, field protowire.Number, v *[]T, fields func(*wire, *T)) {
	for w.mode == reading && w.at(field, protowire.BytesType) {
		var element T
		inner := reader(w.takeBytes(), w.copies)
		fields(&inner, &element)
		if err := inner.finish(); err != nil {
			w.fail("field %d: %w", field, err)
		}
		*v = append(*v, element)
		w.nextTag()
	}
	if w.mode == reading {
		return
	}
	for i := range *v {
		inner := wire{mode: measuring}
		fields(&inner, &(*v)[i])
		if w.mode == measuring {
			w.size += protowire.SizeTag(field) + protowire.SizeBytes(inner.size)
			continue
		}
		data := protowire.AppendTag(w.data, field, protowire.BytesType)
		data = protowire.AppendVarint(data, uint64(inner.size))
		inner = wire{mode: writing, data: data} // w itself is not passed on, so that it can stay on the stack
		fields(&inner, &(*v)[i])
		w.data = inner.data
	}
}
