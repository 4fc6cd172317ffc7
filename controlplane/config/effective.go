package config

import (
	"reflect"
	"strings"
	"time"
)

// section is a part of the document of [Config.Effective].
type section = map[string]any

// Effective returns the configuration in force as clients of GET /config expect it: the
// sections that they know, and below "meshgate" all settings of [Table] by their own names.
// Durations are texts such as 30s. Secrets are masked.
func (c *Config) Effective() map[string]any {
	api := section{
		"port": c.Mesh.Port, "readOnly": c.Mesh.ReadOnly, "corsAllowedDomains": list(c.Mesh.Origins()),
		"http":  section{"enabled": true, "interface": c.Mesh.Listen, "port": c.Mesh.Port},
		"https": section{"enabled": true, "interface": c.Mesh.Listen, "port": c.Mesh.TLSPort, "tlsCertFile": c.Mesh.TLSCertFile, "tlsKeyFile": c.Mesh.TLSKeyFile},
		"authn": section{"type": "tokens", "localhostIsAdmin": c.Access.LocalhostIsAdmin, "tokens": section{"bootstrapAdminToken": c.Access.BootstrapAdminToken, "enableIssuer": c.Tokens.Issuing}},
	}
	tokens := section{"enabled": c.Tokens.Issuing, "local": section{"port": c.Mesh.Port}}
	own := c.tree()
	return map[string]any{
		"access":                     own["access"],
		"adminServer":                section{"apis": section{"dataplaneToken": section{"enabled": c.Tokens.Issuing}}, "local": section{"port": c.Mesh.Port}, "public": section{"enabled": true, "interface": c.Mesh.Listen, "port": c.Mesh.TLSPort}},
		"apiServer":                  api,
		"bootstrapServer":            section{"port": c.DataPlane.Port, "params": section{"adminPort": 0, "xdsHost": c.DataPlane.Listen, "xdsPort": c.DataPlane.Port}},
		"dataplaneTokenServer":       tokens,
		"defaults":                   section{"mesh": "type: Mesh\nname: default\n", "skipMeshCreation": false},
		"diagnostics":                section{"serverPort": c.Diagnostics.Port, "debugEndpoints": c.Diagnostics.Pprof},
		"discovery":                  section{"universal": section{"pollingInterval": "0s"}}, // changes are pushed
		"environment":                c.Environment,
		"general":                    section{"workDir": c.StateDir},
		"guiServer":                  section{"enabled": false},
		"metrics":                    section{"dataplane": section{"enabled": true}, "mesh": section{"enabled": true}, "zone": section{"enabled": true}},
		"mode":                       c.Mode,
		"monitoringAssignmentServer": section{"enabled": false},
		"multizone":                  section{"zone": section{"name": c.Zone.Own()}},
		"reports":                    section{"enabled": false},
		"runtime":                    section{c.Environment: section{}},
		"sdsServer":                  section{"grpcPort": c.DataPlane.Port},
		"store":                      own["store"],
		"xdsServer":                  section{"grpcPort": c.DataPlane.Port, "diagnosticsPort": c.Diagnostics.Port},
		"meshgate":                   own,
	}
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
