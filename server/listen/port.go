package listen

import (
	"fmt"
	"strconv"
)

// ValidPort returns an error unless port is a number from least to 65535.
func ValidPort(port string, least int) error {
	if n, err := strconv.Atoi(port); err != nil || n < least || n > 65535 {
		return fmt.Errorf("port %q: want a number from %d to 65535", port, least)
	}
	return nil
}
