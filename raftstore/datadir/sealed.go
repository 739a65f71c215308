package datadir

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sealed puts a checksum in front of a small stored value; unseal checks and removes it.
func sealed(value []byte) []byte {
	out := make([]byte, 4, 4+len(value))
	binary.LittleEndian.PutUint32(out, crc32.Checksum(value, castagnoli))
	return append(out, value...)
}

func unseal(stored []byte) ([]byte, error) {
	if len(stored) < 4 {
		return nil, fmt.Errorf("value of %d bytes is too short", len(stored))
	}
	if want, got := binary.LittleEndian.Uint32(stored), crc32.Checksum(stored[4:], castagnoli); want != got {
		return nil, fmt.Errorf("checksum %08x, stored %08x", got, want)
	}
	return stored[4:], nil
}
