package relay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/meshgate/meshgate/xds/machine"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/server"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// These are the pauses between attempts. Each is reduced at random by up to half, so that many
// proxies do not return at the same time.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 2 * time.Second
)

type upstreamClient = grpc.BidiStreamingClient[discovery.DeltaDiscoveryRequest, discovery.DeltaDiscoveryResponse]

// errRefusedEarly ends a stream on which a response was confirmed early that Envoy then
// refused. On the next stream it is sent and refused again.
var errRefusedEarly = errors.New("the proxy refused what was confirmed before it was there")

// follow keeps a stream to the control plane until the context ends.
func (r *Relay) follow(ctx context.Context) {
	pause := firstPause
	for ctx.Err() == nil {
		heard, judged, err := r.interrupted(ctx)
		if ctx.Err() != nil {
			return
		}
		code := status.Code(errors.Unwrap(err))
		pause = pauseAfter(pause, heard, code)
		r.note(false, err.Error())
		if judged {
			continue
		}
		r.cfg.Log.Debug("control_plane_disconnected", "node", r.cfg.Node, "error", err)
		if !heard || lasting(code) {
			r.report(err)
		}
		if code == codes.NotFound && r.cfg.Unknown != nil {
			r.cfg.Unknown(ctx)
		}
		wait := time.NewTimer(pause/2 + rand.N(pause/2)) //nolint:gosec // jitter, not a secret
		select {
		case <-wait.C:
		case <-r.judging:
			wait.Stop()
			r.judge()
		case <-ctx.Done():
			wait.Stop()
			return
		}
		pause = min(pause*2, lastPause)
	}
}

// pauseAfter returns the pause after an attempt: the first one if the control plane let the proxy in,
// unless it sent too much, because it does so on the next stream as well.
func pauseAfter(pause time.Duration, heard bool, code codes.Code) time.Duration {
	if heard && code != codes.ResourceExhausted {
		return firstPause
	}
	return pause
}

// lasting reports whether a stream that was open ended for a reason that will end the next one, too.
func lasting(code codes.Code) bool {
	return code == codes.Unauthenticated || code == codes.PermissionDenied || code == codes.ResourceExhausted
}

// attempt opens one stream and follows it to its end. The error is never nil; heard tells
// whether the control plane let the proxy in.
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
		// The channel is taken before the progress is read, so that no event is lost.
		moved := r.local.Moved()
		if open, err = r.settle(stream, open); err != nil {
			return heard, err
		}
		if open, err = r.early(stream, open); err != nil {
			return heard, err
		}
		if heard && r.disown(open) {
			return heard, errRefusedGood
		}
		select {
		case m := <-responses:
			if m == nil {
				heard = true
				r.connected()
				continue
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

func (r *Relay) connected() {
	r.note(true, "")
	r.report(nil)
	r.cfg.Log.Info("control_plane_connected", "node", r.cfg.Node)
}

// asked returns the types in the order in which the relay asks for them. The control plane
// reads no large request before it has let the proxy in. There are few secrets, whereas
// clusters may be thousands with long names.
func asked() []resource.TypeURL {
	rest := slices.DeleteFunc(slices.Clone(resource.Types[:]), func(t resource.TypeURL) bool { return t == resource.Secret })
	return slices.Insert(rest, 0, resource.Secret)
}

// subscribe opens the stream and asks for everything, listing what is here. Content that Envoy
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
	for i, url := range asked() {
		m := &discovery.DeltaDiscoveryRequest{
			TypeUrl: string(url), ResourceNamesSubscribe: []string{"*"}, InitialResourceVersions: r.told(url),
		}
		if i == 0 {
			m.Node = &corev3.Node{Id: r.cfg.Node, UserAgentName: "meshgate", Metadata: r.cfg.Metadata}
		}
		if err := stream.Send(m); err != nil {
			// Recv returns the reason.
			if _, rerr := stream.Recv(); rerr != nil {
				err = rerr
			}
			return nil, fmt.Errorf("subscribe: %w", err)
		}
	}
	return stream, nil
}

// receive passes on the responses. The first value is nil: the headers say that the control
// plane has let this proxy in. It may have nothing else to send for a long time.
func receive(ctx context.Context, stream upstreamClient, out chan<- *discovery.DeltaDiscoveryResponse) error {
	var m *discovery.DeltaDiscoveryResponse
	header, err := stream.Header()
	if err == nil && header == nil { // the stream was refused; Recv returns the reason
		m, err = stream.Recv()
	}
	for ; err == nil; m, err = stream.Recv() {
		select {
		case out <- m:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}

// apply takes a response into the table and sends it to Envoy.
func (r *Relay) apply(m *discovery.DeltaDiscoveryResponse) pending {
	p := pending{
		typ: resource.TypeURL(m.GetTypeUrl()), nonce: m.GetNonce(),
		add: map[string]*resource.Resource{}, remove: map[string]struct{}{},
	}
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
			continue // the current version stays
		}
		p.add[res.Name] = res
		r.locked(func() { r.current.put(res) })
	}
	for _, name := range m.GetRemovedResources() {
		p.remove[name] = struct{}{}
		r.locked(func() { r.current.drop(p.typ, name) })
		if p.typ == resource.Listener {
			r.refuse(name, "")
		}
	}
	if p.typ == resource.Cluster {
		r.tellSinks() // before Envoy logs to them
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

// admit returns a resource as this machine accepts it. The error names the resource.
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
