package enrol

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/filter/contract"
)

// withdrawWait bounds how long a leaving proxy waits until others have confirmed that they
// avoid it. Otherwise a proxy that hangs could delay it.
const withdrawWait = 2 * time.Second

// Withdraw says that a proxy is about to drain, so that others stop sending requests to it.
// It returns once they have confirmed that, or after a short time. It changes only what
// this instance has registered. Errors are those of [Enrol].
func Withdraw(ctx context.Context, client *http.Client, base, token, meshName, name, instance string) error {
	return withdraw(ctx, client, base, token, &Proxy{Mesh: meshName, Name: name, Instance: instance})
}

// WithdrawZone is [Withdraw] for a proxy of a zone. An egress is deregistered by it.
func WithdrawZone(ctx context.Context, client *http.Client, base, token, proxyType, name, instance string) error {
	return withdraw(ctx, client, base, token, &Proxy{ProxyType: proxyType, Name: name, Instance: instance})
}

func withdraw(ctx context.Context, client *http.Client, base, token string, in *Proxy) error {
	in.Leaving = true
	_, err := ask(ctx, client, http.MethodPost, base, token, http.Header{contract.NodeHeader: {in.node()}}, in)
	return err
}

// serveLeaving handles the request of a proxy that is about to drain.
func (s *Server) serveLeaving(ctx context.Context, in *Proxy) error {
	var revision uint64
	_, err := s.settled(ctx, in, func(ctx context.Context, in *Proxy, old *model.Resource) (*mesh.Dataplane, error) {
		var err error
		revision, err = s.withdraw(ctx, in, old)
		return nil, err
	})
	if err != nil {
		return err
	}
	return s.avoided(ctx, revision)
}

// avoided waits until others have confirmed a revision, from which on they avoid a proxy; 0 is none.
func (s *Server) avoided(ctx context.Context, revision uint64) error {
	if revision == 0 || s.Mesh.Confirmed == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, withdrawWait)
	defer cancel()
	if err := s.Mesh.Confirmed(ctx, revision); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// withdraw marks every inbound of a Dataplane as not ready and returns the revision of that
// change. It returns 0 if nothing has to change. A proxy must not change a Dataplane that
// an operator wrote or that another agent has taken over.
func (s *Server) withdraw(ctx context.Context, in *Proxy, old *model.Resource) (uint64, error) {
	if old == nil || owner(old) != mesh.OwnerAgent {
		return 0, nil
	}
	d := *old.Spec.(*mesh.Dataplane)
	if d.Labels[mesh.LabelInstance] != in.Instance || d.Networking == nil || len(d.Networking.Inbound) == 0 {
		return 0, nil
	}
	n := *d.Networking
	n.Inbound = slices.Clone(n.Inbound)
	for i := range n.Inbound {
		if n.Inbound[i].State != mesh.StateIgnored {
			n.Inbound[i].State = mesh.StateNotReady
		}
	}
	d.Networking = &n
	out, err := s.Mesh.Documents.AmendDocument(ctx, mesh.Dataplanes, in.Mesh, in.Name, func(stored *model.Resource) (any, error) {
		return &d, as(old)(nil, stored)
	})
	if fault.Is(err, fault.NotFound) { // it was deleted meanwhile
		return 0, nil
	}
	return out.Commit.Revision, err
}
