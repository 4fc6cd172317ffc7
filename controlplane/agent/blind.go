package agent

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// Why a gateway is not ready that could answer every token only with 503.
const (
	statusBlind      = "no token can be decided: the control plane has been away since the start, and nothing on disk says what to believe in Redis. Start the control plane"
	statusBlindRedis = "no token can be decided: the control plane has been away since the start, and the Redis that stands in for it cannot be read (the embedded one ends with the control plane). Start the control plane"
)

// blind says why a gateway can decide no token, or "": since this agent began nobody
// could reach the control plane, and its last filter left nothing to believe, or there
// is no Redis any more of which that could be believed. A load
// balancer that sent requests there would have each token refused. A gateway that has
// reached the control plane once stays ready when that goes away, for it still serves
// what needs no token. Sidecars may have no filter.
func (a *Agent) blind(ctx context.Context) string {
	switch {
	case a.Sidecar != nil || a.reached.Load():
		return ""
	case !believes(filepath.Join(a.dir.path, contract.TrustFile), a.dir.controlPlane(), time.Now()):
		return statusBlind
	case !a.standsIn(ctx):
		return statusBlindRedis
	}
	return ""
}

// controlPlane is the one that the filter's settings name: that of the last enrolment,
// whatever this agent was told since. It is nil if there are none.
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

// believes reports whether a filter that starts with a trust file, and the settings by,
// can use Redis without the control plane. One that cannot be read gives the filter
// nothing either, and neither does what another control plane said, or to another node.
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
