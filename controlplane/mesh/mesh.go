package mesh

import "github.com/meshgate/meshgate/controlplane/model"

// Mesh is the spec of a mesh (requirement "Mesh").
type Mesh struct {
	model.Labelled
	MTLS                        *MTLS        `json:"mtls,omitempty"`
	Tracing                     *Tracing     `json:"tracing,omitempty"`
	Logging                     *Logging     `json:"logging,omitempty"`
	Metrics                     *Metrics     `json:"metrics,omitempty"`
	Networking                  *Outbounds   `json:"networking,omitempty"`
	Routing                     *Routing     `json:"routing,omitempty"`
	Constraints                 *Constraints `json:"constraints,omitempty"`
	SkipCreatingInitialPolicies []string     `json:"skipCreatingInitialPolicies,omitempty"`
	MeshServices                *Services    `json:"meshServices,omitempty"`
}

// MTLS says how proxies of a mesh authenticate each other.
type MTLS struct {
	// EnabledBackend is empty while mutual TLS is off.
	EnabledBackend string      `json:"enabledBackend,omitempty"`
	Backends       []Authority `json:"backends,omitempty"`
	SkipValidation bool        `json:"skipValidation,omitempty"`
}

// The kinds of authorities, and the modes of a mesh.
const (
	AuthorityBuiltin  = "builtin"
	AuthorityProvided = "provided"
	ModeStrict        = "STRICT"
	ModePermissive    = "PERMISSIVE"
)

// Authority is a backend of mutual TLS.
type Authority struct {
	Name string `json:"name,omitempty"`
	Type string `json:"type,omitempty"`
	// Mode is STRICT if it is empty.
	Mode      string         `json:"mode,omitempty" jsonschema:"enum=STRICT,enum=PERMISSIVE"`
	DPCert    *DPCert        `json:"dpCert,omitempty"`
	Conf      *AuthorityConf `json:"conf,omitempty"`
	RootChain *RootChain     `json:"rootChain,omitempty"`
}

// DPCert says how the certificates of proxies are made.
type DPCert struct {
	Rotation *Rotation `json:"rotation,omitempty"`
	// RequestTimeout has no effect.
	RequestTimeout *Duration `json:"requestTimeout,omitempty"`
}

// Rotation holds the lifetime of certificates of proxies.
type Rotation struct {
	// Expiration is a number with one of the units y w d h m s ms; empty means 24h.
	Expiration string `json:"expiration,omitempty"`
}

// AuthorityConf has CACert for builtin authorities, Cert and Key for provided ones.
type AuthorityConf struct {
	CACert *CACert     `json:"caCert,omitempty"`
	Cert   *DataSource `json:"cert,omitempty"`
	Key    *DataSource `json:"key,omitempty"`
}

// CACert says how a builtin root is made.
type CACert struct {
	RSABits    *uint32 `json:"RSAbits,omitempty"`
	Expiration string  `json:"expiration,omitempty"`
}

// RootChain holds the timeout for fetching roots, which nobody fetches.
type RootChain struct {
	// RequestTimeout has no effect.
	RequestTimeout *Duration `json:"requestTimeout,omitempty"`
}

// DataSource is content that is given directly or by a reference; one of the fields is set.
type DataSource struct {
	Secret       string  `json:"secret,omitempty"`
	File         string  `json:"file,omitempty"`
	Inline       []byte  `json:"inline,omitempty"`
	InlineString *string `json:"inlineString,omitempty"`
}

// Tracing lists the collectors of a mesh.
type Tracing struct {
	DefaultBackend string           `json:"defaultBackend,omitempty"`
	Backends       []TracingBackend `json:"backends,omitempty"`
}

// TracingBackend is one collector.
type TracingBackend struct {
	Name     string         `json:"name,omitempty"`
	Sampling *float64       `json:"sampling,omitempty"`
	Type     string         `json:"type,omitempty"`
	Conf     map[string]any `json:"conf,omitzero"`
}

// Logging lists the log destinations of a mesh.
type Logging struct {
	DefaultBackend string           `json:"defaultBackend,omitempty"`
	Backends       []LoggingBackend `json:"backends,omitempty"`
}

