package relay

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/server"
	"github.com/meshgate/meshgate/xds/snapshot"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
)

// pending is one response that the local Envoy has not confirmed yet, or the merged early
// responses of a type.
type pending struct {
	typ      resource.TypeURL
	nonce    string
	revision uint64
	add      map[string]*resource.Resource // by name
	remove   map[string]struct{}
	// early says that the response was confirmed while no Envoy was connected. The control
	// plane sends no more than a window of unanswered responses.
	early bool
	// turned are the reasons of the resources that were refused here and not passed to Envoy.
	turned []string
}

// answer returns the upstream answer to the response.
func (p *pending) answer(rejected []snapshot.Rejection) *discovery.DeltaDiscoveryRequest {
	m := &discovery.DeltaDiscoveryRequest{TypeUrl: string(p.typ), ResponseNonce: p.nonce}
	if texts := append(slices.Clip(p.turned), reasons(rejected)...); len(texts) > 0 {
		m.ErrorDetail = &rpcstatus.Status{Code: int32(codes.InvalidArgument), Message: strings.Join(texts, "; ")}
	}
	return m
}

// take merges a later response of the type; the newest content of each name wins.
func (p *pending) take(later pending) {
	for name := range later.remove {
		delete(p.add, name)
		p.remove[name] = struct{}{}
	}
	for name, a := range later.add {
		delete(p.remove, name)
		p.add[name] = a
	}
	p.revision = max(p.revision, later.revision)
}

func (p *pending) adds(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return p.add[name] != nil })
}

// early confirms what arrived while no Envoy is connected, so that the control plane sends the
// rest and any correction. Otherwise an Envoy that dies of its configuration would get the
// same one at each start. The oldest response stays unanswered, so that the control plane
// regards no state as confirmed. All others are part of what the next Envoy is served.
func (r *Relay) early(stream upstreamClient, open []pending) ([]pending, error) {
	p := r.local.Progress(snapshot.Newest)
	if len(p.Waiting)+len(p.Acknowledged)+len(p.Rejected) > 0 {
		return open, nil
	}
	for i := 1; i < len(open); i++ {
		if open[i].early {
			continue
		}
		open[i].early = true
		if err := stream.Send(open[i].answer(nil)); err != nil {
			return open, fmt.Errorf("answer the control plane: %w", err)
		}
	}
	return fold(open), nil
}

// fold merges all early responses of a type, so that they take only the room of their content,
// however long there is no Envoy. The first response stays as it is.
func fold(open []pending) []pending {
	if len(open) < 2 {
		return open
	}
	out, of := open[:1], map[resource.TypeURL]int{}
	for _, p := range open[1:] {
		i, found := of[p.typ]
		switch {
		case found:
			out[i].take(p)
		case len(p.add)+len(p.remove) > 0:
			of[p.typ] = len(out)
			out = append(out, p)
		}
	}
	clear(open[len(out):])
	return out
}

// settle sends upstream what Envoy has answered here, and keeps the rest. It writes confirmed
// content to disk first: after a power failure, a starting proxy must not serve again what was
// taken from it. If the disk fails, the answers are sent nevertheless.
func (r *Relay) settle(stream upstreamClient, open []pending) (rest []pending, err error) {
	var changes []*discovery.DeltaDiscoveryResponse
	var answers []*discovery.DeltaDiscoveryRequest
	for err == nil {
		var done []pending
		var rejected []snapshot.Rejection
		if done, open, rejected = r.answeredNext(open); len(done) == 0 {
			break
		}
		if len(rejected) > 0 {
			r.revert(done[0], rejected)
			r.again(open, rejected)
		}
		for _, p := range done {
			if p.early && len(rejected) > 0 { // the next stream has all of it judged again
				err = errRefusedEarly
				break
			}
			if put, dropped := r.keep(p); len(put)+len(dropped) > 0 {
				changes = append(changes, record(p.typ, put, dropped))
			}
			if !p.early {
				answers = append(answers, p.answer(rejected))
			}
		}
	}
	if len(changes) > 0 || r.unsaved {
		r.save(changes...)
	}
	r.tell()
	for _, m := range answers {
		if failed := stream.Send(m); failed != nil {
			return open, fmt.Errorf("answer the control plane: %w", failed)
		}
	}
	return open, err
}

