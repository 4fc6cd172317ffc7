package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"sigs.k8s.io/yaml"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/access/oidc"
	"github.com/meshgate/meshgate/controlplane/fault"
)

// Access says who may do what at the mesh API and the administration API of gateways.
type Access struct {
	LocalhostIsAdmin    bool   `koanf:"localhostIsAdmin"`
	Anonymous           bool   `koanf:"anonymous"`
	BootstrapAdminToken bool   `koanf:"bootstrapAdminToken"`
	ClientCAFile        string `koanf:"clientCAFile"`
	OIDC                OIDC   `koanf:"oidc"`
	Static              Static `koanf:"static"`
	// Roles bind users and groups to scopes.
	Roles []access.Role `koanf:"-"`
}

// OIDC is an OpenID Connect issuer whose bearer tokens name users.
type OIDC struct {
	Issuer      string `koanf:"issuer"`
	Audience    string `koanf:"audience"`
	UserClaim   string `koanf:"userClaim"`
	GroupsClaim string `koanf:"groupsClaim"`
	CAFile      string `koanf:"caFile"`
}

// Static gives rights to users and groups; see [access.Static].
type Static struct {
	AdminResources       Named `koanf:"adminResources"`
	GenerateDpToken      Named `koanf:"generateDpToken"`
	GenerateUserToken    Named `koanf:"generateUserToken"`
	GenerateZoneToken    Named `koanf:"generateZoneToken"`
	ViewConfigDump       Named `koanf:"viewConfigDump"`
	ViewStats            Named `koanf:"viewStats"`
	ViewClusters         Named `koanf:"viewClusters"`
	ControlPlaneMetadata Named `koanf:"controlPlaneMetadata"`
}

// Named are users and groups, each separated by commas.
type Named struct {
	Users  []string `koanf:"users"`
	Groups []string `koanf:"groups"`
}

// Tokens says which tokens the control plane issues and accepts.
type Tokens struct {
	Issuing bool `koanf:"issuing"`
	// PublicKeys verify tokens that were issued elsewhere.
	PublicKeys []PublicKey `koanf:"-"`
}

// PublicKey names a file with a public key.
type PublicKey struct {
	// For is the kind of tokens: dataplane, user, zone or zone-ingress.
	For string `json:"for"`
	// Mesh is the mesh of dataplane tokens.
	Mesh    string `json:"mesh,omitempty"`
	KeyID   string `json:"kid"`
	KeyFile string `json:"keyFile"`
	// Users and Groups are the names that tokens of users may have, if they are set. Names of the
	// system, such as that of administrators, must be listed.
	Users  []string `json:"users,omitempty"`
	Groups []string `json:"groups,omitempty"`
}

// accessKeys are the rows of [Table] for [Access] and [Tokens].
var accessKeys = slices.Concat([]Key{
	{"access.localhostIsAdmin", true, "treat callers on this machine as administrators, unless a browser or a proxy sent them (docs/operations/access.md)", false},
	{"access.anonymous", true, "let callers without an identity read and write meshes, as long as there are no roles; false: they get nothing but /", false},
	{"access.bootstrapAdminToken", true, "store a token of an administrator as the global secret admin-user-token if there is none", false},
	{"access.clientCAFile", "", "PEM bundle of the authorities whose client certificates name users at the encrypted ports; empty: none are asked for", false},
	{"access.oidc.issuer", "", "URL of an OpenID Connect issuer whose bearer tokens name users; empty: none", false},
	{"access.oidc.audience", "", "what these tokens must be for", false},
	{"access.oidc.userClaim", "sub", "their claim with the name of the user", false},
	{"access.oidc.groupsClaim", "groups", "their claim with the groups of the user", false},
	{"access.oidc.caFile", "", "PEM bundle that signs the issuer's certificate; empty: the system's", false},
	{"access.roles", "", "list of roles (docs/operations/access.md), as YAML or JSON; with any, callers have what their roles give and nothing else", false},
	{"tokens.issuing", true, "issue tokens of dataplanes, users and zones at the mesh API", false},
	{"tokens.publicKeys", "", "list of public keys of tokens that were issued elsewhere (docs/operations/access.md), as YAML or JSON", false},
}, staticKeys())

// staticKeys returns two rows for each right that settings can give.
func staticKeys() (keys []Key) {
	for _, s := range []struct{ name, help string }{
		{"adminResources", "read and write secrets"},
		{"generateDpToken", "issue and revoke dataplane tokens"},
		{"generateUserToken", "issue and revoke tokens of users, but not of administrators"},
		{"generateZoneToken", "issue and revoke tokens of zones"},
		{"viewConfigDump", "read the configuration of proxies"},
		{"viewStats", "read the figures of proxies"},
		{"viewClusters", "read the endpoints that proxies know"},
		{"controlPlaneMetadata", "read what is the matter with the control plane"},
	} {
		keys = append(keys,
			Key{"access.static." + s.name + ".users", "", "comma-separated users who may, beside administrators, " + s.help, false},
			Key{"access.static." + s.name + ".groups", "", "comma-separated groups whose users may, beside administrators, " + s.help, false})
	}
	return keys
}

