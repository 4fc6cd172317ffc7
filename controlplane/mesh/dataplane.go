package mesh

import (
	"cmp"

	"github.com/meshgate/meshgate/controlplane/model"
)

// Dataplane is the spec of a proxy beside a workload (requirement "Dataplane").
type Dataplane struct {
	model.Labelled
	Networking *Networking     `json:"networking,omitempty"`
	Metrics    *MetricsBackend `json:"metrics,omitempty"`
	Probes     *Probes         `json:"probes,omitempty"`
}

// Networking says where a proxy listens and which services it uses.
type Networking struct {
	// Address is the IP address or name of the proxy for other proxies, unless
	// AdvertisedAddress is set.
	Address             string               `json:"address,omitempty"`
	AdvertisedAddress   string               `json:"advertisedAddress,omitempty"`
	Gateway             *Gateway             `json:"gateway,omitempty"`
	Inbound             []Inbound            `json:"inbound,omitempty"`
	Outbound            []Outbound           `json:"outbound,omitempty"`
	TransparentProxying *TransparentProxying `json:"transparentProxying,omitempty"`
	Admin               *Admin               `json:"admin,omitempty"`
}

// The types of gateways.
const (
	GatewayDelegated = "DELEGATED"
	GatewayBuiltin   = "BUILTIN"
)

// Gateway makes a proxy a gateway. An empty Type means DELEGATED.
type Gateway struct {
	Type string `json:"type,omitempty" jsonschema:"enum=DELEGATED,enum=BUILTIN"`
	Tags Tags   `json:"tags,omitempty"`
}

// The states of an inbound. Ready is the default and not shown.
const (
	StateReady    = "Ready"
	StateNotReady = "NotReady"
	StateIgnored  = "Ignored"
)

// Inbound is one port that a workload serves through its proxy.
type Inbound struct {
	Port uint32 `json:"port,omitempty"`
	// ServicePort and ServiceAddress are the address of the workload. The default is the same
	// port on 127.0.0.1.
	ServicePort    uint32  `json:"servicePort,omitempty"`
	ServiceAddress string  `json:"serviceAddress,omitempty"`
	Address        string  `json:"address,omitempty"`
	Tags           Tags    `json:"tags,omitempty"`
	Health         *Health `json:"health,omitempty"`
	// ServiceProbe, unless nil, decides State and Health once the inbound is there.
	ServiceProbe *ServiceProbe `json:"serviceProbe,omitempty"`
	State        string        `json:"state,omitempty" jsonschema:"enum=Ready,enum=NotReady,enum=Ignored"`
	Name         string        `json:"name,omitempty"`
}

// Health says whether the workload is ready.
type Health struct {
	Ready bool `json:"ready,omitempty"`
}

// Outbound is a service that a workload reaches through a local port.
type Outbound struct {
	// Address is 127.0.0.1 if empty.
	Address string `json:"address,omitempty"`
	Port    uint32 `json:"port,omitempty"`
	// Service is the older form of Tags with only the service tag.
	Service string `json:"service,omitempty"`
	Tags    Tags   `json:"tags,omitempty"`
	// BackendRef is always refused.
	BackendRef *BackendRef `json:"backendRef,omitempty"`
}

// BackendRef names a target by its resource.
type BackendRef struct {
	Kind   string            `json:"kind,omitempty"`
	Name   string            `json:"name,omitempty"`
	Port   *uint32           `json:"port,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
}

// These are values of TransparentProxying.IPFamilyMode with which connections of IPv6 are taken.
// Those of IPv4 are taken in any case: names of the mesh have addresses of IPv4.
const (
	IPFamilyDual = "DualStack"
	IPFamilyIPv6 = "IPv6"
)

// TransparentProxying is set if the operating system redirects traffic.
type TransparentProxying struct {
	RedirectPortInbound  uint32 `json:"redirectPortInbound,omitempty"`
	RedirectPortOutbound uint32 `json:"redirectPortOutbound,omitempty"`
	// DirectAccessServices are the services whose instances workloads call by their own
	// addresses; [AnyValue] is all.
	DirectAccessServices []string `json:"directAccessServices,omitempty"`
	ReachableServices    []string `json:"reachableServices,omitempty"`
	IPFamilyMode         string   `json:"ipFamilyMode,omitempty" jsonschema:"enum=UnSpecified,enum=DualStack,enum=IPv4,enum=IPv6"`
	// ReachableBackends is always refused.
	ReachableBackends *struct {
		Refs []BackendRef `json:"refs,omitempty"`
	} `json:"reachableBackends,omitempty"`
}

// Admin is the proxy's administration interface.
type Admin struct {
	Port uint32 `json:"port,omitempty"`
}

// EffectiveTags returns the tags of an outbound in either form.
func (o *Outbound) EffectiveTags() Tags {
	if o.Service != "" && len(o.Tags) == 0 {
		return Tags{TagService: o.Service}
	}
	return o.Tags
}

// TagSets returns the tag sets of a proxy: one for each inbound, or that of the gateway. A
// source selector matches a proxy if it matches one of them.
func (d *Dataplane) TagSets() []Tags {
	if d.Networking == nil {
		return nil
	}
	var out []Tags
	if g := d.Networking.Gateway; g != nil {
		out = append(out, g.Tags)
	}
	for i := range d.Networking.Inbound {
		out = append(out, d.Networking.Inbound[i].Tags)
	}
	return out
}

// GatewayType returns the type of the gateway, or an empty text if the dataplane is none.
func (d *Dataplane) GatewayType() string {
	if d.Networking == nil || d.Networking.Gateway == nil {
		return ""
	}
	return cmp.Or(d.Networking.Gateway.Type, GatewayDelegated)
}

// Secret is a mesh-scoped or global secret. It is encrypted at rest.
type Secret struct {
	model.Labelled
	Data []byte `json:"data,omitempty"`
}
