package gateway

import (
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
)

// SNI is a server name, or *. and a domain, for which a certificate is shown.
type SNI struct {
	// Name is spelled as it was written; [SNI.Server] is what is compared.
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

// Server is the name as it is compared.
func (s *SNI) Server() string { return foldServer(s.Name) }

// foldServer makes the spellings of a server name one. Source: RFC 4343.
func foldServer(name string) string { return strings.TrimSuffix(strings.ToLower(name), ".") }