// LoggingBackend is one destination of access logs.
type LoggingBackend struct {
	Name   string         `json:"name,omitempty"`
	Format string         `json:"format,omitempty"`
	Type   string         `json:"type,omitempty"`
	Conf   map[string]any `json:"conf,omitzero"`
}

// Metrics lists the ways in which metrics are scraped.
type Metrics struct {
	EnabledBackend string           `json:"enabledBackend,omitempty"`
	Backends       []MetricsBackend `json:"backends,omitempty"`
}

// MetricsBackend is one way of scraping metrics.
type MetricsBackend struct {
	Name string         `json:"name,omitempty"`
	Type string         `json:"type,omitempty"`
	Conf map[string]any `json:"conf,omitzero"`
}

// Outbounds says which traffic may leave a mesh.
type Outbounds struct {
	Outbound *struct {
		Passthrough *bool `json:"passthrough,omitempty"`
	} `json:"outbound,omitempty"`
}

// Routing has the switches for traffic.
type Routing struct {
	LocalityAwareLoadBalancing bool `json:"localityAwareLoadBalancing,omitempty"`
	ZoneEgress                 bool `json:"zoneEgress,omitempty"`
	// DefaultForbidMeshExternalServiceAccess is refused if it is set.
	DefaultForbidMeshExternalServiceAccess bool `json:"defaultForbidMeshExternalServiceAccess,omitempty"`
}

// Constraints say which proxies may be members.
type Constraints struct {
	DataplaneProxy *Membership `json:"dataplaneProxy,omitempty"`
}

// Membership has tag sets. Each inbound must match one of Requirements, and none of
// Restrictions.
type Membership struct {
	Requirements []TagRule `json:"requirements,omitempty"`
	Restrictions []TagRule `json:"restrictions,omitempty"`
}

// TagRule is one tag set of a Membership.
type TagRule struct {
	Tags Tags `json:"tags,omitempty"`
}

// Services says how services of a mesh are made.
type Services struct {
	// Mode is refused if it is another one than Disabled.
	Mode string `json:"mode,omitempty" jsonschema:"enum=Disabled,enum=Everywhere,enum=ReachableBackends,enum=Exclusive"`
}

// Authority returns the enabled backend, or nil while mutual TLS is off.
func (m *Mesh) Authority() *Authority {
	if m.MTLS == nil || m.MTLS.EnabledBackend == "" {
		return nil
	}
	for i := range m.MTLS.Backends {
		if m.MTLS.Backends[i].Name == m.MTLS.EnabledBackend {
			return &m.MTLS.Backends[i]
		}
	}
	return nil
}

// LeavesByEgress reports whether services outside the mesh are called through the egresses of a
// zone. Without mutual TLS no egress could tell who calls.
func (m *Mesh) LeavesByEgress() bool {
	return m.Routing != nil && m.Routing.ZoneEgress && m.Authority() != nil
}

// SecretNames are the secrets of the mesh that its authorities consist of, whether or not they are
// enabled.
func (m *Mesh) SecretNames() (names []string) {
	m.eachSource(func(_ string, d *DataSource) {
		if d.Secret != "" {
			names = append(names, d.Secret)
		}
	})
	return names
}

// FileMembers are the members that name files, which the control plane reads.
func (m *Mesh) FileMembers() (paths []string) {
	m.eachSource(func(path string, d *DataSource) {
		if d.File != "" {
			paths = append(paths, path+".file")
		}
	})
	return paths
}

// eachSource calls with each data source and its path.
func (m *Mesh) eachSource(with func(path string, d *DataSource)) {
	if m.MTLS == nil {
		return
	}
	for i := range m.MTLS.Backends {
		c := m.MTLS.Backends[i].Conf
		if c == nil {
			continue
		}
		path := indexed("mtls.backends", i) + ".conf"
		if c.Cert != nil {
			with(path+".cert", c.Cert)
		}
		if c.Key != nil {
			with(path+".key", c.Key)
		}
	}
}
