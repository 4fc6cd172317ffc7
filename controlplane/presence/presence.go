// Package presence stores which workloads the agents of a mesh's proxies have found.
//
// It is written into the Dataplane, and only where it differs. So whoever reads the mesh sees it,
// other control planes hear of it, a restart keeps it, and so does a proxy that is away. A proxy
// reports only about inbounds of its own Dataplane that have a service probe.
package presence

import (
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

// Documents writes documents. [admit.Gate] implements it.
type Documents interface {
	PutDocumentIf(ctx context.Context, k *model.Kind, scope, name string, spec any, allowed admit.Allowed) (admit.Outcome, bool, error)
}

// Server answers reports at [probing.Path].
type Server struct {
	Tokens    Tokens
	Store     store.Store
	Documents Documents
	Log       *slog.Logger
}

// ServeHTTP answers 204 once a report is stored, or says nothing new. It answers 409 if the report is
// about an inbound that is not probed: then the agent has not been told yet.
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
	if err := s.take(model.WithActor(r.Context(), model.Node(node)), meshName, name, report); err != nil {
		s.refuse(w, node, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// refuse answers an error. Why a control plane cannot store something is for its own log.
func (s *Server) refuse(w http.ResponseWriter, node string, err error) {
	switch fault.CodeOf(err) {
	case fault.Denied:
		http.Error(w, "the node token is not valid", http.StatusUnauthorized)
	case fault.Forbidden:
		http.Error(w, "the node token is for another node", http.StatusForbidden)
	case fault.NotFound:
		http.Error(w, "the node has no dataplane", http.StatusNotFound)
	case fault.Conflict:
		http.Error(w, err.Error(), http.StatusConflict)
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

// maxAttempts bounds how often a report is judged again because somebody else has written the
// Dataplane meanwhile.
const maxAttempts = 16

// errMoved rolls back a write over another Dataplane than the one that was judged.
var errMoved = errors.New("the dataplane was written meanwhile")

// take stores what a report says about a dataplane.
func (s *Server) take(ctx context.Context, meshName, name string, report *probing.Report) error {
	for range maxAttempts {
		var old *model.Resource
		err := s.Store.View(ctx, func(r store.Reader) (err error) {
			old, err = r.Get(mesh.Dataplanes, meshName, name)
			return err
		})
		if err != nil {
			return err
		}
		d, err := apply(old.Spec.(*mesh.Dataplane), report)
		if err != nil || d == nil {
			return err
		}
		_, _, err = s.Documents.PutDocumentIf(ctx, mesh.Dataplanes, meshName, name, d, func(_ store.Reader, stored *model.Resource) error {
			if stored == nil || stored.Version != old.Version || stored.Revision != old.Revision {
				return errMoved
			}
			return nil
		})
		if !errors.Is(err, errMoved) {
			return err
		}
	}
	return fault.New(fault.Unavailable, "dataplane %q of mesh %q is being written by others", name, meshName)
}

// apply returns a dataplane as a report describes it, nil if it is so already.
func apply(d *mesh.Dataplane, report *probing.Report) (*mesh.Dataplane, error) {
	found := map[probing.Inbound]bool{}
	for _, f := range report.Inbounds {
		if in := d.Inbound(f.Address, uint32(f.Port)); in == nil || !in.Probed() {
			return nil, fault.New(fault.Conflict, "no inbound at port %d is probed", f.Port)
		}
		found[f.Inbound] = f.Ready
	}
	differs := false
	out := d.WithInbounds(func(in *mesh.Inbound) {
		ready, reported := found[probing.Inbound{Address: in.Address, Port: uint16(in.Port)}] //nolint:gosec // validated
		if reported && in.Probed() && in.IsReady() != ready {
			in.SetReady(ready)
			differs = true
		}
	})
	if !differs {
		return nil, nil //nolint:nilnil // nothing to write is an answer
	}
	return out, nil
}
