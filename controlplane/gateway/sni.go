package gateway

import (
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
)

// SNI is a server name, or "*." and a domain, for which a certificate is presented.
type SNI struct {
	// Name has the spelling of its author; [SNI.Server] is used for comparisons.
	Name string `json:"name" jsonschema:"maxLength=255" jsonschema_extras:"x-unique=true,x-check=sni"`
	// Certificate is the id of the certificate.
	Certificate string   `json:"certificate" jsonschema_extras:"x-on-delete=cascade,x-refers-to=certificate"`
	Tags        []string `json:"tags,omitempty" jsonschema:"uniqueItems=true,maxLength=256" jsonschema_extras:"x-listed=true,x-each-check=tag"`
}

// SNIs is the kind of server names.
var SNIs = rules.Describe(SNI{}, model.Kind{
	Name: "sni", Path: "snis", Scoping: model.ControlPlane, Class: model.Config,
	Schema: &model.Schema{
		Key: "name", KeyIndex: foldServer, CreatedUnit: time.Second, Updated: true,
	},
})

func sniText(v any) string {
	name := v.(string)
	rest, _ := strings.CutPrefix(name, "*.")
	switch {
	case strings.HasSuffix(name, ".*"):
		return "not supported: trailing wildcard"
	case strings.Contains(rest, "*"):
		return "invalid wildcard: must be the leftmost label"
	case !namesHost(rest):
		return "invalid hostname: " + name
	}
	return ""
}

// Server returns the name in the form in which it is compared.
func (s *SNI) Server() string { return foldServer(s.Name) }

// foldServer maps all spellings of a server name to one. Source: RFC 4343.
func foldServer(name string) string { return strings.TrimSuffix(strings.ToLower(name), ".") }
