package fault

import (
	"slices"
	"strings"
)

// Nearest returns the known name with the smallest edit distance from what was
// written, regardless of case, for errors that suggest what was meant; "" if
// none is known.
func Nearest(written string, known []string) string {
	best, least := "", -1
	for _, name := range slices.Sorted(slices.Values(known)) {
		if d := distance(strings.ToLower(written), strings.ToLower(name)); least < 0 || d < least {
			best, least = name, d
		}
	}
	return best
}

// distance is the Levenshtein distance in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
