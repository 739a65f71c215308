package main

// slipsMax is how many letters may differ for a name to be taken for a slip.
const slipsMax = 2

// closest is the candidate that differs from name in the fewest letters, at most
// slipsMax, or "" if there is none. The first of several equal ones counts.
func closest(name string, candidates []string) string {
	best, fewest := "", slipsMax+1
	for _, candidate := range candidates {
		// A name that differs in most of its letters is no slip.
		if slips := editDistance(name, candidate); slips < fewest && slips < len(candidate)-1 {
			best, fewest = candidate, slips
		}
	}
	return best
}

// editDistance is the least number of letters to insert, drop or replace to get
// from a to b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1) // distances from the prefix of a seen so far to each prefix of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
