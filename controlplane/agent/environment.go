package agent

import (
	"os"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/filter/contract"
)

// ownPrefixes are prefixes, in any case, of environment variables that may hold settings of
// this program or of its tracing. OTEL_EXPORTER_OTLP_HEADERS, for example, is a credential.
// Envoy's tracer for Datadog prefers the variables DD_ to its configuration.
var ownPrefixes = []string{"MESHGATE_", "OTEL_", "DD_"}

// environment returns the environment for Envoy. Envoy handles untrusted traffic, so an
// attacker who takes it over must not find the passwords and keys of this process. In a
// single process with the control plane these give access to everything. What the filter in
// Envoy reads there passes.
func (p *Process) environment() []string {
	inherited := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return !strings.HasPrefix(v, contract.RememberEnv+"=") && slices.ContainsFunc(ownPrefixes, func(prefix string) bool {
			return len(v) >= len(prefix) && strings.EqualFold(v[:len(prefix)], prefix)
		})
	})
	return append(inherited, p.Env...)
}
