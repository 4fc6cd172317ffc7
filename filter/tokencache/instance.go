package tokencache

import (
	"crypto/rand"
	"strings"
)

// newInstance draws the name of one cache. If the agent gave this process a well-formed
// name, the instance name begins with it, so that the agent can say which filters have
// ended.
func newInstance(process string) string {
	if !wellFormed(process) {
		return rand.Text()
	}
	return process + "." + rand.Text()
}

// wellFormed reports whether the name of a process consists of 26 letters and digits.
func wellFormed(process string) bool {
	return len(process) == 26 && !strings.ContainsFunc(process, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}
