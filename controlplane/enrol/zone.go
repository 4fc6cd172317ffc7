package enrol

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/yamldoc"
	"github.com/meshgate/meshgate/xds/bootstrap"
)

// ZoneTokens checks the tokens of proxies of the zone of the control plane.
type ZoneTokens interface {
	// CheckToken returns a Denied fault for an invalid token, whichever proxy it is for.
	CheckToken(ctx context.Context, token string) error
	// CheckProxy checks that a token permits proxies of a type. It returns a Denied fault for an
	// invalid token, and Forbidden if the token is for other proxies or another zone.
	CheckProxy(ctx context.Context, proxyType, token string) error
	// Own returns the name of the zone.
	Own() string
}

// mostZoneProxies bounds how many proxies of a zone may register, because one token permits any
// number of names.
const mostZoneProxies = 256

// zoneProxy handles one request of a proxy of a zone. A nil answer means that the proxy leaves.
func (s *Server) zoneProxy(ctx context.Context, r *http.Request, in *Proxy) (*Answer, error) {
	if s.Mesh.Zone == nil {
		return nil, fault.New(fault.Invalid, "there are no proxies of zones")
	}
	// The token is checked before anything is read or answered.
	if err := s.Mesh.Zone.CheckProxy(ctx, in.ProxyType, in.Token); err != nil {
		return nil, err
	}
	switch {
	case r.Method == http.MethodDelete:
		_, err := s.settledZone(ctx, in, s.leaveZone)
		return nil, err
	case in.Leaving && in.ProxyType == mesh.ProxyEgress:
		return nil, s.serveLeavingEgress(ctx, in)
	case in.Leaving:
		return nil, nil // other zones know where an ingress is until somebody changes that there
	}
	config, err := s.bootstrap(r, in)
	if err != nil {
		return nil, err
	}
	z, err := s.settledZone(ctx, in, s.joinZone)
	if err != nil {
		return nil, err
	}
	config.Cluster, config.Metadata = in.ProxyType, metadata(in, config)
	if in.Relay == nil {
		adminPort(config, z.Administered())
	}
	text, err := bootstrap.Render(*config)
	if err != nil {
		return nil, fault.New(fault.Invalid, "no bootstrap can be made: %s", err)
	}
	return s.answer(config.NodeID, text), nil
}

