package relay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/meshgate/meshgate/xds/machine"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/server"
	"github.com/meshgate/meshgate/xds/snapshot"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// The pauses between attempts, jittered by half so that many proxies do not
// return in step.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 2 * time.Second
)

type upstreamClient = grpc.BidiStreamingClient[discovery.DeltaDiscoveryRequest, discovery.DeltaDiscoveryResponse]

// pending is one response that the local Envoy has not confirmed yet.
type pending struct {
	typ      resource.TypeURL
	nonce    string
	revision uint64
	add      []*resource.Resource
	remove   []string
	// early responses were confirmed while no Envoy was there: the control plane sends
	// no more than a window of unanswered ones.
	early bool
	// turned are the resources that were not even shown to Envoy, with the reason.
	turned []string
}

// answer is what is said of the response upstream.
func (p *pending) answer(rejected []snapshot.Rejection) *discovery.DeltaDiscoveryRequest {
	m := &discovery.DeltaDiscoveryRequest{TypeUrl: string(p.typ), ResponseNonce: p.nonce}
	if texts := append(slices.Clip(p.turned), reasons(rejected)...); len(texts) > 0 {
		m.ErrorDetail = &rpcstatus.Status{Code: int32(codes.InvalidArgument), Message: strings.Join(texts, "; ")}
	}
	return m
}

// errRefusedEarly ends a stream on which a response was confirmed that Envoy then
// refused. On the next one it is sent again and refused.
var errRefusedEarly = errors.New("the proxy refused what was confirmed before it was there")

// follow keeps a stream to the control plane until the context ends.
func (r *Relay) follow(ctx context.Context) {
	pause := firstPause
	for ctx.Err() == nil {
		heard, err := r.attempt(ctx)
		if ctx.Err() != nil {
			return
		}
		if heard {
			pause = firstPause
		}
		r.note(false, err.Error())
		r.cfg.Log.Debug("control_plane_disconnected", "node", r.cfg.Node, "error", err)
		if code := status.Code(errors.Unwrap(err)); !heard || code == codes.Unauthenticated || code == codes.PermissionDenied {
			r.report(err)
		}
		if status.Code(errors.Unwrap(err)) == codes.NotFound && r.cfg.Unknown != nil {
			r.cfg.Unknown(ctx)
		}
		wait := time.NewTimer(pause/2 + rand.N(pause/2)) //nolint:gosec // jitter, not a secret
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return
		}
		pause = min(pause*2, lastPause)
	}
}

// attempt opens one stream and follows it to its end. The error is never nil;
// heard tells whether the control plane answered.
func (r *Relay) attempt(ctx context.Context) (heard bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	conn, err := r.cfg.Dial(ctx)
	if err != nil {
		cancel()
		return false, fmt.Errorf("dial the control plane: %w", err)
	}
	var work sync.WaitGroup
	defer func() {
		cancel()
		work.Wait()
		_ = conn.Close()
	}()
	stream, err := r.subscribe(ctx, conn)
	if err != nil {
		return false, err
	}
	responses, ended := make(chan *discovery.DeltaDiscoveryResponse), make(chan error, 1)
	work.Go(func() { ended <- receive(ctx, stream, responses) })
	var open []pending
	for {
		// The channel is taken before the progress is read, so no event is lost.
		moved := r.local.Moved()
		if open, err = r.settle(stream, open); err != nil {
			return heard, err
		}
		if err = r.early(stream, open); err != nil {
			return heard, err
		}
		if heard && r.disown(open) {
			return heard, errRefusedGood
		}
		select {
		case m := <-responses:
			if !heard {
				heard = true
				r.note(true, "")
				r.report(nil)
				r.cfg.Log.Info("control_plane_connected", "node", r.cfg.Node)
			}
			open = append(open, r.apply(m))
		case <-moved:
		case <-r.saving:
		case err := <-ended:
			return heard, fmt.Errorf("the stream ended: %w", err)
		case <-ctx.Done():
			return heard, ctx.Err()
		}
	}
}

