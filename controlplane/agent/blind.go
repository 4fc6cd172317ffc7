package agent

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/net/http2"

	"github.com/meshgate/meshgate/filter/contract"
)

// Reasons why a gateway is not ready that could only answer 503 to every token.
const (
	statusBlind      = "no token can be decided: the control plane has been away since the start, and nothing on disk says what to believe in Redis. Start the control plane"
	statusBlindRedis = "no token can be decided: the control plane has been away since the start, and the Redis that stands in for it cannot be read (the embedded one ends with the control plane). Start the control plane"
	// statusService is completed with an error.
	statusService = "no request can be decided: the authorization service of filter.authz does not answer (%v). Start it as the user of this gateway"
)

// blind returns why a gateway can decide no token, or "". This is so if the agent has not
// reached the control plane since its start, and its last filter left nothing to believe or
// the Redis to believe is gone. A load balancer that sent requests to such a gateway would
// have every token refused. A gateway that has reached the control plane once stays ready
// when the control plane goes away, because it still serves requests that need no token.
// Sidecars are never blind, because they may have no filter. A gateway that asks a service of
// somebody else is blind while that does not answer: it then refuses every request that has a
// chain. What the service knows is no concern of the agent.
func (a *Agent) blind(ctx context.Context) string {
	switch {
	case a.AuthzAddress != "":
		return unanswered(ctx, a.AuthzAddress, a.askTime())
	case a.Sidecar != nil || a.reached.Load():
		return ""
	case !believes(filepath.Join(a.dir.path, contract.TrustFile), a.dir.controlPlane(), time.Now()):
		return statusBlind
	case !a.standsIn(ctx):
		return statusBlindRedis
	}
	return ""
}

// unanswered returns why the authorization service at a path is of no use, or "". It opens a
// connection as Envoy does, and wants the settings of the service in time.
func unanswered(ctx context.Context, socket string, within time.Duration) string {
	c, err := (&net.Dialer{Timeout: within}).DialContext(ctx, "unix", socket)
	if err != nil {
		return fmt.Sprintf(statusService, err)
	}
	defer func() { _ = c.Close() }()
	framer := http2.NewFramer(c, c)
	err = c.SetDeadline(time.Now().Add(within))
	if err == nil {
		_, err = io.WriteString(c, http2.ClientPreface)
	}
	if err == nil {
		err = framer.WriteSettings()
	}
	if err == nil {
		_, err = framer.ReadFrame()
	}
	if err != nil {
		return fmt.Sprintf(statusService, err)
	}
	return ""
}

// controlPlane returns the control plane in the filter's settings. It is the control plane
// of the last enrolment, whatever options this agent has. It is nil if there are no
// settings.
func (d *runDir) controlPlane() *contract.ControlPlaneSettings {
	data, err := os.ReadFile(d.settings)
	if err != nil {
		return nil
	}
	s, err := contract.ParseSettings(data)
	if err != nil {
		return nil
	}
	return s.ControlPlane
}

// believes reports whether a filter that starts with the trust file at path, and with the
// settings by, can use Redis without the control plane. A file that cannot be read gives
// the filter nothing, and neither does trust from another control plane or for another
// node.
func believes(path string, by *contract.ControlPlaneSettings, now time.Time) bool {
	data, err := os.ReadFile(path) //nolint:gosec // below the state directory
	if err != nil || by == nil {
		return false
	}
	var said struct {
		Address string           `json:"address"`
		Node    string           `json:"node"`
		Trust   contract.Trust   `json:"trust"`
		Scopes  *contract.Scopes `json:"scopes"`
		Leased  int64            `json:"leased_ms"`
	}
	if contract.DecodeJSON(data, &said) != nil || said.Address != by.Address || said.Node != by.Node {
		return false
	}
	if said.Scopes == nil || said.Scopes.Check() != nil {
		return false
	}
	n := len(said.Trust.Servers)
	if said.Trust.Epoch == 0 || n == 0 || n > contract.MaxServers || !slices.IsSorted(said.Trust.Servers) {
		return false
	}
	age := now.Sub(time.UnixMilli(said.Leased))
	return age >= -contract.LeaseAhead && age < contract.TrustFor
}
