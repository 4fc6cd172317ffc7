// Package proxytemplate is the policy that changes the finished Envoy configuration of proxies
// and adds clusters and listeners to it, where no other policy will do (requirement
// "ProxyTemplate").
//
// A template cannot take away what the mesh protects: every field and every extension that it
// may set is in a list (fields.go), and what refuses callers is neither patched nor removed.
package proxytemplate

import (
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/policy"
)

// Spec says which proxies are changed, and how. Without selectors these are all proxies.
type Spec struct {
	model.Labelled
	Selectors []mesh.Selector `json:"selectors,omitempty"`
	Conf      *Conf           `json:"conf,omitempty"`
}

// Conf is what becomes of a proxy: what the mesh makes for it if Imports has the profile of the
// proxy, the Resources, and then all Modifications in their order.
type Conf struct {
	// Imports are names of profiles. Without one the proxy has nothing but Resources.
	Imports       []string       `json:"imports,omitempty"`
	Resources     []Resource     `json:"resources,omitempty"`
	Modifications []Modification `json:"modifications,omitempty"`
}

// Resource is a cluster or a listener.
type Resource struct {
	// Name is for people; the resource has its own name. Version has no effect: that of a
	// resource follows from its content.
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
	// Resource is YAML or JSON with an "@type".
	Resource string `json:"resource,omitempty"`
}

// Modification is one change. Exactly one field is set.
type Modification struct {
	Cluster       *Change `json:"cluster,omitempty"`
	Listener      *Change `json:"listener,omitempty"`
	NetworkFilter *Change `json:"networkFilter,omitempty"`
	HTTPFilter    *Change `json:"httpFilter,omitempty"`
	VirtualHost   *Change `json:"virtualHost,omitempty"`
}

// Change is an operation on what matches. Value is YAML or JSON of the message, without "@type".
type Change struct {
	Operation string `json:"operation,omitempty"`
	Match     *Match `json:"match,omitempty"`
	Value     string `json:"value,omitempty"`
}

// Match selects what is changed. What is absent matches everything.
type Match struct {
	// Name is that of the cluster, the listener, the filter or the virtual host.
	Name string `json:"name,omitempty"`
	// Origin says what the resource is for (draft.Finished.Origin).
	Origin string `json:"origin,omitempty"`
	// Tags are those of a listener, ListenerName and ListenerTags those of the listener of a
	// filter.
	Tags         map[string]string `json:"tags,omitempty"`
	ListenerName string            `json:"listenerName,omitempty"`
	ListenerTags map[string]string `json:"listenerTags,omitempty"`
	// RouteConfigurationName is that of the route table of a virtual host.
	RouteConfigurationName string `json:"routeConfigurationName,omitempty"`
}

// SelectedSources implements model.Selecting: there are none.
func (s *Spec) SelectedSources() []map[string]string { return nil }

// SelectedDestinations implements model.Selecting: the proxies that are changed.
func (s *Spec) SelectedDestinations() []map[string]string {
	if len(s.Selectors) == 0 {
		return []map[string]string{{}}
	}
	return mesh.Matched(s.Selectors)
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

// Policy changes whole proxies after all other policies.
var Policy = &policy.Policy{
	Kind: Kind, Phase: policy.Settings, Attachment: policy.ByProxy, Refuses: policy.RefusesNobody,
	Edits:   policy.Edits{Patch: patch, Add: add},
	Explain: explain,
}