// Rights returns the settings for decisions.
func (s *Static) Rights() access.Static {
	out := access.Static{}
	for right, n := range map[access.Right]Named{
		access.AdminResources: s.AdminResources, access.DataplaneTokens: s.GenerateDpToken, access.UserTokens: s.GenerateUserToken, access.ZoneTokens: s.GenerateZoneToken,
		access.ConfigDump: s.ViewConfigDump, access.Stats: s.ViewStats, access.Clusters: s.ViewClusters, access.Metadata: s.ControlPlaneMetadata,
	} {
		out[right] = access.Grant{Users: trimmed(n.Users), Groups: trimmed(n.Groups)}
	}
	return out
}

// trimmed returns the names in a list, or in a text with commas.
func trimmed(names []string) (out []string) {
	for n := range strings.SplitSeq(strings.Join(names, ","), ",") {
		if n = strings.TrimSpace(n); n != "" {
			out = append(out, n)
		}
	}
	return out
}

// Rules returns the rules of these settings.
func (a *Access) Rules() *access.Rules {
	return access.New(access.Options{Static: a.Static.Rights(), Roles: a.Roles, Identified: !a.Anonymous})
}

// StrictRules returns the rules of the cloud API, where callers have what their roles give and nothing
// else.
func (a *Access) StrictRules() *access.Rules {
	return access.New(access.Options{Static: a.Static.Rights(), Roles: a.Roles, RolesOnly: true})
}

// IdentityNeeded reports whether callers without an identity have nothing.
func (a *Access) IdentityNeeded() bool { return !a.Anonymous || len(a.Roles) > 0 }

// lists are the settings whose values are lists of objects.
func (c *Config) lists() map[string]any {
	return map[string]any{"access.roles": &c.Access.Roles, "tokens.publicKeys": &c.Tokens.PublicKeys}
}

// decodeList reads a list of objects: from a file, or from the text of a variable or flag. It
// refuses unknown members.
func decodeList(name string, value, into any) error {
	if text, ok := value.(string); ok {
		if strings.TrimSpace(text) == "" {
			return nil
		}
		if err := yaml.UnmarshalStrict([]byte(text), &value); err != nil {
			return fault.Wrap(fault.Invalid, err, "%s is not valid YAML", name)
		}
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "%s", name)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fault.New(fault.Invalid, "%s: %s", name, strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// checkAccess reports what cannot work.
func (c *Config) checkAccess() (vs []fault.Violation) {
	bad := func(path, format string, args ...any) {
		vs = append(vs, fault.Violation{Path: path, Message: fmt.Sprintf(format, args...)})
	}
	for _, v := range access.CheckRoles(c.Access.Roles) {
		bad("access.roles"+v.Path, "%s", v.Message)
	}
	for i, k := range c.Tokens.PublicKeys {
		if k.KeyFile == "" {
			bad(fmt.Sprintf("tokens.publicKeys[%d].keyFile", i), "is needed")
		}
	}
	if ip := net.ParseIP(c.Mesh.Listen); ip != nil && !ip.IsLoopback() && !c.Access.IdentityNeeded() {
		bad("mesh.listen", "must be a loopback address unless access.roles is set or access.anonymous is false, because everybody could write without an identity")
	}
	if o := c.Access.OIDC; o.Issuer != "" {
		if err := oidc.CheckURL(o.Issuer); err != nil {
			bad("access.oidc.issuer", "%v", err)
		}
		if o.Audience == "" {
			bad("access.oidc.audience", "is needed: tokens for others must not count here")
		}
		if o.UserClaim == "" {
			bad("access.oidc.userClaim", "is needed")
		}
	}
	if (c.Mesh.TLSCertFile == "") != (c.Mesh.TLSKeyFile == "") {
		bad("mesh.tlsCertFile", "is set together with mesh.tlsKeyFile")
	}
	if p := c.Mesh.Product; len(p) > maxProduct || strings.ContainsFunc(p, func(r rune) bool { return !unicode.IsPrint(r) }) {
		bad("mesh.product", "must be up to %d printable characters", maxProduct)
	}
	for _, origin := range trimmed(c.Mesh.CORSAllowedDomains) {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || origin != u.Scheme+"://"+u.Host {
			bad("mesh.corsAllowedDomains", "%q is no origin such as https://console.example", origin)
		}
	}
	return vs
}

// maxProduct bounds the name of the product in bytes.
const maxProduct = 64

// MeshPorts says where the mesh API listens, over HTTP and HTTPS.
type MeshPorts struct {
	Listen  string `koanf:"listen"`
	Port    int    `koanf:"port"`
	TLSPort int    `koanf:"tlsPort"`
	// ReadOnly refuses writes of resources.
	ReadOnly    bool   `koanf:"readOnly"`
	TLSCertFile string `koanf:"tlsCertFile"`
	TLSKeyFile  string `koanf:"tlsKeyFile"`
	// CORSAllowedDomains are the origins whose pages may call the API.
	CORSAllowedDomains []string `koanf:"corsAllowedDomains"`
	// Product is the name under which clients know the control plane.
	Product string `koanf:"product"`
}

// Origins returns the origins whose pages may call the API.
func (m *MeshPorts) Origins() []string { return trimmed(m.CORSAllowedDomains) }
