// Package xdstest is a delta ADS client for tests that holds what an Envoy would hold. It
// follows the observed behaviour of Envoy 1.39, not only the protocol. Removals of
// assignments, routes and secrets have no effect. The answer to clusters is withheld until
// they are warm. A changed cluster warms until an assignment arrives after it, and the client
// does not ask for it again. Listeners are requested once all clusters are warm.
package xdstest

import (
	"context"
	"fmt"
	"sync"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/meshgate/meshgate/xds/resource"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// Options configure a client.
type Options struct {
	// Node is the node id. Token, if set, goes into the authorization metadata.
	Node, Token string
	// Reject returns the text of a refusal for a whole response, "" to accept it.
	Reject func(t resource.TypeURL, names []string) string
	// Refuse returns why one resource is refused, "" to accept it. The other resources of the
	// response are applied, as an Envoy does if it could decode the response.
	Refuse func(t resource.TypeURL, name string) string
	// Hold makes the client withhold all answers until Release.
	Hold bool
	// Versions are what a returning proxy has; see Client.Versions.
	Versions map[resource.TypeURL]map[string]string
	// Subscribed are the names that a returning proxy lists.
	Subscribed map[resource.TypeURL][]string
	// Relay makes the client subscribe to everything of every type at once.
	Relay bool
}

// Message is one response as it arrived.
type Message struct {
	Type    resource.TypeURL
	Names   []string
	Removed []string
}

// Client is one stream. Its methods may be called from any goroutine.
type Client struct {
	opt    Options
	cancel context.CancelFunc
	stream grpc.BidiStreamingClient[discovery.DeltaDiscoveryRequest, discovery.DeltaDiscoveryResponse]
	ended  chan struct{}

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at every event
	err     error
	types   map[resource.TypeURL]*holding
	warming map[string]struct{}
	edsOf   map[string]string // cluster -> assignment name
	log     []Message
	acks    []*discovery.DeltaDiscoveryRequest // withheld
	held    bool
	first   bool // the next request is the first of the stream
	acked   int
	nacked  int
	// refused are the versions that were refused and not sent again since, by type and name;
	// "" for a removal.
	refused map[resource.TypeURL]map[string]string
}

// holding is what the client has of one type.
type holding struct {
	asked bool
	names map[string]struct{}
	has   map[string]*resource.Resource
}

// Dial opens a stream and sends its first request. Close ends it.
func Dial(ctx context.Context, conn grpc.ClientConnInterface, opt Options) (*Client, error) {
	ctx, cancel := context.WithCancel(ctx)
	if opt.Token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", opt.Token)
	}
	stream, err := discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("open the stream: %w", err)
	}
	c := &Client{
		opt: opt, cancel: cancel, stream: stream, ended: make(chan struct{}), changed: make(chan struct{}),
		types: map[resource.TypeURL]*holding{}, warming: map[string]struct{}{}, edsOf: map[string]string{},
		held: opt.Hold, first: true, refused: map[resource.TypeURL]map[string]string{},
	}
	for _, t := range resource.Types {
		c.refused[t] = map[string]string{}
		c.types[t] = &holding{names: map[string]struct{}{}, has: map[string]*resource.Resource{}}
		for name, version := range opt.Versions[t] {
			// A returning proxy of a test knows only the versions of what it had before.
			c.types[t].has[name] = &resource.Resource{Type: t, Name: name, Version: version}
		}
	}
	c.mu.Lock()
	c.begin()
	c.mu.Unlock()
	go c.read()
	return c, nil
}

// begin sends the first requests. The caller holds mu.
func (c *Client) begin() {
	switch {
	case c.opt.Relay:
		for _, t := range resource.Types {
			c.ask(t, "*")
		}
	case c.opt.Versions != nil:
		for _, t := range resource.Types {
			if t == resource.Cluster || t == resource.Listener || len(c.opt.Subscribed[t]) > 0 {
				c.ask(t, c.opt.Subscribed[t]...)
			}
		}
	default:
		c.ask(resource.Cluster)
	}
}

// ask subscribes to names. The caller holds mu.
func (c *Client) ask(t resource.TypeURL, names ...string) {
	h := c.types[t]
	r := &discovery.DeltaDiscoveryRequest{TypeUrl: string(t), ResourceNamesSubscribe: names}
	if !h.asked {
		r.InitialResourceVersions = c.opt.Versions[t]
	}
	h.asked = true
	for _, n := range names {
		h.names[n] = struct{}{}
	}
	c.send(r)
}

// send names the node only in the first message, as Envoy does.
func (c *Client) send(r *discovery.DeltaDiscoveryRequest) {
	if c.first {
		r.Node, c.first = &corev3.Node{Id: c.opt.Node}, false
	}
	// Recv returns the error of a failed send.
	_ = c.stream.Send(r)
}

// Send sends a request unchanged, for things that a proxy should not do.
func (c *Client) Send(r *discovery.DeltaDiscoveryRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.send(r)
}

// Release sends the withheld answers and withholds no more.
func (c *Client) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = false
	for _, a := range c.acks {
		c.send(a)
		c.acked++
	}
	c.acks = nil
	c.warmed() // what waits for an answer may have come meanwhile
	c.moved()
}

// Close ends the stream and waits for its goroutine.
func (c *Client) Close() {
	c.cancel()
	<-c.ended
}

func (c *Client) read() {
	defer close(c.ended)
	for {
		m, err := c.stream.Recv()
		c.mu.Lock()
		if err != nil {
			c.err = err
			c.moved()
			c.mu.Unlock()
			return
		}
		c.apply(m)
		c.moved()
		c.mu.Unlock()
	}
}

func (c *Client) moved() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *Client) answer(m *discovery.DeltaDiscoveryResponse, refusal string) {
	r := &discovery.DeltaDiscoveryRequest{TypeUrl: m.GetTypeUrl(), ResponseNonce: m.GetNonce()}
	if refusal != "" {
		r.ErrorDetail = &status.Status{Code: 13, Message: refusal}
		c.nacked++
		c.send(r)
		return
	}
	if c.held || (resource.TypeURL(m.GetTypeUrl()) == resource.Cluster && len(c.warming) > 0) {
		c.acks = append(c.acks, r)
		return
	}
	c.acked++
	c.send(r)
}
