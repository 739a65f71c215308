package history

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/group/events"
)

const (
	segmentBytes = 1 << 20
	headerBytes  = 40
	recordBytes  = 8 // length and checksum
	// maxEventBytes bounds the encoding of an event: names of 1 KiB, and texts of administrators.
	maxEventBytes = 64 << 10
)

const magic = "coordd events 1\n"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// classNames begin the names of files.
var classNames = [events.Classes]string{"audit", "abnormal", "ends", "config"}

func segmentName(class events.Class, sequence uint64) string {
	return fmt.Sprintf("%s-%08d", classNames[class], sequence)
}

// parseName is the reverse of segmentName.
func parseName(name string) (class events.Class, sequence uint64, ok bool) {
	prefix, number, _ := strings.Cut(name, "-")
	for class := range events.Classes {
		if classNames[class] == prefix {
			sequence, err := strconv.ParseUint(number, 10, 64)
			return class, sequence, err == nil && segmentName(class, sequence) == name
		}
	}
	return 0, 0, false
}

// appendHeader begins a segment.
func appendHeader(dst []byte, server uint64, class events.Class, sequence uint64) []byte {
	dst = append(dst, magic...)
	dst = binary.LittleEndian.AppendUint64(dst, server)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(class))
	dst = binary.LittleEndian.AppendUint64(dst, sequence)
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[:headerBytes-4], castagnoli))
}

// checksum is that of a record of a segment.
func checksum(sequence uint64, payload []byte) uint32 {
	seed := binary.LittleEndian.AppendUint64(nil, sequence)
	return crc32.Update(crc32.Checksum(seed, castagnoli), castagnoli, payload)
}

// appendRecord appends an event to the content of a segment. An event that is too large is left out.
func appendRecord(dst []byte, sequence uint64, e *adminpb.Event) []byte {
	payload, err := proto.Marshal(e)
	if err != nil || len(payload) > maxEventBytes {
		return dst
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(payload)))
	dst = binary.LittleEndian.AppendUint32(dst, checksum(sequence, payload))
	return append(dst, payload...)
}

// scan calls each with the events of a segment until its end, or the first record that does not check. It returns the
// length of what checks, 0 if the header does not.
func scan(content []byte, class events.Class, sequence uint64, each func(*adminpb.Event)) int {
	if len(content) < headerBytes {
		return 0
	}
	header := content[:headerBytes]
	if string(appendHeader(nil, binary.LittleEndian.Uint64(header[len(magic):]), class, sequence)) != string(header) {
		return 0
	}
	at := headerBytes
	for at+recordBytes <= len(content) {
		length := int(binary.LittleEndian.Uint32(content[at:]))
		if length == 0 || length > min(maxEventBytes, len(content)-at-recordBytes) {
			break
		}
		payload := content[at+recordBytes : at+recordBytes+length]
		e := &adminpb.Event{}
		if binary.LittleEndian.Uint32(content[at+4:]) != checksum(sequence, payload) ||
			proto.Unmarshal(payload, e) != nil {
			break
		}
		each(e)
		at += recordBytes + length
	}
	return at
}
