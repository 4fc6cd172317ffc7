package attacker_test

import (
	"net/http"
	"slices"

	. "github.com/onsi/gomega"
)

// target is a route with plugins that leads to an upstream of its own. Service,
// route, path and upstream share a name.
type target struct {
	name    string
	plugins []plugin
	// opens says which identities may arrive for the credentials of a request
	// that are good here.
	opens policy
	// global accepts tokens that are bound to no service; hides removes the
	// credential from what the upstream gets.
	global, hides bool

	// like is the target whose tokens are good here, where that is another one.
	like *target

	// methods are those of an operation of an API; nil for any.
	methods []string

	service string // the id
	arrived *upstream
}

// plugin is an instance on the service of a target; consumer is a username that
// it is bound to, or empty.
type plugin struct {
	name     string
	consumer string
	config   map[string]any
}

// oauth2 is an oauth2 plugin with further settings.
func oauth2(more map[string]any) plugin {
	config := map[string]any{"enable_client_credentials": true, "scopes": []string{"email", "phone"}}
	for k, v := range more {
		config[k] = v
	}
	return plugin{name: "oauth2", config: config}
}

// keyNames are the names under which key-auth looks for keys.
var keyNames = []string{"apikey", "x-api-key"}

// keyAuth is a key-auth plugin that looks everywhere.
func keyAuth(more map[string]any) plugin {
	config := map[string]any{"key_names": keyNames, "key_in_body": true}
	for k, v := range more {
		config[k] = v
	}
	return plugin{name: "key-auth", config: config}
}

// Settings that several plugins share.
var (
	orAnonymous = map[string]any{"anonymous": nobody}
	forbidden   = map[string]any{"status_code": 403, "message": "anonymous access is forbidden"}
)

// tokenTargets are protected by bearer tokens, or not at all.
var tokenTargets = []*target{
	{name: "open", opens: everybody},
	{name: "guarded", opens: tokens, plugins: []plugin{oauth2(nil)}},
	{name: "second", opens: tokens, plugins: []plugin{oauth2(nil)}},
	{name: "hidden", opens: tokens, hides: true, plugins: []plugin{oauth2(map[string]any{"hide_credentials": true})}},
	{name: "global", opens: tokens, global: true, plugins: []plugin{oauth2(map[string]any{"global_credentials": true})}},
	{name: "renamed", opens: tokens, plugins: []plugin{oauth2(map[string]any{"auth_header_name": "x-token"})}},
	{name: "anonymous", opens: tokensOrAnonymous, plugins: []plugin{oauth2(orAnonymous)}},
}

// keyTargets are protected by keys too, or closed.
var keyTargets = []*target{
	{name: "keys", opens: keys, plugins: []plugin{keyAuth(nil)}},
	{name: "both", opens: tokensAndKeys, plugins: []plugin{oauth2(nil), keyAuth(nil)}},
	{name: "either", opens: tokensOrKeys, plugins: []plugin{
		oauth2(orAnonymous), keyAuth(orAnonymous), {name: "request-termination", consumer: nobody, config: forbidden},
	}},
	{name: "closed", opens: none, plugins: []plugin{{name: "request-termination", config: forbidden}}},
}

// targets are attacked.
var targets = slices.Concat(tokenTargets, keyTargets)

// seed creates the target and its tokens.
func (t *target) seed() {
	t.arrived = startUpstream(t)
	s := api.Must(201, http.MethodPost, "/services", map[string]any{"name": t.name, "host": "127.0.0.1", "port": t.arrived.port()})
	t.service, _ = s.JSON()["id"].(string)
	api.Must(201, http.MethodPost, "/services/"+t.name+"/routes", map[string]any{"name": t.name, "paths": []string{"/" + t.name + "/"}, "strip_path": false})
	for _, p := range t.plugins {
		doc := map[string]any{"name": p.name, "config": p.config}
		if p.consumer != "" {
			id := api.Must(200, http.MethodGet, "/consumers/"+p.consumer, nil).JSON()["id"]
			Expect(id).NotTo(BeNil())
			doc["consumer"] = map[string]any{"id": id}
		}
		api.Must(201, http.MethodPost, "/services/"+t.name+"/plugins", doc)
	}
	t.seedTokens()
}

// has reports whether a plugin of a name protects the target.
func (t *target) has(name string) bool {
	for _, p := range t.plugins {
		if p.name == name {
			return true
		}
	}
	return false
}

// tokenHeader is the header that the target reads tokens from.
func (t *target) tokenHeader() string {
	for _, p := range t.plugins {
		if name, ok := p.config["auth_header_name"].(string); ok {
			return name
		}
	}
	return "authorization"
}

// named finds a target of the gateway.
func named(name string) *target {
	for _, t := range targets {
		if t.name == name {
			return t
		}
	}
	return nil
}
