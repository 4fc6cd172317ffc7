package agent

import (
	"os"
	"slices"
	"strings"
)

// ownPrefixes begin the names, in any case, of the variables that settings of this program
// may be in, and those of its traces: OTEL_EXPORTER_OTLP_HEADERS is a credential.
var ownPrefixes = []string{"MESHGATE_", "OTEL_"}

// environment is what Envoy inherits. It talks to strangers: whoever takes it over must not
// find the passwords and keys there that this process was given, which in a single process
// with the control plane are those of everything.
func (p *Process) environment() []string {
	inherited := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return slices.ContainsFunc(ownPrefixes, func(prefix string) bool {
			return len(v) >= len(prefix) && strings.EqualFold(v[:len(prefix)], prefix)
		})
	})
	return append(inherited, p.Env...)
}
