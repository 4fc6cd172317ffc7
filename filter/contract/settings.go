package contract

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Settings tell a filter where its authorities are. They live in a file of the
// run directory (mode 0600, re-read when it changes) or, in static
// configurations, inline in the filter's configuration. They never travel in
// xDS. Files named here are re-read when they change.
type Settings struct {
	// Redis is the second level of the cache; nil means there is none, unless
	// the control plane names one on the link ([Level2]).
	Redis *RedisSettings `json:"redis,omitempty"`
	// RecordKeys verify the records in Redis; the control plane names those of
	// its own on the link. Records that none of them has signed count as absent.
	// Without a control plane and without keys whoever writes Redis is believed.
	RecordKeys []RecordKey `json:"record_keys,omitempty"`
	// Scopes are the control planes whose records a static configuration uses; none means
	// those of an authority that names none. Elsewhere the control plane says it.
	Scopes []string `json:"scopes,omitempty"`
	// ControlPlane is the authority; nil in a static configuration, where Redis
	// is the only source and every request asks it.
	ControlPlane *ControlPlaneSettings `json:"control_plane,omitempty"`
	// Cache sizes the first level.
	Cache CacheSettings `json:"cache"`
}

// RedisSettings say how to reach Redis.
type RedisSettings struct {
	// URL is redis://, rediss:// or unix://, with user, password and database, or
	// names sentinels or a cluster (package redisconn).
	URL string `json:"url"`
	// CAFile is a PEM bundle that signs a rediss:// server; empty means the
	// system's roots.
	CAFile string `json:"ca_file,omitempty"`
	// CA is such a bundle itself; at most one of the two is set.
	CA string `json:"ca,omitempty"`
}

// Level2 is what the control plane tells a filter about the second level of its
// cache, on the link, once it has seen that the node checks tokens, and again
// when it changes. Filters keep it in a file of the run directory (mode 0600).
type Level2 struct {
	// Redis is nil if the node gets none.
	Redis *RedisSettings `json:"redis,omitempty"`
	// Keys are those that sign now, did before, or will soon.
	Keys []RecordKey `json:"keys,omitempty"`
}

// Check says whether a message can be used. One that names a file cannot: which files of
// the machine are read, only its own settings say.
func (l *Level2) Check() error {
	if l.Redis != nil && l.Redis.CAFile != "" {
		return errors.New("redis.ca_file is of another machine")
	}
	if err := l.Redis.check(); err != nil {
		return err
	}
	return checkRecordKeys(l.Keys)
}

func (r *RedisSettings) check() error {
	if r != nil && r.URL == "" {
		return errors.New("redis.url is missing")
	}
	if r != nil && r.CAFile != "" && r.CA != "" {
		return errors.New("redis has both ca and ca_file")
	}
	return nil
}

// ControlPlaneSettings say how to reach the data-plane server.
type ControlPlaneSettings struct {
	// Address is host:port of the data-plane server; TLS is always used.
	Address string `json:"address"`
	// CAFile is the PEM bundle the server's certificate is pinned to.
	CAFile string `json:"ca_file"`
	// TokenFile holds the node token.
	TokenFile string `json:"token_file"`
	// Node is the node id that the token was issued for.
	Node string `json:"node"`
}

// CacheSettings size the first level. Zero values mean the defaults.
type CacheSettings struct {
	// MaxBytes bounds the memory of the first level; default 256 MiB.
	MaxBytes int64 `json:"max_bytes,omitempty"`
	// NegativeTTL is how long an unknown token is remembered as unknown, in
	// milliseconds; default 2000, at most 5000.
	NegativeTTL int64 `json:"negative_ttl_ms,omitempty"`
	// Grace lets the first level answer for that many milliseconds after the
	// lease has ended and nobody else could be asked. It weakens revocation by
	// as much; default 0.
	Grace int64 `json:"grace_ms,omitempty"`
}

// Defaults of [CacheSettings].
const (
	DefaultCacheBytes  = 256 << 20
	DefaultNegativeTTL = 2 * time.Second
	MaxNegativeTTL     = 5 * time.Second
)

