// Package presence stores which workloads the agents of a mesh's proxies have found.
//
// It is written into the Dataplane, and only where it differs. So whoever reads the mesh sees it,
// other control planes hear of it, a restart keeps it, and so does a proxy that is away. A proxy
// reports only about inbounds of its own Dataplane that have a service probe, and only the agent
// that has registered a Dataplane reports about that.
package presence

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/probing"
)

// Tokens checks the tokens of proxies of meshes.
type Tokens interface {
	// Authenticate returns a Denied fault for an invalid token, Forbidden for one of another
	// node, and NotFound for a node without a Dataplane.
	Authenticate(ctx context.Context, nodeID, token string) (until time.Time, err error)
}

// Documents changes documents. [admit.Gate] implements it.
type Documents interface {
	AmendDocument(ctx context.Context, k *model.Kind, scope, name string, change func(stored *model.Resource) (any, error)) (admit.Outcome, error)
}

// Server answers reports at [probing.Path].
type Server struct {
	Tokens    Tokens
	Store     store.Store
	Documents Documents
	Log       *slog.Logger

	pace pace
}

// ServeHTTP answers 204 once a report is stored, or says nothing new. It answers 409 if another agent
// has taken the place of the one that reports, or if the report is also about an inbound that is not
// probed: then the agent has not been told yet. It answers 429 to more than a write each second.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || token == "" {
		http.Error(w, "a node token is required", http.StatusUnauthorized)
		return
	}
	node := r.Header.Get(contract.NodeHeader)
	if _, err := s.Tokens.Authenticate(r.Context(), node, token); err != nil {
		s.refuse(w, node, err)
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "only POST is understood here", http.StatusMethodNotAllowed)
		return
	}
	report, err := decode(http.MaxBytesReader(w, r.Body, probing.MaxReport))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	meshName, name, _ := strings.Cut(node, ".") // the token is for such a node
	if err := s.take(model.WithActor(r.Context(), model.Node(node)), node, meshName, name, report); err != nil {
		s.refuse(w, node, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// refuse answers an error. Why a control plane cannot store something is for its own log.
func (s *Server) refuse(w http.ResponseWriter, node string, err error) {
	if errors.Is(err, errTooOften) {
		http.Error(w, err.Error(), http.StatusTooManyRequests)
		return
	}
	e, _ := errors.AsType[*fault.Error](err)
	switch fault.CodeOf(err) {
	case fault.Denied:
		http.Error(w, "the node token is not valid", http.StatusUnauthorized)
	case fault.Forbidden:
		http.Error(w, "the node token is for another node", http.StatusForbidden)
	case fault.NotFound:
		http.Error(w, "the node has no dataplane", http.StatusNotFound)
	case fault.Conflict:
		http.Error(w, e.Shown(), http.StatusConflict)
	default:
		s.Log.Error("readiness could not be stored", "node", node, "error", err)
		http.Error(w, "it cannot be stored now; try again", http.StatusServiceUnavailable)
	}
}

func decode(body io.Reader) (*probing.Report, error) {
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	r := new(probing.Report)
	if err := d.Decode(r); err != nil {
		return nil, fmt.Errorf("the body is not understood: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("the body goes on after its end")
	}
	if len(r.Inbounds) > probing.Max {
		return nil, fmt.Errorf("more than %d inbounds", probing.Max)
	}
	return r, nil
}

// take stores what a report says about a dataplane.
func (s *Server) take(ctx context.Context, node, meshName, name string, report *probing.Report) error {
	var stored *model.Resource
	err := s.Store.View(ctx, func(r store.Reader) (err error) {
		stored, err = r.Get(mesh.Dataplanes, meshName, name)
		return err
	})
	if err != nil {
		return err
	}
	// Most that is reported again is stored already, which needs no transaction.
	d, stale, err := apply(stored.Spec.(*mesh.Dataplane), report)
	if err != nil || d == nil {
		return cmp.Or(err, stale)
	}
	if !s.pace.may(node, time.Now()) {
		return errTooOften
	}
	_, err = s.Documents.AmendDocument(ctx, mesh.Dataplanes, meshName, name, func(stored *model.Resource) (any, error) {
		if d, stale, err = apply(stored.Spec.(*mesh.Dataplane), report); err != nil || d == nil {
			return nil, err
		}
		return d, nil
	})
	return cmp.Or(err, stale)
}

// apply returns a dataplane as a report describes it, nil if it is so already. stale says which
// inbound of the report is not probed; what it says of the others counts nevertheless.
func apply(d *mesh.Dataplane, report *probing.Report) (out *mesh.Dataplane, stale, err error) {
	// An agent whose place was taken probes what may be elsewhere now.
	if mesh.OwnerOf(d.Labels) == mesh.OwnerAgent && d.Labels[mesh.LabelInstance] != report.Instance {
		return nil, nil, fault.New(fault.Conflict, "another agent has registered the dataplane")
	}
	found := map[probing.Inbound]bool{}
	for _, f := range report.Inbounds {
		if in := d.Inbound(f.Address, uint32(f.Port)); in == nil || !in.Probed() {
			stale = fault.New(fault.Conflict, "no inbound at port %d is probed", f.Port)
			continue
		}
		found[f.Inbound] = f.Ready
	}
	differs := false
	out = d.WithInbounds(func(in *mesh.Inbound) {
		ready, reported := found[probing.Inbound{Address: in.Address, Port: uint16(in.Port)}] //nolint:gosec // validated
		if reported && in.Probed() && in.IsReady() != ready {
			in.SetReady(ready)
			differs = true
		}
	})
	if !differs {
		out = nil
	}
	return out, stale, nil
}
