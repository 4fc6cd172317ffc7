package config

import (
	"cmp"
	"maps"
	"reflect"
	"strings"
	"time"
)

// section is a part of the document of [Config.Effective].
type section = map[string]any

// statusFlushInterval is how often what proxies report is written; see insight.Interval.
const statusFlushInterval = 10 * time.Second

// Effective returns the configuration in force as clients of GET /config expect it: the
// sections that they know, and below "meshgate" all settings of [Table] by their own names.
// Durations are texts such as 30s. Secrets are masked. What does not exist here has an empty
// value, is not enabled, or has port 0.
func (c *Config) Effective() map[string]any {
	own := c.tree()
	return map[string]any{
		"access":                     own["access"],
		"adminServer":                section{"apis": section{"dataplaneToken": section{"enabled": c.Tokens.Issuing}}, "local": section{"port": c.Mesh.Port}, "public": c.publicServer()},
		"apiServer":                  c.apiServer(),
		"bootstrapServer":            section{"port": c.DataPlane.Port, "params": c.bootstrap()},
		"dataplaneTokenServer":       section{"enabled": c.Tokens.Issuing, "local": section{"port": c.Mesh.Port}, "public": c.publicServer()},
		"defaults":                   section{"mesh": "type: Mesh\nname: default\n", "skipMeshCreation": c.Defaults.SkipMeshCreation},
		"diagnostics":                section{"serverPort": c.Diagnostics.Port, "debugEndpoints": c.Diagnostics.Pprof},
		"discovery":                  section{"universal": section{"pollingInterval": pushed}},
		"environment":                c.Environment,
		"general":                    section{"advertisedHostname": c.advertised(), "workDir": c.StateDir},
		"guiServer":                  section{"enabled": false, "port": 0, "apiServerUrl": ""},
		"metrics":                    section{"dataplane": section{"enabled": true}, "mesh": section{"enabled": true}, "zone": section{"enabled": true}},
		"mode":                       c.Mode,
		"monitoringAssignmentServer": section{"enabled": false, "grpcPort": 0, "assignmentRefreshInterval": pushed},
		"multizone":                  section{"zone": section{"name": c.Zone.Own()}},
		"reports":                    section{"enabled": false},
		"runtime":                    section{c.Environment: section{}},
		"sdsServer":                  section{"grpcPort": c.DataPlane.Port, "tlsCertFile": "", "tlsKeyFile": "", "dataplaneConfigurationRefreshInterval": pushed},
		"store":                      storeOf(own),
		"xdsServer": section{
			"grpcPort": c.DataPlane.Port, "diagnosticsPort": c.Diagnostics.Port, "dataplaneConfigurationRefreshInterval": pushed,
			"dataplaneStatusFlushInterval": statusFlushInterval.String(),
		},
		"meshgate": own,
	}
}

// pushed is the interval of what others ask for again and again, and what is pushed here as soon
// as it changes.
const pushed = "0s"

// apiServer is the section about the mesh API.
func (c *Config) apiServer() section {
	elsewhere := section{"url": ""} // clients find everything at the address that they know
	return section{
		"port": c.Mesh.Port, "readOnly": c.Mesh.ReadOnly, "corsAllowedDomains": list(c.Mesh.Origins()),
		"catalog": section{"bootstrap": elsewhere, "monitoringAssignment": elsewhere, "sds": elsewhere},
		"http":    section{"enabled": true, "interface": c.Mesh.Listen, "port": c.Mesh.Port},
		"https":   section{"enabled": true, "interface": c.Mesh.Listen, "port": c.Mesh.TLSPort, "tlsCertFile": c.Mesh.TLSCertFile, "tlsKeyFile": c.Mesh.TLSKeyFile},
		"auth":    section{"clientCertsDir": ""}, // their authorities are in a file, see access
		"authn":   section{"type": "tokens", "localhostIsAdmin": c.Access.LocalhostIsAdmin, "tokens": section{"bootstrapAdminToken": c.Access.BootstrapAdminToken, "enableIssuer": c.Tokens.Issuing}},
	}
}

// publicServer is where tokens are issued over HTTPS.
func (c *Config) publicServer() section {
	return section{
		"enabled": true, "interface": c.Mesh.Listen, "port": c.Mesh.TLSPort,
		"tlsCertFile": c.Mesh.TLSCertFile, "tlsKeyFile": c.Mesh.TLSKeyFile, "clientCertsDir": "",
	}
}

// bootstrap is what the bootstrap of a proxy says. Agents make it, with an administration
// interface of Envoy at a socket, and without its log.
func (c *Config) bootstrap() section {
	return section{
		"adminAccessLogPath": "/dev/null", "adminAddress": "", "adminPort": 0,
		"xdsConnectTimeout": "1s", "xdsHost": c.DataPlane.Listen, "xdsPort": c.DataPlane.Port,
	}
}

// advertised is the name under which proxies find the control plane.
func (c *Config) advertised() string {
	first, _, _ := strings.Cut(c.DataPlane.Names, ",")
	return cmp.Or(strings.TrimSpace(first), "localhost")
}

// storeOf is the section about the store. Nothing that is read is cached.
func storeOf(own section) section {
	out := maps.Clone(own["store"].(section))
	out["memory"], out["cache"] = section{}, section{"enabled": false, "expirationTime": "0s"}
	return out
}

// tree returns all settings, nested by the parts of their names.
func (c *Config) tree() section {
	secret := map[string]bool{}
	for _, k := range Table {
		secret[k.Name] = k.Secret
	}
	out := branch(reflect.ValueOf(*c), "", secret)
	for name, v := range c.lists() {
		parent, leaf, _ := strings.Cut(name, ".")
		out[parent].(section)[leaf] = reflect.ValueOf(v).Elem().Interface()
	}
	return out
}

// branch returns the settings of one struct; prefix is the name of its section, with a dot.
func branch(v reflect.Value, prefix string, secret map[string]bool) section {
	out := section{}
	for i := range v.NumField() {
		name := v.Type().Field(i).Tag.Get("koanf")
		if name == "-" {
			continue
		}
		if f := v.Field(i); f.Kind() == reflect.Struct {
			out[name] = branch(f, prefix+name+".", secret)
		} else {
			out[name] = leaf(f.Interface(), secret[prefix+name])
		}
	}
	return out
}

// leaf returns a value as it may be shown.
func leaf(v any, secret bool) any {
	switch v := v.(type) {
	case string:
		if secret && v != "" {
			return Mask
		}
		return withoutUser(v)
	case time.Duration:
		return v.String()
	case []string:
		return list(v)
	default:
		return v
	}
}

// withoutUser masks the user and the password of a URL. A setting that is not meant to hold
// them is shown to whoever may see the rest.
func withoutUser(text string) string {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return text
	}
	authority, path := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		authority = Mask + authority[i:]
	}
	return scheme + "://" + authority + path
}

// list returns an empty list for none, so that clients always find one.
func list(of []string) []string {
	if of == nil {
		return []string{}
	}
	return of
}