// ParseSettings decodes and checks settings.
func ParseSettings(data []byte) (*Settings, error) {
	var s Settings
	if err := decodeStrict(data, &s); err != nil {
		return nil, fmt.Errorf("decode settings: %w", err)
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	return &s, nil
}

func (s *Settings) check() error {
	if s.Redis == nil && s.ControlPlane == nil {
		return errors.New("settings name neither redis nor control_plane")
	}
	if err := s.Redis.check(); err != nil {
		return err
	}
	if err := checkRecordKeys(s.RecordKeys); err != nil {
		return err
	}
	if err := (&Scopes{Members: s.Scopes}).Check(); err != nil {
		return fmt.Errorf("scopes: %w", err)
	}
	if s.ControlPlane != nil && len(s.Scopes) > 0 {
		return errors.New("scopes are said by the control plane where there is one")
	}
	if cp := s.ControlPlane; cp != nil && (cp.Address == "" || cp.CAFile == "" || cp.TokenFile == "" || cp.Node == "") {
		return errors.New("control_plane needs address, ca_file, token_file and node")
	}
	if c := s.Cache; c.MaxBytes < 0 || c.NegativeTTL < 0 || c.Grace < 0 || c.NegativeTTL > MaxNegativeTTL.Milliseconds() {
		return fmt.Errorf("cache: values must not be negative, and negative_ttl_ms at most %d", MaxNegativeTTL.Milliseconds())
	}
	return nil
}

// FilterConfig is the filter's listener-level configuration.
type FilterConfig struct {
	// Settings inlines the settings; without them they are read from the file
	// that [SettingsEnv] names. Where that names one they are refused.
	Settings *Settings `json:"settings,omitempty"`
	// ListenerStrips says that the listener removes identity headers before
	// routing, so that the filter need not look for them again.
	ListenerStrips bool `json:"listener_strips,omitempty"`
	// Forwarding says whether the filter writes the headers that tell upstreams where a
	// request comes from. It needs a listener that uses the address of the peer and believes
	// no client to be internal, and a filter before which no other one changes headers.
	Forwarding Forwarding `json:"forwarding,omitempty"`
	// Marked says that each route says whether it has a chain. The requests of one that says
	// nothing are refused. It is implied where the filter writes [FilterConfig.Forwarding].
	Marked bool `json:"marked,omitempty"`
}

// Forwarding is who says where requests come from.
type Forwarding string

const (
	// ForwardingNone leaves these headers to the listener and its routes.
	ForwardingNone Forwarding = ""
	// ForwardingPeer has the filter write what the gateway sees, in the place of all that
	// the client says.
	ForwardingPeer Forwarding = "peer"
	// ForwardingTrusted has the filter complete what a client says whom the listener trusts.
	ForwardingTrusted Forwarding = "trusted"
)

// Forwardings lists them.
var Forwardings = [...]Forwarding{ForwardingNone, ForwardingPeer, ForwardingTrusted}

// Demands reports whether the requests of a route that does not say whether it has a chain are
// refused.
func (c *FilterConfig) Demands() bool { return c.Marked || c.Forwarding != ForwardingNone }

// ParseFilterConfig decodes a listener-level configuration; empty input is the
// zero value.
func ParseFilterConfig(data []byte) (*FilterConfig, error) {
	var c FilterConfig
	if len(data) == 0 {
		return &c, nil
	}
	if err := decodeStrict(data, &c); err != nil {
		return nil, fmt.Errorf("decode filter configuration: %w", err)
	}
	if c.Settings != nil {
		if err := c.Settings.check(); err != nil {
			return nil, fmt.Errorf("settings: %w", err)
		}
	}
	if !slices.Contains(Forwardings[:], c.Forwarding) {
		return nil, fmt.Errorf("forwarding is %q", c.Forwarding)
	}
	if c.ListenerStrips && c.Forwarding != ForwardingNone {
		return nil, errors.New("forwarding and listener_strips exclude each other")
	}
	return &c, nil
}
