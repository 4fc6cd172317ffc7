package cloud

import (
	"crypto/rand"
	"encoding/hex"
	"regexp"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/hostname"
	"github.com/meshgate/meshgate/controlplane/model"
)

// Portal is a site where developers log in.
type Portal struct {
	Name        string `json:"name" jsonschema_extras:"x-unique=true,x-check=name,x-chars=1..255"`
	DisplayName string `json:"display_name,omitempty" jsonschema_extras:"x-check=name,x-chars=1..255"`
	Description string `json:"description,omitempty" jsonschema_extras:"x-chars=0..512"`
	// IsPublic portals have no developers.
	IsPublic                bool `json:"is_public" jsonschema:"default=false"`
	RBACEnabled             bool `json:"rbac_enabled" jsonschema:"default=false"`
	AutoApproveDevelopers   bool `json:"auto_approve_developers" jsonschema:"default=false"`
	AutoApproveApplications bool `json:"auto_approve_applications" jsonschema:"default=false"`
	// CustomDomain is a second host of the portal's API.
	CustomDomain       string            `json:"custom_domain,omitempty" jsonschema:"maxLength=253" jsonschema_extras:"x-unique=true,x-check=domain"`
	CustomClientDomain string            `json:"custom_client_domain,omitempty" jsonschema:"maxLength=253" jsonschema_extras:"x-check=domain"`
	Labels             map[string]string `json:"labels,omitempty" jsonschema_extras:"x-check=labels"`
	// Slug is the first label of the portal's own host.
	Slug string `json:"slug" jsonschema:"maxLength=63" jsonschema_extras:"x-hidden=true,x-unique=true,x-generated=slug"`
	// BasicAuth says whether developers log in with a password.
	BasicAuth bool `json:"basic_auth_enabled" jsonschema:"default=true" jsonschema_extras:"x-hidden=true"`
	// Era counts how often BasicAuth was changed. Sessions of earlier eras never count again. It is no time: a
	// session may begin in the same millisecond.
	Era int64 `json:"era,omitempty" jsonschema_extras:"x-hidden=true"`
}

// The indexes of portals by their hosts.
const (
	IndexSlug         = "slug"
	IndexCustomDomain = "custom_domain"
)

// Portals is the kind of portals.
var Portals = portalRules.Describe(Portal{}, model.Kind{
	Name: "portal", Path: "portals", Scoping: model.Global, Class: model.Config,
	Schema: &model.Schema{CreatedUnit: time.Millisecond, Updated: true},
})

var portalRules = rules.With(model.Rules{
	Checks: map[string]func(any) string{
		"domain": domainText,
		"email":  emailText,
	},
	Generators: map[string]func() (any, error){"slug": slug},
})

// portalKinds lists the kinds of portals and of what they have.
func portalKinds() []*model.Kind {
	return []*model.Kind{Portals, Developers, Passwords, Trials, Sessions, Invitations, Replays}
}

// slug makes the first label of a host. It says nothing about the portal.
func slug() (any, error) {
	var b [6]byte
	_, _ = rand.Read(b[:]) // documented never to return an error
	return hex.EncodeToString(b[:]), nil
}

// hostLabel is a label of a host name (RFC 1123 section 2.1), in lower case.
var hostLabel = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// domainText checks a host name. Upper case is refused: hosts are compared as they are stored.
func domainText(v any) string {
	if !IsDomain(v.(string)) {
		return "must be a host name in lower case, such as developers.example.com"
	}
	return ""
}

// IsDomain reports whether a text can be the host of a portal.
func IsDomain(text string) bool {
	labels := strings.Split(text, ".")
	for _, label := range labels {
		if !hostLabel.MatchString(label) {
			return false
		}
	}
	return len(labels) > 1 && !hostname.EndsInNumber(text)
}
