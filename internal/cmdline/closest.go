package cmdline

import "strings"

// lettersPerSlip is the number of letters of a name that allow one slip.
const lettersPerSlip = 4

// Closest returns the candidate that differs from name in the fewest slips, or "" if all differ too much; of several
// equal ones the first. The dashes of flags and the prefix of variables are not counted as letters of the name.
func Closest(name string, candidates []string) string {
	letters := strings.TrimLeft(strings.TrimPrefix(name, VariablePrefix), "-")
	best, fewest := "", len(letters)/lettersPerSlip+1
	for _, candidate := range candidates {
		// a short name has room for a letter that is missing behind the first one
		near := len(letters) > 1 && len(candidate) > len(letters) && candidate[0] == letters[0] && name == letters
		if n := slips(name, candidate); n < fewest || near && n == 1 && best == "" {
			best, fewest = candidate, n
		}
	}
	return best
}

// slips is the least number of letters to insert, to drop, to replace, or to exchange
// with their neighbours, to get from a to b.
func slips(a, b string) int {
	rows := make([][]int, len(a)+1) // from each prefix of a to each prefix of b
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replaced := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			rows[i][j] = min(replaced, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
