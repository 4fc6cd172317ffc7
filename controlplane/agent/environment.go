package agent

import (
	"os"
	"slices"
	"strings"
)

// settingsPrefix begins the names of the variables that settings of this program may be
// in, in any case.
const settingsPrefix = "MESHGATE_"

// environment is what Envoy inherits. It talks to strangers: whoever takes it over must not
// find the passwords and keys there that this process was given, which in a single process
// with the control plane are those of everything.
func (p *Process) environment() []string {
	inherited := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return len(v) >= len(settingsPrefix) && strings.EqualFold(v[:len(settingsPrefix)], settingsPrefix)
	})
	return append(inherited, p.Env...)
}