// subscribe opens the stream and asks for everything, listing what is here. What Envoy
// has not confirmed is sent and answered again.
func (r *Relay) subscribe(ctx context.Context, conn *grpc.ClientConn) (upstreamClient, error) {
	if r.cfg.Token != nil {
		token, err := r.cfg.Token()
		if err != nil {
			return nil, fmt.Errorf("read the token: %w", err)
		}
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token, server.NodeKey, r.cfg.Node)
	}
	stream, err := discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		return nil, fmt.Errorf("open the stream: %w", err)
	}
	for i, url := range resource.Types {
		m := &discovery.DeltaDiscoveryRequest{
			TypeUrl: string(url), ResourceNamesSubscribe: []string{"*"}, InitialResourceVersions: r.told(url),
		}
		if i == 0 {
			m.Node = &corev3.Node{Id: r.cfg.Node, UserAgentName: "meshgate", Metadata: r.cfg.Metadata}
		}
		if err := stream.Send(m); err != nil {
			// The reason is on the receiving side.
			if _, rerr := stream.Recv(); rerr != nil {
				err = rerr
			}
			return nil, fmt.Errorf("subscribe: %w", err)
		}
	}
	return stream, nil
}

func receive(ctx context.Context, stream upstreamClient, out chan<- *discovery.DeltaDiscoveryResponse) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		select {
		case out <- m:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// apply takes a response into the table and has it sent to Envoy.
func (r *Relay) apply(m *discovery.DeltaDiscoveryResponse) pending {
	p := pending{typ: resource.TypeURL(m.GetTypeUrl()), nonce: m.GetNonce(), remove: m.GetRemovedResources()}
	if !slices.Contains(resource.Types[:], p.typ) {
		return p
	}
	for _, x := range m.GetResources() {
		res, err := r.admit(p.typ, x.GetName(), x.GetVersion(), x.GetResource().GetValue())
		if err != nil {
			p.turned = append(p.turned, err.Error())
			if p.typ == resource.Listener && r.current[p.typ][x.GetName()] == nil {
				r.refuse(x.GetName(), err.Error())
			}
			continue // what is here of it stays
		}
		p.add = append(p.add, res)
		r.locked(func() { r.current.put(res) })
	}
	for _, name := range p.remove {
		r.locked(func() { r.current.drop(p.typ, name) })
		if p.typ == resource.Listener {
			r.refuse(name, "")
		}
	}
	r.publish()
	p.revision = r.revision
	if p.typ == resource.Secret {
		r.tellSecrets()
	}
	r.answered[p.typ] = struct{}{}
	if len(r.answered) == len(resource.Types) {
		r.serveable()
	}
	return p
}

// early confirms what came while no Envoy is there, so that the control plane sends the
// rest and whatever corrects it: an Envoy that dies of its configuration would get the
// same one at each start. The oldest response stays open, so that the control plane takes
// no state for confirmed. All others are part of what the next Envoy is served.
func (r *Relay) early(stream upstreamClient, open []pending) error {
	p := r.local.Progress(snapshot.Newest)
	if len(p.Waiting)+len(p.Acknowledged)+len(p.Rejected) > 0 {
		return nil
	}
	for i := 1; i < len(open); i++ {
		if open[i].early {
			continue
		}
		open[i].early = true
		if err := stream.Send(open[i].answer(nil)); err != nil {
			return fmt.Errorf("answer the control plane: %w", err)
		}
	}
	return nil
}

// admit is a resource as this machine takes it. The error names it.
func (r *Relay) admit(typ resource.TypeURL, name, version string, body []byte) (*resource.Resource, error) {
	own, err := r.cfg.Machine.Admit(string(typ), body)
	if err != nil && (typ == resource.Endpoint || typ == resource.Cluster) {
		if rest, left, wrong := r.cfg.Machine.Endpoints(string(typ), body); wrong == nil && len(left) > 0 {
			r.cfg.Log.Warn("endpoints_left_out", "name", name, "count", len(left), "first", left[0])
			own, err, version = rest, nil, version+machine.Partly
		}
	}
	if err != nil {
		r.cfg.Log.Warn("configuration_refused", "type", typ, "name", name, "error", err)
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return resource.Received(typ, name, version, own), nil
}

func (r *Relay) publish() {
	r.revision++
	r.local.Publish(map[string]*resource.Set{r.cfg.Node: r.current.set()}, r.revision)
}

// settle answers upstream what Envoy has answered here, and keeps the rest.
func (r *Relay) settle(stream upstreamClient, open []pending) (rest []pending, err error) {
	var changes []*discovery.DeltaDiscoveryResponse
	for err == nil {
		i, rejected := r.answeredNext(open)
		if i < 0 {
			break
		}
		p := open[i]
		open = slices.Delete(open, i, i+1)
		if len(rejected) > 0 {
			r.revert(p, rejected)
			r.again(open, rejected)
		}
		if put, dropped := r.keep(p); len(put)+len(dropped) > 0 {
			changes = append(changes, record(p.typ, put, dropped))
		}
		switch {
		case p.early && len(rejected) > 0:
			err = errRefusedEarly
		case !p.early:
			if err = stream.Send(p.answer(rejected)); err != nil {
				err = fmt.Errorf("answer the control plane: %w", err)
			}
		}
	}
	if len(changes) > 0 || r.unsaved {
		r.save(changes...)
	}
	return open, err
}

// save writes to disk what has changed of what is good. What could not be written is
// tried again at the next event of the stream.
func (r *Relay) save(changes ...*discovery.DeltaDiscoveryResponse) {
	err := r.cache.save(r.good, changes)
	if r.unsaved = err != nil; r.cfg.Saved != nil {
		r.cfg.Saved(err)
	} else if err != nil {
		r.cfg.Log.Error("xds_cache_not_written", "path", r.cfg.Cache, "error", err)
	}
}

// answeredNext is the response to answer next, -1 for none, with the refusals that speak
// of it. Refused ones come first: the others are judged when Envoy has answered what it
// is served instead.
func (r *Relay) answeredNext(open []pending) (int, []snapshot.Rejection) {
	// One answer may cover several publications.
	n := 0
	for n < len(open) && answered(r.local.Progress(open[n].revision)) {
		n++
	}
	if n == 0 {
		return -1, nil
	}
	// A refusal is told before the answer that it is part of. Read before that answer
	// was seen, the refusals would lack it, and what Envoy refused would count as good.
	standing := r.local.Progress(snapshot.Newest).Rejected
	for i, p := range open[:n] {
		if rejected := about(p, standing); len(rejected) > 0 {
			return i, rejected
		}
	}
	return 0, nil
}

// answered reports whether the local Envoy has answered a revision. Without an Envoy
// nothing is answered.
func answered(p snapshot.Progress) bool {
	return len(p.Waiting) == 0 && len(p.Acknowledged)+len(p.Rejected) > 0
}

// about selects the refusals that speak of a response. Envoy may have heard it together
// with others.
func about(p pending, standing []snapshot.Rejection) (out []snapshot.Rejection) {
	for _, x := range standing {
		if x.Type == p.typ && p.adds(blamed(x.Error, x.Resources)) {
			out = append(out, x)
		}
	}
	return out
}

func (p pending) adds(names []string) bool {
	return slices.ContainsFunc(p.add, func(a *resource.Resource) bool { return slices.Contains(names, a.Name) })
}

func reasons(rejected []snapshot.Rejection) (texts []string) {
	for _, x := range rejected {
		texts = append(texts, x.Error)
	}
	return texts
}

// again has the responses wait that Envoy heard together with a refused one: it may have
// taken nothing of them, and gets them once more.
func (r *Relay) again(open []pending, rejected []snapshot.Rejection) {
	for i := range open {
		for _, x := range rejected {
			if x.Type == open[i].typ && open[i].adds(x.Resources) {
				open[i].revision = r.revision
			}
		}
	}
}

// revert puts the last good version in the place of what was refused. The others
// of the response stay and are sent once more, since a response that could not
// be decoded was not applied at all.
func (r *Relay) revert(p pending, rejected []snapshot.Rejection) {
	for _, x := range rejected {
		for _, name := range blamed(x.Error, x.Resources) {
			i := slices.IndexFunc(p.add, func(a *resource.Resource) bool { return a.Name == name })
			if i < 0 || r.current[p.typ][name] != p.add[i] {
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

// keep takes a settled response into what is good and returns what changed by it. What
// was reverted is no longer current and is passed over.
func (r *Relay) keep(p pending) (put []*resource.Resource, dropped []string) {
	for _, a := range p.add {
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
	for _, name := range p.remove {
		if r.current[p.typ][name] == nil && r.good[p.typ][name] != nil {
			r.locked(func() { r.good.drop(p.typ, name) })
			dropped = append(dropped, name)
		}
	}
	return put, dropped
}