// settledZone is [Server.settled] for proxies of a zone.
func (s *Server) settledZone(ctx context.Context, in *Proxy, act func(context.Context, *Proxy, *model.Resource) (mesh.Zonal, error)) (mesh.Zonal, error) {
	for range maxAttempts {
		var old *model.Resource
		err := s.Store.View(ctx, func(r store.Reader) (err error) {
			if old, err = r.Get(mesh.ZoneKind(in.ProxyType), "", in.Name); fault.Is(err, fault.NotFound) {
				return nil
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		if old != nil && !old.Spec.(mesh.Zonal).In(s.Mesh.Zone.Own(), s.Mesh.Zone.Own()) {
			return nil, fault.New(fault.Forbidden, "zone %s %q is in another zone than %s", in.ProxyType, in.Name, s.Mesh.Zone.Own())
		}
		if z, err := act(ctx, in, old); !errors.Is(err, errMoved) {
			return z, err
		}
	}
	return nil, fault.New(fault.Unavailable, "zone %s %q is being written by others", in.ProxyType, in.Name)
}

// joinZone returns the resource of a proxy, and registers it if the proxy has sent one.
func (s *Server) joinZone(ctx context.Context, in *Proxy, old *model.Resource) (mesh.Zonal, error) {
	switch {
	case in.Resource == "" && old == nil:
		return nil, fault.New(fault.NotFound, "zone %s %q not found: create it first, or start the proxy with its file", in.ProxyType, in.Name)
	case in.Resource == "":
		return old.Spec.(mesh.Zonal), nil
	case old != nil && owner(old) == "":
		// The token alone must not replace what an operator has written.
		return nil, fault.New(fault.Conflict, "zone %s %q is not owned by its proxy: start the proxy without a file, or delete it first", in.ProxyType, in.Name)
	}
	raw, err := yamldoc.JSON(ctx, []byte(in.Resource), model.MaxDocument)
	if err != nil {
		return nil, err
	}
	kind := mesh.ZoneKind(in.ProxyType)
	read, err := model.ReadDocument(kind, raw)
	if err != nil {
		return nil, err
	}
	z := read.Spec.(mesh.Zonal)
	vs := read.Unknown
	for _, f := range []struct{ path, got, want string }{
		{"type", read.Meta.Type, kind.Document.Type}, {"name", read.Meta.Name, in.Name},
	} {
		if f.got != f.want {
			vs = append(vs, fault.Violation{Path: f.path, Message: "must be " + strconv.Quote(f.want)})
		}
	}
	if own := s.Mesh.Zone.Own(); !z.In(own, own) {
		vs = append(vs, fault.Violation{Path: "zone", Message: "must be " + strconv.Quote(own)})
	}
	if err := fault.Violated(vs); err != nil {
		return nil, err
	}
	in = in.after(old)
	z.SetLabels(in.labels(model.LabelsOf(z)))
	if old != nil {
		z.Adopt(old.Spec.(mesh.Zonal))
	} else {
		z.Adopt(nil)
	}
	_, _, err = s.Mesh.Documents.PutDocumentIf(ctx, kind, "", in.Name, z, roomInZone(in.ProxyType, old))
	return z, err
}

// after returns the request as it counts when old is stored: an agent that has said once that its Envoy
// listens does not take that back. Requests may be overtaken.
func (p *Proxy) after(old *model.Resource) *Proxy {
	if old == nil || p.Instance == "" {
		return p
	}
	labels, own := model.LabelsOf(old.Spec), *p
	own.Starting = p.Starting && (labels[mesh.LabelInstance] != p.Instance || mesh.IsStarting(labels))
	return &own
}

// roomInZone is [Server.room] for proxies of a zone.
func roomInZone(proxyType string, judged *model.Resource) admit.Allowed {
	same := as(judged)
	return func(r store.Reader, stored *model.Resource) error {
		if err := same(r, stored); err != nil || stored != nil {
			return err
		}
		n, err := r.Count(mesh.ZoneKind(proxyType), store.Query{})
		if err == nil && n >= mostZoneProxies {
			err = fault.New(fault.Unavailable, "there are %d zone proxies of the type %s: proxies register no more", n, proxyType)
		}
		return err
	}
}

// leaveZone deletes the resource of a proxy that owns it.
func (s *Server) leaveZone(ctx context.Context, in *Proxy, old *model.Resource) (mesh.Zonal, error) {
	_, err := s.deleteZone(ctx, in, old)
	return nil, err
}

// serveLeavingEgress handles the request of an egress that is about to drain. It deletes its
// ZoneEgress, as nothing else says that it is not to be called.
func (s *Server) serveLeavingEgress(ctx context.Context, in *Proxy) error {
	var revision uint64
	_, err := s.settledZone(ctx, in, func(ctx context.Context, in *Proxy, old *model.Resource) (_ mesh.Zonal, err error) {
		revision, err = s.deleteZone(ctx, in, old)
		return nil, err
	})
	if err != nil {
		return err
	}
	return s.avoided(ctx, revision)
}

// deleteZone deletes the resource of a proxy that owns it, and returns the revision of that. It does
// nothing, and returns 0, for an agent whose place another agent has taken.
func (s *Server) deleteZone(ctx context.Context, in *Proxy, old *model.Resource) (uint64, error) {
	if old == nil || model.LabelsOf(old.Spec)[mesh.LabelInstance] != in.Instance {
		return 0, nil
	}
	if owner(old) == "" {
		return 0, fault.New(fault.Conflict, "zone %s %q is not owned by its proxy", in.ProxyType, in.Name)
	}
	c, err := s.Mesh.Documents.DeleteDocumentIf(ctx, mesh.ZoneKind(in.ProxyType), "", in.Name, as(old))
	if fault.Is(err, fault.NotFound) {
		err = nil
	}
	return c.Revision, err
}
