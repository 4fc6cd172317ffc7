package agent

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/filter/contract"
)

// The conditions of a proxy. None of them makes the proxy fail: Envoy continues with what
// it has.
const (
	conditionControlPlane = "control_plane"
	conditionClock        = "clock"
	conditionCertificates = "certificates"
	conditionDisk         = "disk"
	conditionToken        = "token"
	conditionRedis        = "token_redis"
	conditionTokenChecks  = "token_checks"
	conditionAccessLogs   = "access_logs"
)

func newConditions(log *slog.Logger) *health.Board {
	return health.New(log, time.Now,
		health.Kind{Name: conditionControlPlane, Bad: "the control plane cannot be reached", Good: "the control plane answers again"},
		health.Kind{Name: conditionClock, Bad: "the clocks differ", Good: "the clocks agree again"},
		health.Kind{Name: conditionCertificates, Bad: "a certificate ends", Good: "no certificate ends soon"},
		health.Kind{Name: conditionDisk, Bad: "the configuration cannot be kept on disk", Good: "the configuration is kept on disk again"},
		health.Kind{Name: conditionToken, Bad: "the node token ends and has no successor", Good: "the node token ends late enough"},
		health.Kind{Name: conditionRedis, Bad: "the redis of tokens cannot be read", Good: "the redis of tokens can be read again"},
		health.Kind{Name: conditionTokenChecks, Bad: "token checks have stopped", Good: "tokens are checked again"},
		health.Kind{Name: conditionAccessLogs, Bad: "access logs cannot be written", Good: "access logs are written again"},
	)
}

// saved notes whether Envoy's configuration could be stored on disk.
func (a *Agent) saved(err error) {
	if err == nil {
		a.conditions.Good(conditionDisk)
		return
	}
	a.conditions.Set(conditionDisk, health.Finding{State: health.Degraded, Reason: health.DiskReason(err), Text: fmt.Sprintf(
		"what the control plane says cannot be kept in %s (%v): the proxy goes on with the newest configuration, and one that starts while the control plane is away begins with an older one. Free some space there (df -h %[1]s)",
		filepath.Dir(a.dir.cache), err)})
}

// heardClock compares a time that the control plane stated with the local times before and
// after.
func (a *Agent) heardClock(said, before, after time.Time) {
	ahead := contract.Ahead(said, before, after, time.Second)
	if ahead.Abs() <= contract.ClocksApart {
		a.conditions.Good(conditionClock)
		return
	}
	reason := "control_plane_behind"
	if ahead > 0 {
		reason = "control_plane_ahead"
	}
	a.conditions.Set(conditionClock, health.Finding{State: health.Degraded, Reason: reason, Text: fmt.Sprintf(
		"the clock of this machine says %s, that of the control plane %s: one of them is wrong. Tokens end too early or too late here by the difference, and beyond 5 minutes certificates are refused. Set both by a time server (timedatectl, chronyc tracking)",
		after.UTC().Format(time.RFC3339), said.UTC().Format(time.RFC3339))})
}

// dated passes on the Date header of the control plane's answers.
type dated struct {
	http.RoundTripper
	tell func(said, before, after time.Time)
}

// RoundTrip implements http.RoundTripper.
func (d dated) RoundTrip(r *http.Request) (*http.Response, error) {
	before := time.Now()
	resp, err := d.RoundTripper.RoundTrip(r)
	if err == nil {
		if said, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
			d.tell(said, before, time.Now())
		}
	}
	return resp, err
}

// serveReady answers 503 with the reason while the proxy cannot serve requests. It lists
// the conditions in either case. Load balancers ask from other machines, so only local
// requests get the texts, which contain names of files and addresses.
func (s *status) serveReady(w http.ResponseWriter, r *http.Request) {
	status, a := http.StatusOK, health.Answer{Message: s.missing(r.Context()), Conditions: s.conditions.Conditions(r.Context())}
	stopped := slices.ContainsFunc(a.Conditions, func(c health.Condition) bool { return c.Name == conditionTokenChecks && c.State != health.OK })
	if !local(r) {
		for i := range a.Conditions {
			a.Conditions[i].Text = ""
		}
	}
	switch {
	case a.Message != "":
		status = http.StatusServiceUnavailable
	case stopped:
		// All gateways lose their token checks at the same time. If load balancers took
		// them out of service for that, requests that need no token would fail as well.
		a.Message = statusUnchecked
	default:
		a.Message = health.Ready
	}
	_ = httpkit.WriteJSON(w, status, a) // a client that is gone will ask again
}

// local reports whether a request comes from this machine.
func local(r *http.Request) bool {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && at.Addr().Unmap().IsLoopback()
}

// Conditions returns the metric of the proxy's conditions.
func (a *Agent) Conditions() prometheus.Collector { return a.conditions.Collector() }
