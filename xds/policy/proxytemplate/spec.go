// Package proxytemplate is the policy for what no other policy can say: it adds resources as
// Envoy has them to a proxy, and edits those that were made for it (requirement
// "ProxyTemplate").
package proxytemplate

import (
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/policy"
)

// Spec says which proxies are edited.
type Spec struct {
	model.Labelled
	// Selectors select proxies by their tags. Without any the policy is for all proxies for
	// which no other one is.
	Selectors []mesh.Selector `json:"selectors,omitempty"`
	Conf      *Conf           `json:"conf,omitempty"`
}

// SelectedSources implements model.Selecting.
func (s *Spec) SelectedSources() []map[string]string { return nil }

// SelectedDestinations implements model.Selecting.
func (s *Spec) SelectedDestinations() []map[string]string {
	if len(s.Selectors) == 0 {
		return []map[string]string{{}}
	}
	out := make([]map[string]string, len(s.Selectors))
	for i := range s.Selectors {
		out[i] = s.Selectors[i].Match
	}
	return out
}

// Conf is what a proxy gets: what the profiles make, then Resources, then Modifications of
// all of them, one after the other.
type Conf struct {
	Imports       []string       `json:"imports,omitempty"`
	Resources     []Resource     `json:"resources,omitempty"`
	Modifications []Modification `json:"modifications,omitempty"`
}

// Resource is a resource as Envoy has it, in YAML or JSON with its @type. Envoy sees the name
// in the text; Name and Version are for readers.
type Resource struct {
	Name     string `json:"name,omitempty"`
	Version  string `json:"version,omitempty"`
	Resource string `json:"resource,omitempty"`
}

// Modification has exactly one member.
type Modification struct {
	Cluster       *Change `json:"cluster,omitempty"`
	Listener      *Change `json:"listener,omitempty"`
	NetworkFilter *Change `json:"networkFilter,omitempty"`
	HTTPFilter    *Change `json:"httpFilter,omitempty"`
	VirtualHost   *Change `json:"virtualHost,omitempty"`
}

// Change is an operation on everything of its sort that matches. Value is what is added, or
// laid over what is patched, as Envoy has it in YAML or JSON.
type Change struct {
	Operation string `json:"operation,omitempty"`
	Match     *Match `json:"match,omitempty"`
	Value     string `json:"value,omitempty"`
}

// Match matches what has all that it names. Origin says what a resource is for: inbound,
// outbound, transparent, contributed (by another policy) or proxy-template-raw.
type Match struct {
	Origin string `json:"origin,omitempty"`
	Name   string `json:"name,omitempty"`
	// Tags are those of a listener, for listeners; ListenerName and ListenerTags are for
	// filters, RouteConfigurationName is for virtual hosts.
	Tags                   mesh.Tags `json:"tags,omitempty"`
	ListenerName           string    `json:"listenerName,omitempty"`
	ListenerTags           mesh.Tags `json:"listenerTags,omitempty"`
	RouteConfigurationName string    `json:"routeConfigurationName,omitempty"`
}

// Kind describes the resources.
var Kind = model.Describe(Spec{}, model.Kind{
	Name: "proxy_template", Path: "proxytemplates", Scoping: model.Mesh, Class: model.Config,
	Document: &model.Document{
		Type: "ProxyTemplate", Singular: "Proxy Template", Plural: "Proxy Templates",
		Policy: true, Proxy: true,
		Default:  func(any) {},
		Validate: validate,
	},
})

// Policy edits what is finished. One policy is chosen for each proxy.
var Policy = &policy.Policy{
	Kind: Kind, Phase: policy.Settings, Attachment: policy.ByProxy, Refuses: policy.RefusesAnybody,
	Edits:   policy.Edits{Patch: patch, Add: add},
	Explain: explain,
}
