package retry

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/policy"
)

// maxHeaders is how many headers every answer may be asked for.
const maxHeaders = 16

// maxAttempts is how often a connection may be tried. A worker makes attempts that are refused
// at once without a pause.
const maxAttempts = 16

const textEmpty = "field cannot be empty"

func validate(spec any) []fault.Violation {
	s := spec.(*Spec)
	v := policy.Violations(append(mesh.CheckSources(s.Sources), mesh.CheckDestinations(s.Destinations)...))
	c := s.Conf
	switch {
	case c == nil:
		v.Add("conf", policy.TextDefined)
		return v
	case c.HTTP == nil && c.GRPC == nil && c.TCP == nil:
		v.Add("conf", "missing protocol [grpc|http|tcp] configuration")
		return v
	}
	if c.HTTP != nil {
		checkHTTP(&v, c.HTTP)
	}
	if c.GRPC != nil {
		checkGRPC(&v, c.GRPC)
	}
	switch {
	case c.TCP == nil:
	case c.TCP.MaxConnectAttempts == 0:
		v.Add("conf.tcp.maxConnectAttempts", policy.TextPositive)
	case c.TCP.MaxConnectAttempts > maxAttempts:
		v.Add("conf.tcp.maxConnectAttempts", "must be at most %d", maxAttempts)
	}
	return v
}

func checkHTTP(v *policy.Violations, h *HTTP) {
	if h.NumRetries == nil && h.PerTryTimeout == nil && h.BackOff == nil &&
		len(h.RetriableStatusCodes) == 0 && len(h.RetriableMethods) == 0 && len(h.RetriableHeaders) == 0 && len(h.RetryOn) == 0 {
		v.Add("conf.http", textEmpty)
	}
	checkTries(v, "conf.http", h.NumRetries, h.PerTryTimeout, h.BackOff)
	if len(h.RetriableHeaders) > maxHeaders {
		v.Add("conf.http.retriableHeaders", "must have at most %d elements", maxHeaders)
	} else {
		for i, name := range h.RetriableHeaders {
			path := fmt.Sprintf("conf.http.retriableHeaders[%d]", i)
			if !httpguts.ValidHeaderFieldName(name) {
				v.Add(path, "must be a valid header name")
			}
			v.Sent(path, name)
		}
	}
	for i, m := range h.RetriableMethods {
		if m == "NONE" {
			v.Add(fmt.Sprintf("conf.http.retriableMethods[%d]", i), textEmpty)
		}
	}
	for i, on := range h.RetryOn {
		if on == onStatusCodes && len(h.RetriableStatusCodes) == 0 {
			v.Add(fmt.Sprintf("conf.http.retryOn[%d]", i), "retriableStatusCodes cannot be empty when this option is specified")
		}
	}
}

func checkGRPC(v *policy.Violations, g *GRPC) {
	if g.NumRetries == nil && g.PerTryTimeout == nil && g.BackOff == nil && len(g.RetryOn) == 0 {
		v.Add("conf.grpc", textEmpty)
	}
	at := map[string][]string{}
	for i, on := range g.RetryOn {
		at[on] = append(at[on], fmt.Sprint(i))
	}
	for _, on := range slices.Sorted(maps.Keys(at)) {
		if len(at[on]) > 1 {
			v.Add("conf.grpc.retryOn", "repeated value %q at indexes [%s]", on, strings.Join(at[on], ", "))
		}
	}
	checkTries(v, "conf.grpc", g.NumRetries, g.PerTryTimeout, g.BackOff)
}

func checkTries(v *policy.Violations, path string, tries *uint32, perTry *mesh.Duration, b *BackOff) {
	if tries != nil && *tries == 0 {
		v.Add(path+".numRetries", policy.TextPositiveIf)
	}
	v.Positive(path+".perTryTimeout", perTry)
	if b != nil {
		v.Whole(path+".backOff.baseInterval", b.BaseInterval)
	}
	switch {
	case b == nil:
	case b.BaseInterval == nil:
		v.Add(path+".backOff.baseInterval", policy.TextDefined)
	case *b.BaseInterval <= 0:
		v.Add(path+".backOff.baseInterval", policy.TextPositive)
	default:
		v.Positive(path+".backOff.maxInterval", b.MaxInterval)
	}
}
