// Package reserved says which texts no field of the configuration of proxies may hold. Agents
// refuse a resource with such a text, so whoever accepts texts that reach proxies refuses these
// first: otherwise one document keeps its listeners from every proxy.
package reserved

import (
	"bytes"
	"fmt"

	"github.com/meshgate/meshgate/filter/contract"
)

// ADSCluster is the static cluster that leads to the relay or the control plane.
const ADSCluster = "@ads_cluster"

// Fleeting begins the names of secrets that agents keep in memory alone, and on no disk: keys that
// proxies present to services outside the mesh.
const Fleeting = "external_client:secret:"

// variable begins the command with which a format reads the environment.
const variable = "%ENVIRONMENT"

// Named reports whether a text is the name of a cluster that only the agent's own configuration
// may name.
func Named(text string) bool { return text == ADSCluster || text == contract.AuthzCluster }

// ReadsVariable reports whether a text, used as a format, could read the environment. Nobody
// lists which texts are formats, so all count. A doubled percent sign stands for itself: a
// literal text is not a command and must not cause a refusal. After a single percent sign,
// nothing is known to be literal.
func ReadsVariable(text []byte) bool {
	if !bytes.Contains(text, []byte(variable)) {
		return false
	}
	for i := bytes.IndexByte(text, '%'); i < len(text); i++ {
		if text[i] != '%' {
			continue
		}
		if i+1 == len(text) || text[i+1] != '%' {
			return bytes.Contains(text[i:], []byte(variable))
		}
		i++
	}
	return false
}

// Wrong says why a text cannot be used that reaches proxies as it is. It is empty if it can.
func Wrong(text string) string {
	if ReadsVariable([]byte(text)) {
		return fmt.Sprintf("must not contain %s, with which proxies read their environment", variable)
	}
	return WrongLiteral(text)
}

// WrongLiteral is [Wrong] for a text whose percent signs are doubled on the way to proxies.
func WrongLiteral(text string) string {
	if Named(text) {
		return fmt.Sprintf("must not be %s, which is a cluster of the proxy's own", text)
	}
	return ""
}
