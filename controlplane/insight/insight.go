package insight

import (
	"maps"
	"slices"
	"time"
)

// DataplaneInsight is what is known about one proxy, in the form of the mesh API
// (requirement "DataplaneOverview").
type DataplaneInsight struct {
	// Subscriptions are the streams of the proxy, oldest first, at most two. At
	// most one is open.
	Subscriptions []Subscription `json:"subscriptions,omitempty"`
	// MTLS is nil until an identity was issued.
	MTLS *MTLS `json:"mTLS,omitempty"`
}

// Subscription is one xDS stream.
type Subscription struct {
	// ID is a random UUID.
	ID string `json:"id"`
	// ControlPlaneInstanceID names the process that served the stream.
	ControlPlaneInstanceID string    `json:"controlPlaneInstanceId"`
	ConnectTime            time.Time `json:"connectTime"`
	// DisconnectTime is nil while the stream is open.
	DisconnectTime *time.Time      `json:"disconnectTime,omitempty"`
	Status         StreamStatus    `json:"status"`
	Version        *Versions       `json:"version,omitempty"`
	Rejected       map[string]Nack `json:"rejected,omitempty"`
	// Generation counts how often the subscription was written.
	Generation uint32 `json:"generation,omitempty"`
}

// StreamStatus counts the responses of a stream. Responses with secrets count only in Total.
type StreamStatus struct {
	LastUpdateTime *time.Time `json:"lastUpdateTime,omitempty"`
	Total          Counters   `json:"total"`
	CDS            Counters   `json:"cds"`
	EDS            Counters   `json:"eds"`
	LDS            Counters   `json:"lds"`
	RDS            Counters   `json:"rds"`
}

// Counters count responses. The API shows 64-bit numbers as strings and omits zeros.
type Counters struct {
	Sent         uint64 `json:"responsesSent,omitempty,string"`
	Acknowledged uint64 `json:"responsesAcknowledged,omitempty,string"`
	Rejected     uint64 `json:"responsesRejected,omitempty,string"`
}

// Nack is the newest refusal of a type.
type Nack struct {
	Time time.Time `json:"time"`
	// Error is the proxy's text, cut to [maxError] bytes, or a constant for secrets.
	Error string `json:"error"`
}

// Versions are the parts of a proxy, as it reports them.
type Versions struct {
	MeshDP       AgentVersion      `json:"meshDp"`
	Proxy        ProxyVersion      `json:"proxy"`
	Dependencies map[string]string `json:"dependencies,omitempty"`
}

// AgentVersion is the version of the process that runs the proxy.
type AgentVersion struct {
	Version          string `json:"version"`
	GitTag           string `json:"gitTag"`
	GitCommit        string `json:"gitCommit"`
	BuildDate        string `json:"buildDate"`
	MeshCPCompatible bool   `json:"meshCpCompatible"`
}

// ProxyVersion is the version of the proxy itself.
type ProxyVersion struct {
	Version          string `json:"version"`
	Build            string `json:"build"`
	MeshDPCompatible bool   `json:"meshDpCompatible"`
}

// MTLS is what is known about the identities of a proxy.
type MTLS struct {
	CertificateExpirationTime   time.Time `json:"certificateExpirationTime"`
	LastCertificateRegeneration time.Time `json:"lastCertificateRegeneration"`
	CertificateRegenerations    uint32    `json:"certificateRegenerations"`
	// IssuedBackend is the authority backend that signed the newest identity.
	IssuedBackend string `json:"issuedBackend"`
	// SupportedBackends are the backends of the mesh at that time.
	SupportedBackends []string `json:"supportedBackends,omitempty"`
}

// Online reports whether a stream of the proxy is open. A nil insight belongs to a proxy
// that was never seen.
func (in *DataplaneInsight) Online() bool {
	return in != nil && slices.ContainsFunc(in.Subscriptions, func(s Subscription) bool { return s.DisconnectTime == nil })
}

// Last returns the newest subscription, or nil if there is none.
func (in *DataplaneInsight) Last() *Subscription {
	if in == nil || len(in.Subscriptions) == 0 {
		return nil
	}
	return &in.Subscriptions[len(in.Subscriptions)-1]
}

// clone copies what is changed in place.
func (s *Subscription) clone() Subscription {
	out := *s
	out.Rejected = maps.Clone(s.Rejected)
	return out
}
