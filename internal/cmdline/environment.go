package cmdline

import (
	"slices"
	"strings"
)

// Environment is the process's environment as KEY=value lines.
type Environment []string

// Value returns the value of a variable. A variable that is set to nothing counts as not
// set, because compose files and unit files often pass it on that way.
func (e Environment) Value(name string) string {
	// as in the C library, the last of several with one name wins
	for _, line := range slices.Backward(e) {
		if rest, found := strings.CutPrefix(line, name+"="); found {
			return rest
		}
	}
	return ""
}

// Variable names the environment variable of a setting.
func Variable(name string) string {
	return VariablePrefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// VariablePrefix begins the name of every variable of ours.
const VariablePrefix = "COORDD_"
