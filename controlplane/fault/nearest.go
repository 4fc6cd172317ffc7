package fault

import (
	"slices"
	"strings"
)

// Nearest returns the known name with the smallest edit distance from what was written,
// ignoring case. Errors use it for suggestions. It returns "" if known is empty.
func Nearest(written string, known []string) string {
	best, least := "", -1
	for _, name := range slices.Sorted(slices.Values(known)) {
		if d := distance(strings.ToLower(written), strings.ToLower(name)); least < 0 || d < least {
			best, least = name, d
		}
	}
	return best
}

// longestMeant bounds, in bytes, the names for which a suggestion is made. The time for
// comparing grows with the length, which the author of a document chooses.
const longestMeant = 64

// Meant returns the end of a message about an unknown name: what was probably meant, or
// nothing if no known name is similar.
func Meant(written string, known []string) string {
	if len(written) > longestMeant {
		return ""
	}
	near := Nearest(written, known)
	if near == "" || distance(strings.ToLower(written), strings.ToLower(near)) > max(1, len(written)/3) {
		return ""
	}
	return `; did you mean "` + near + `"?`
}

// distance counts the bytes that were left out, added or mistaken, and the swapped neighbours
// (optimal string alignment).
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
