package conformance

import (
	"encoding/hex"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// token is a word of a request line, or a key=value.
type token struct{ key, value string }

var keyStart = regexp.MustCompile(`^[a-z_]+=`)

// tokenize splits a request line at spaces; a quoted string is one piece, wherever it stands in a word.
func tokenize(line string) ([]token, error) {
	var tokens []token
	for line = strings.TrimLeft(line, " "); line != ""; line = strings.TrimLeft(line, " ") {
		var t token
		if key := keyStart.FindString(line); key != "" {
			t.key, line = key[:len(key)-1], line[len(key):]
		}
		end := 0
		for end < len(line) && line[end] != ' ' {
			if line[end] != '"' {
				end++
				continue
			}
			quoted, err := strconv.QuotedPrefix(line[end:])
			if err != nil {
				return nil, fmt.Errorf("a quote is not closed: %s", line)
			}
			end += len(quoted)
		}
		t.value, line = line[:end], line[end:]
		tokens = append(tokens, t)
	}
	return tokens, nil
}

var repeated = regexp.MustCompile(`\{(\d+)\*([^{}]+)\}`)

// parseText reads a value that stands for a string or for bytes.
func parseText(value string) (string, error) {
	if parts := repeated.FindStringSubmatch(value); parts != nil && parts[0] == value {
		value = repeat(parts) // without the copies that a replacement makes of tens of megabytes
	} else {
		value = repeated.ReplaceAllStringFunc(value, func(repetition string) string {
			return repeat(repeated.FindStringSubmatch(repetition))
		})
	}
	if digits, ok := strings.CutPrefix(value, "0x"); ok {
		decoded, err := hex.DecodeString(digits)
		return string(decoded), err
	}
	if strings.HasPrefix(value, `"`) {
		return strconv.Unquote(value)
	}
	return value, nil
}

// repeat unfolds what repeated has matched.
func repeat(parts []string) string {
	times, _ := strconv.Atoi(parts[1]) // 0 where it is out of range, and then the script fails
	return strings.Repeat(parts[2], times)
}

// parseNumber reads a number of 64 bits; max is the largest.
func parseNumber(value string) (uint64, error) {
	if value == "max" {
		return math.MaxUint64, nil
	}
	return strconv.ParseUint(value, 10, 64)
}

// parseMillis reads a time as the protocol sends it: milliseconds, a duration such as 10s, or inf.
func parseMillis(value string) (uint64, error) {
	if value == "inf" {
		return math.MaxUint64, nil
	}
	if n, err := strconv.ParseUint(value, 10, 64); err == nil {
		return n, nil
	}
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 || d%time.Millisecond != 0 {
		return 0, fmt.Errorf("want milliseconds, a duration, or inf, got %q", value)
	}
	return uint64(d.Milliseconds()), nil
}

func ShowNumber(n uint64) string {
	if n == math.MaxUint64 {
		return "max"
	}
	return strconv.FormatUint(n, 10)
}

func ShowMillis(n uint64) string {
	switch {
	case n == math.MaxUint64:
		return "inf"
	case n != 0 && n%1000 == 0:
		return strconv.FormatUint(n/1000, 10) + "s"
	}
	return strconv.FormatUint(n, 10) + "ms"
}

var plainName = regexp.MustCompile(`^[A-Za-z0-9_./-]+$`)

// showName shows the name of a semaphore or of a path entry.
func showName(name string) string {
	if plainName.MatchString(name) && len(name) <= longestShown {
		return name
	}
	return showData(name)
}

const longestShown = 48

// showData shows bytes in the notation that parseText reads, or their number where that would be too long.
func showData(data string) string {
	if len(data) > longestShown && strings.Count(data, data[:1]) == len(data) {
		return fmt.Sprintf("{%d*%s}", len(data), data[:1])
	}
	if len(data) > 4*longestShown {
		return fmt.Sprintf("(%d bytes)", len(data))
	}
	if !utf8.ValidString(data) || strings.ContainsFunc(data,
		func(r rune) bool { return !strconv.IsPrint(r) }) {
		return fmt.Sprintf("0x%x", data)
	}
	return strconv.QuoteToASCII(data)
}
