package files

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Seal returns a value as a line of JSON with a line of its checksum. Small files and records have this form. It panics
// if JSON cannot represent the value.
func Seal(value any) []byte {
	line, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return fmt.Appendf(line, "\n%08x\n", crc32.Checksum(line, castagnoli))
}

// Unseal decodes what Seal returned.
func Unseal(sealed []byte, value any) error {
	line, end, _ := bytes.Cut(sealed, []byte("\n"))
	if want := fmt.Sprintf("%08x\n", crc32.Checksum(line, castagnoli)); string(end) != want {
		return fmt.Errorf("it ends with %.20q, its checksum is %q", end, want)
	}
	return json.Unmarshal(line, value)
}
