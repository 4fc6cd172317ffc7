package assembly

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/meshgate/meshgate/controlplane/agent"
	"github.com/meshgate/meshgate/controlplane/publish"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/metered"
	"github.com/meshgate/meshgate/controlplane/telemetry"
	"github.com/meshgate/meshgate/controlplane/version"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// meters collect what the parts of a control plane measure.
type meters struct {
	requests    *telemetry.Requests
	tokens      *telemetry.Tokens
	streams     *telemetry.Streams
	store       *telemetry.Store
	convergence *telemetry.Convergence
	log         *telemetry.Log
}

func newMeters(log slog.Handler) *meters {
	return &meters{
		requests: telemetry.NewRequests(), tokens: telemetry.NewTokens(), streams: telemetry.NewStreams(), log: telemetry.NewLog(log),
	}
}

// meter wraps a store so that it is measured.
func (m *meters) meter(s store.Store) store.Store {
	m.convergence = telemetry.NewConvergence()
	m.store = telemetry.NewStore(m.convergence.Note)
	return metered.New(s, m.store)
}

func (m *meters) collectors() []prometheus.Collector {
	var out []prometheus.Collector
	for _, p := range []interface{ Collectors() []prometheus.Collector }{m.requests, m.tokens, m.streams, m.store, m.convergence, m.log} {
		out = append(out, p.Collectors()...)
	}
	return out
}

// spread tells the convergence meter when a revision is published and acknowledged, by the
// same rules as GET /revisions.
type spread struct {
	loop      *publish.Loop
	snapshots *snapshot.Store
}

func (s spread) published(ctx context.Context, revision uint64) error {
	return s.loop.Settled(ctx, revision)
}

func (s spread) acknowledged(ctx context.Context, revision uint64) error {
	scopes, err := s.loop.Concerned(ctx, revision)
	if err != nil {
		return err
	}
	if err := s.loop.Settled(ctx, revision); err != nil {
		return err
	}
	s.snapshots.Wait(ctx, revision, scopes...)
	return ctx.Err()
}

// measureConvergence works until ctx ends, and returns the error of ctx.
func (cp *ControlPlane) measureConvergence(ctx context.Context) error {
	s := spread{cp.loop, cp.snapshots}
	return cp.meters.convergence.Run(ctx, telemetry.Spread{Published: s.published, Acknowledged: s.acknowledged})
}

// MeterNode makes an agent serve the metrics of its node beside its status.
func MeterNode(a *agent.Agent) *agent.Agent {
	counted, _ := a.Log.Handler().(*telemetry.Log)
	service, _ := a.Authz.(prometheus.Collector)
	a.Metrics = telemetry.NewNode(telemetry.Node{
		EnvoyUp: func() bool { return a.Envoy.PID() != 0 }, Connected: a.Connected, Restarts: a.Envoy.Restarts,
		TokenEnds: a.TokenEnds, Build: telemetry.BuildInfo("agent", version.Program), Conditions: a.Conditions(), Log: counted, Authz: service,
	}, a.Envoy.Admin.Statistics, a.Log)
	return a
}