// save writes the changes of good to disk. A failed write is tried again at the next event of
// the stream.
func (r *Relay) save(changes ...*discovery.DeltaDiscoveryResponse) {
	err := r.cache.save(r.good, changes)
	if r.unsaved = err != nil; r.cfg.Saved != nil {
		r.cfg.Saved(err)
	} else if err != nil {
		r.cfg.Log.Error("xds_cache_not_written", "path", r.cfg.Cache, "error", err)
	}
}

// answeredNext returns the responses to answer next: one refused response with the refusals
// about it or, if there is none, all responses that Envoy has answered. The refused one comes
// first, because the others are judged only when Envoy has answered what it is served instead.
func (r *Relay) answeredNext(open []pending) (done, rest []pending, rejected []snapshot.Rejection) {
	// One answer may cover several publications.
	n := 0
	for n < len(open) && answered(r.local.Progress(open[n].revision)) {
		n++
	}
	if n == 0 {
		return nil, open, nil
	}
	// Envoy's refusals are recorded before the answer that they are part of. If they were read
	// before that answer was seen, they could be missing, and refused content would count as
	// good.
	standing := r.local.Progress(snapshot.Newest).Rejected
	for i, p := range open[:n] {
		if rejected := about(p, standing); len(rejected) > 0 {
			return []pending{p}, slices.Delete(open, i, i+1), rejected
		}
	}
	return open[:n], open[n:], nil
}

// answered reports whether the local Envoy has answered a revision. Without an Envoy nothing
// is answered.
func answered(p snapshot.Progress) bool {
	return len(p.Waiting) == 0 && len(p.Acknowledged)+len(p.Rejected) > 0
}

// about selects the refusals that concern a response. Envoy may have received the response
// together with others.
func about(p pending, standing []snapshot.Rejection) (out []snapshot.Rejection) {
	for _, x := range standing {
		if x.Type == p.typ && p.adds(server.Meant(x.Error, x.Resources)) {
			out = append(out, x)
		}
	}
	return out
}

func reasons(rejected []snapshot.Rejection) (texts []string) {
	for _, x := range rejected {
		texts = append(texts, x.Error)
	}
	return texts
}

// again makes responses wait that Envoy received together with a refused one. Envoy may have
// applied nothing of them, and gets them again.
func (r *Relay) again(open []pending, rejected []snapshot.Rejection) {
	for i := range open {
		for _, x := range rejected {
			if x.Type == open[i].typ && open[i].adds(x.Resources) {
				open[i].revision = r.revision
			}
		}
	}
}

// revert replaces refused content with the last good version. The other resources of the
// response stay and are sent again, because a response that could not be decoded was not
// applied at all.
func (r *Relay) revert(p pending, rejected []snapshot.Rejection) {
	for _, x := range rejected {
		for _, name := range server.Meant(x.Error, x.Resources) {
			if a := p.add[name]; a == nil || r.current[p.typ][name] != a {
				continue // a later response has overtaken it
			}
			if last := r.good[p.typ][name]; last != nil {
				r.locked(func() { r.current.put(last) })
				continue
			}
			r.locked(func() { r.current.drop(p.typ, name) })
			if p.typ == resource.Listener {
				r.refuse(name, x.Error)
			}
		}
	}
	r.publish()
}

// keep adds a settled response to good and returns what changed by it. It skips resources that
// were reverted and are therefore no longer current.
func (r *Relay) keep(p pending) (put []*resource.Resource, dropped []string) {
	for _, name := range slices.Sorted(maps.Keys(p.add)) {
		a := p.add[name]
		if r.current[p.typ][a.Name] != a {
			continue
		}
		if r.good[p.typ][a.Name] != a {
			r.locked(func() { r.good.put(a) })
			put = append(put, a)
		}
		if p.typ == resource.Listener {
			r.refuse(a.Name, "")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.remove)) {
		if r.current[p.typ][name] == nil && r.good[p.typ][name] != nil {
			r.locked(func() { r.good.drop(p.typ, name) })
			dropped = append(dropped, name)
		}
	}
	return put, dropped
}
