package config

import (
	"net/url"
	"strconv"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// Tracing says where gateways send their spans; without an endpoint, they send none. Sample
// is a share from 0 to 1.
type Tracing struct {
	OTLP   OTLP    `koanf:"otlp"`
	Sample float64 `koanf:"sample"`
}

// Collector is the server in a URL.
type Collector struct {
	// Host is empty if there is no collector.
	Host string
	Port uint32
	TLS  bool
	Path string
}

// Collector parses the endpoint.
func (t *Tracing) Collector() (c Collector, err error) {
	if t.OTLP.Endpoint == "" {
		return c, nil
	}
	u, err := url.Parse(t.OTLP.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return c, fault.New(fault.Invalid, "must be a URL such as http://collector:4318, without credentials and query")
	}
	c = Collector{Host: u.Hostname(), Port: 80, TLS: u.Scheme == "https", Path: u.EscapedPath()}
	if c.TLS {
		c.Port = 443
	}
	if c.Path == "" || c.Path == "/" {
		c.Path = "/v1/traces"
	}
	if text := u.Port(); text != "" {
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil || port == 0 {
			return Collector{}, fault.New(fault.Invalid, "must name a port from 1 to 65535")
		}
		c.Port = uint32(port)
	}
	return c, nil
}

func (t *Tracing) check() (vs []fault.Violation) {
	if _, err := t.Collector(); err != nil {
		vs = append(vs, fault.Violation{Path: "tracing.otlp.endpoint", Message: err.Error()})
	}
	if !(t.Sample >= 0 && t.Sample <= 1) {
		vs = append(vs, fault.Violation{Path: "tracing.sample", Message: "must be between 0 and 1"})
	}
	return vs
}
