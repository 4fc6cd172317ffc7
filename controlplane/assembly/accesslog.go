package assembly

import (
	"fmt"
	"math"
	"path/filepath"

	"github.com/meshgate/meshgate/controlplane/agent"
	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/xds/accesslog"
)

// million is the unit in which Envoy counts shares.
const million = 1_000_000

// accessLogSettings returns the settings of the access logs of all proxies.
func accessLogSettings(c *config.AccessLog) (accesslog.Settings, error) {
	if c.Format != "" {
		if _, err := accesslog.Parse(c.Format); err != nil {
			return accesslog.Settings{}, fault.Violated([]fault.Violation{{Path: "accessLog.format", Message: err.Error()}})
		}
	}
	return accesslog.Settings{
		Enabled: c.Enabled, Format: c.Format, Drop: million - uint32(math.Round(c.Sample*million)), Collector: c.OTLP.Endpoint,
	}, nil
}

// AccessLogFile says where and how a proxy of this process writes its access log.
func AccessLogFile(c *config.AccessLog) (agent.AccessLog, error) {
	out := agent.AccessLog{Path: c.Path, MaxSize: c.MaxSize, Keep: c.Keep}
	if c.Path == "" {
		return out, nil
	}
	var err error
	if out.Path, err = filepath.Abs(c.Path); err != nil {
		return out, fmt.Errorf("accessLog.path: %w", err)
	}
	return out, nil
}
