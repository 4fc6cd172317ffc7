package insight

import "time"

// ZoneInsight is what is known about a zone by the connections of its control plane, in the form
// of the mesh API (requirement "ZoneOverview").
type ZoneInsight struct {
	// Subscriptions are the connections, oldest first.
	Subscriptions []ZoneSubscription `json:"subscriptions,omitempty"`
}

// ZoneSubscription is one connection of the control plane of a zone to that which answers.
type ZoneSubscription struct {
	ID string `json:"id"`
	// GlobalInstanceID names the process that answers, and ZoneInstanceID that of the zone.
	GlobalInstanceID string    `json:"globalInstanceId"`
	ZoneInstanceID   string    `json:"zoneInstanceId,omitempty"`
	ConnectTime      time.Time `json:"connectTime"`
	// DisconnectTime is nil while the connection is open.
	DisconnectTime *time.Time   `json:"disconnectTime,omitempty"`
	Status         ZoneStatus   `json:"status"`
	Version        ZoneVersions `json:"version"`
	// Config is the configuration of the zone's control plane as JSON text, without secrets.
	Config string `json:"config,omitempty"`
	// AuthTokenProvided says that the control plane of the zone came with a token.
	AuthTokenProvided bool `json:"authTokenProvided,omitempty"`
}

// ZoneStatus counts what was synchronised, by type.
type ZoneStatus struct {
	LastUpdateTime *time.Time          `json:"lastUpdateTime,omitempty"`
	Total          Counters            `json:"total"`
	Stat           map[string]Counters `json:"stat,omitempty"`
}

// ZoneVersions are the parts of a zone.
type ZoneVersions struct {
	MeshCP ZoneVersion `json:"meshCp"`
}

// ZoneVersion is the version of the control plane of a zone.
type ZoneVersion struct {
	Version          string `json:"version"`
	GitTag           string `json:"gitTag"`
	GitCommit        string `json:"gitCommit"`
	BuildDate        string `json:"buildDate"`
	GlobalCompatible bool   `json:"meshCpGlobalCompatible"`
}

// Updated returns when the newest connection changed.
func (in *ZoneInsight) Updated() (at time.Time) {
	for i := range in.Subscriptions {
		s := &in.Subscriptions[i]
		at = latest(at, &s.ConnectTime, s.DisconnectTime, s.Status.LastUpdateTime)
	}
	return at
}

// Updated returns when the newest of a proxy's streams and identities changed.
func (in *DataplaneInsight) Updated() (at time.Time) {
	for i := range in.Subscriptions {
		s := &in.Subscriptions[i]
		at = latest(at, &s.ConnectTime, s.DisconnectTime, s.Status.LastUpdateTime)
	}
	if in.MTLS != nil {
		at = latest(at, &in.MTLS.LastCertificateRegeneration)
	}
	return at
}

func latest(at time.Time, others ...*time.Time) time.Time {
	for _, t := range others {
		if t != nil && t.After(at) {
			at = *t
		}
	}
	return at
}
