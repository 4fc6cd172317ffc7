package census

import "time"

// Counts count dataplanes by state. Zeros are left out, as in all documents of the mesh API.
type Counts struct {
	Total             int `json:"total,omitempty"`
	Online            int `json:"online,omitempty"`
	Offline           int `json:"offline,omitempty"`
	PartiallyDegraded int `json:"partiallyDegraded,omitempty"`
}

// Total counts resources.
type Total struct {
	Total int `json:"total"`
}

// MeshInsight counts what a mesh consists of.
type MeshInsight struct {
	Type             string    `json:"type"`
	Name             string    `json:"name"`
	CreationTime     time.Time `json:"creationTime"`
	ModificationTime time.Time `json:"modificationTime"`
	// LastSync is when the counts changed last. It equals ModificationTime; older clients read it.
	LastSync   time.Time `json:"lastSync"`
	Dataplanes Counts    `json:"dataplanes"`
	ByType     ByType    `json:"dataplanesByType"`
	// Policies and Resources count by type; types of which there are none are left out.
	Policies  map[string]Total `json:"policies"`
	Resources map[string]Total `json:"resources"`
	Versions  Versions         `json:"dpVersions"`
	MTLS      Backends         `json:"mTLS"`
	Services  Services         `json:"services"`
}

// ByType counts dataplanes by what they are. Gateway is the sum of the last two.
type ByType struct {
	Standard         Counts `json:"standard"`
	Gateway          Counts `json:"gateway"`
	GatewayBuiltin   Counts `json:"gatewayBuiltin"`
	GatewayDelegated Counts `json:"gatewayDelegated"`
}

// Versions count dataplanes by the versions that they reported last; unknown if they did not.
type Versions struct {
	Agent map[string]Counts `json:"meshDp,omitempty"`
	Proxy map[string]Counts `json:"proxy,omitempty"`
}

// Backends count dataplanes by the authority backends of their newest certificates.
type Backends struct {
	Issued    map[string]Counts `json:"issuedBackends,omitempty"`
	Supported map[string]Counts `json:"supportedBackends,omitempty"`
}

// Services count the services of dataplanes, and the ExternalServices.
type Services struct {
	Total    int `json:"total,omitempty"`
	Internal int `json:"internal,omitempty"`
	External int `json:"external,omitempty"`
}

// The states of a service.
const (
	StatusOnline    = "online"
	StatusOffline   = "offline"
	StatusDegraded  = "partially_degraded"
	StatusUncertain = "not_available" // nothing is known about services outside the mesh
)

// The types of services, by which lists can be filtered.
const (
	TypeInternal  = "internal"
	TypeBuiltin   = "gateway_builtin"
	TypeDelegated = "gateway_delegated"
	TypeExternal  = "external"
)

// ServiceInsight counts the dataplanes that serve one service.
type ServiceInsight struct {
	Type             string    `json:"type"`
	Mesh             string    `json:"mesh"`
	Name             string    `json:"name"`
	CreationTime     time.Time `json:"creationTime"`
	ModificationTime time.Time `json:"modificationTime"`
	Status           string    `json:"status"`
	// Dataplanes counts those that are partially degraded as offline.
	Dataplanes Counts         `json:"dataplanes"`
	Issued     map[string]int `json:"issuedBackends,omitempty"`
	// ServiceType is left out for [TypeInternal].
	ServiceType string `json:"serviceType,omitempty"`
	// AddressPort is where the service is: for services of the mesh, where transparent proxies
	// find it. Gateways have none.
	AddressPort string   `json:"addressPort,omitempty"`
	Zones       []string `json:"zones,omitempty"`
}

// Kind returns the type of a service, [TypeInternal] included.
func (s *ServiceInsight) Kind() string {
	if s.ServiceType == "" {
		return TypeInternal
	}
	return s.ServiceType
}

// GlobalInsights counts the resources that belong to no mesh.
type GlobalInsights struct {
	Type         string           `json:"type"`
	CreationTime time.Time        `json:"creationTime"`
	Resources    map[string]Total `json:"resources"`
}

// All counts everything, in the newer form. It shows zeros.
type All struct {
	CreatedAt  time.Time        `json:"createdAt"`
	Dataplanes AllByType        `json:"dataplanes"`
	Meshes     Total            `json:"meshes"`
	Policies   Total            `json:"policies"`
	Resources  map[string]Total `json:"resources"`
	Services   AllServices      `json:"services"`
	Zones      AllZones         `json:"zones"`
}

// Full is [Counts] with zeros.
type Full struct {
	Online            int `json:"online"`
	Offline           int `json:"offline"`
	PartiallyDegraded int `json:"partiallyDegraded"`
	Total             int `json:"total"`
}

// AllByType counts all dataplanes by what they are.
type AllByType struct {
	Standard         Full `json:"standard"`
	GatewayBuiltin   Full `json:"gatewayBuiltin"`
	GatewayDelegated Full `json:"gatewayDelegated"`
}

// AllServices counts all services by their states.
type AllServices struct {
	Internal         Full  `json:"internal"`
	GatewayBuiltin   Full  `json:"gatewayBuiltin"`
	GatewayDelegated Full  `json:"gatewayDelegated"`
	External         Total `json:"external"`
}

// AllZones counts zones and their proxies.
type AllZones struct {
	ControlPlanes Present `json:"controlPlanes"`
	ZoneIngresses Present `json:"zoneIngresses"`
	ZoneEgresses  Present `json:"zoneEgresses"`
}

// Present counts what is connected, and everything.
type Present struct {
	Online int `json:"online"`
	Total  int `json:"total"`
}

// ZoneStatus says whether a zone takes part: it is enabled, and its control plane is connected.
type ZoneStatus struct {
	Name string `json:"name"`
	// URL is always empty. Older clients expect it.
	URL    string `json:"url"`
	Active bool   `json:"active"`
}
