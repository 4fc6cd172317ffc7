package insight

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/controlplane/mesh"
)

// Types of nodes.
const (
	Sidecar = "sidecar"
	Gateway = "gateway"
	Ingress = mesh.ProxyIngress // of a zone
	Egress  = mesh.ProxyEgress  // of a zone
)

// States of a node. One that is refused is away, too: the last thing that was heard of
// it is that it was turned away.
const (
	Connected = "connected"
	Away      = "away"
	Refused   = "refused"
)

// Node is what is known of one node, sidecar or gateway, connected or away. Who is
// listed was authenticated once, or has a Dataplane or an enrolment; see [Insights.Nodes].
type Node struct {
	// ID is the node id, Type one of the types.
	ID, Type string
	// Scope is the mesh of a sidecar, the control plane of a gateway, and empty for a proxy of
	// the zone; Name is its name there.
	Scope, Name string
	// State is one of the states.
	State string
	// Since is when it connected, or when its last stream ended; zero if it never had
	// one.
	Since time.Time
	// First is when it connected for the first time, as far as is remembered; zero if it never did.
	First time.Time
	// Ended is what the proxy was told at the end of its last stream; empty if it left or
	// its connection broke.
	Ended string
	// Returning says of one that is away that it was sent off a moment ago to come back with
	// the newer token that it has.
	Returning bool
	// Refusal is the newest one since it was connected last. A connected node may have
	// one, too: of its filter, or of somebody else who comes with its name.
	Refusal *Refusal
	// Trouble is what its agent says is the matter with its Envoy, nil if nothing is or
	// nobody says.
	Trouble *Trouble
	// NotReady is the message of its /ready while its agent says that this is not 200, and
	// Conditions are what its agent says is not in order.
	NotReady   string
	Conditions []health.Condition
	// NotReadySince is when the agent said so first, whatever the messages since, on a link
	// to this process; zero if it is ready.
	NotReadySince time.Time
	// Versions are what it said of itself; nil if it said nothing.
	Versions *Versions
	// CertificateExpires is the end of the newest identity that it was given,
	// TokenExpires that of the token its last stream showed; zero if not known.
	CertificateExpires, TokenExpires time.Time
	// Sent is the newest revision of which something was sent on the last stream.
	Sent uint64
	// Last is how far it was when its last stream ended.
	Last Last
}

// Trouble is what is the matter with the Envoy of a connected node.
type Trouble struct {
	Since  time.Time `json:"since"`
	Reason string    `json:"reason"`
}

// Refusal is why a node was turned away.
type Refusal struct {
	// Since is when it was refused first for this reason, Time when last, Count how
	// often.
	Since time.Time `json:"since"`
	Time  time.Time `json:"time"`
	Count uint64    `json:"count"`
	// Reason is for operators; the proxy is told less.
	Reason string `json:"reason"`
	// Proved says that it was the node, by a token of it that does not count. Otherwise it
	// was anybody who knows its name, and the reason is the first since it was connected.
	Proved bool `json:"proved"`
}

// Last is how far a node was when it was looked at last.
type Last struct {
	// Acknowledged is the newest revision of which it held everything.
	Acknowledged uint64 `json:"acknowledged,omitempty"`
	// Rejected is what it refused.
	Rejected []Rejected `json:"rejected,omitempty"`
}

// Rejected is a refusal of configuration in the proxy's words, a constant for secrets.
type Rejected struct {
	Type      string   `json:"type"`
	Resources []string `json:"resources,omitempty"`
	Error     string   `json:"error"`
}

// Limits of what is kept of refusals of configuration.
const (
	maxRejected  = 16
	maxResources = 16
)

// remembered are what is known of a node besides its streams and identities. They are part of
// the stored row and of no document of the API.
type remembered struct {
	Refusal     *Refusal   `json:"refusal,omitempty"`
	First       *time.Time `json:"first,omitempty"`
	Token       *time.Time `json:"token,omitempty"`
	Certificate *time.Time `json:"certificate,omitempty"` // of gateways; see MTLS
	Earlier     *earlier   `json:"earlier,omitempty"`
	Ended       string     `json:"ended,omitempty"`
	Sent        uint64     `json:"sent,omitempty"`
	Last
}

// earlier is of the certificates before the newest, those that end after it: the latest end
// and the longest life.
type earlier struct {
	Expires time.Time     `json:"expires"`
	Life    time.Duration `json:"life"`
}

// gateway reports whether an id is that of a gateway. Its mesh is cp/<control plane>,
// which no mesh is called.
func (i id) gateway() bool { return strings.HasPrefix(i.mesh, gatewayScope) }

const gatewayScope = "cp/"

// zonal returns the type of a proxy of a zone, "" for other nodes.
func (i id) zonal() string {
	for _, t := range mesh.ZoneProxies {
		if i.mesh == mesh.ZoneNodeScope(t) {
			return t
		}
	}
	return ""
}

// types are all types of nodes.
var types = append([]string{Sidecar, Gateway}, mesh.ZoneProxies[:]...)

// byType counts nothing of each type.
func byType() map[string]int {
	out := map[string]int{}
	for _, typ := range types {
		out[typ] = 0
	}
	return out
}

// node is the node id.
func (i id) node() string {
	if i.gateway() || i.zonal() != "" {
		return i.mesh + "/" + i.name
	}
	return i.mesh + "." + i.name
}

// Nodes lists every node, in the order of the ids: who was authenticated once, and who
// is expected ([Insights.Expect]), until it is forgotten or removed.
func (s *Insights) Nodes() []Node {
	out := s.nodes()
	slices.SortFunc(out, func(a, b Node) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// nodes is Nodes in no order: streams do not wait while it is made.
func (s *Insights) nodes() []Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropOrphans()
	out := make([]Node, 0, len(s.proxies))
	for at, p := range s.proxies {
		out = append(out, p.node(at))
	}
	return out
}

// Node returns one node by its id.
func (s *Insights) Node(node string) (Node, bool) {
	at, ok := parse(node)
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.proxies[at]
	if !ok || p == nil {
		return Node{}, false
	}
	return p.node(at), true
}

// Counts counts the nodes by type and state; all combinations are there.
func (s *Insights) Counts() map[string]map[string]int {
	out := map[string]map[string]int{}
	for _, typ := range types {
		out[typ] = map[string]int{Connected: 0, Away: 0, Refused: 0}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropOrphans()
	for at, p := range s.proxies {
		out[at.typ()][p.state()]++
	}
	return out
}

// Silent counts the connected nodes by type whose agents say that their Envoys are away.
func (s *Insights) Silent() map[string]int {
	out := byType()
	s.mu.Lock()
	defer s.mu.Unlock()
	for at, p := range s.proxies {
		if p.trouble != nil && p.streams > 0 {
			out[at.typ()]++
		}
	}
	return out
}

// Troubled counts the connected nodes by type whose agents say that something is the matter.
func (s *Insights) Troubled() map[string]int {
	out := byType()
	s.mu.Lock()
	defer s.mu.Unlock()
	for at, p := range s.proxies {
		if p.streams > 0 && (p.notReady != "" || len(p.conditions) > 0) {
			out[at.typ()]++
		}
	}
	return out
}

// AwaySince says by type since when the node is away that is away the longest. A type is
// missing if nobody of it is; a node that never connected is away since no moment.
func (s *Insights) AwaySince() map[string]time.Time {
	out := map[string]time.Time{}
	s.mu.Lock()
	defer s.mu.Unlock()
	for at, p := range s.proxies {
		sub := p.last()
		if p.streams > 0 || sub == nil || sub.DisconnectTime == nil {
			continue
		}
		if first, any := out[at.typ()]; !any || sub.DisconnectTime.Before(first) {
			out[at.typ()] = *sub.DisconnectTime
		}
	}
	return out
}

func (i id) typ() string {
	switch zonal := i.zonal(); {
	case i.gateway():
		return Gateway
	case zonal != "":
		return zonal
	}
	return Sidecar
}

// state is that of a node. A refusal counts once it is away, because before it was that of
// somebody else who came with its name, and if it was proved to be that of the node.
func (p *proxy) state() string {
	sub := p.last()
	switch {
	case p.streams > 0:
		return Connected
	case p.facts.Refusal != nil && p.facts.Refusal.Proved && (sub == nil || sub.DisconnectTime == nil || !p.facts.Refusal.Time.Before(*sub.DisconnectTime)):
		return Refused
	}
	return Away
}

// last is the newest subscription, nil if there is none.
func (p *proxy) last() *subscription {
	if len(p.subscriptions) == 0 {
		return nil
	}
	return p.subscriptions[len(p.subscriptions)-1]
}

func (p *proxy) node(at id) Node {
	n := Node{
		ID: at.node(), Type: at.typ(), Scope: strings.TrimPrefix(at.mesh, gatewayScope), Name: at.name, State: p.state(),
		Ended: p.facts.Ended, Refusal: p.facts.Refusal, Versions: p.versions, Sent: p.facts.Sent, Last: p.facts.Last,
	}
	if at.zonal() != "" {
		n.Scope = ""
	}
	switch n.State {
	case Connected:
		n.Trouble, n.NotReady, n.Conditions = p.trouble, p.notReady, p.conditions
		if p.unready != nil {
			n.NotReadySince = *p.unready
		}
	case Away:
		n.Returning = p.returning != nil
	}
	if sub := p.last(); sub != nil {
		n.Since = sub.ConnectTime
		if n.State != Connected && sub.DisconnectTime != nil {
			n.Since = *sub.DisconnectTime
		}
		if n.Versions == nil {
			n.Versions = sub.Version
		}
	}
	if p.mtls != nil {
		n.CertificateExpires = p.mtls.CertificateExpirationTime
	} else if p.facts.Certificate != nil {
		n.CertificateExpires = *p.facts.Certificate
	}
	if p.facts.First != nil {
		n.First = *p.facts.First
	}
	if p.facts.Token != nil {
		n.TokenExpires = *p.facts.Token
	}
	return n
}

// Moves counts what has changed of nodes, other than how far they are, with a channel
// that the next change closes.
func (s *Insights) Moves() (uint64, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.moves, s.moved
}

// move wakes those who watch nodes. s.mu is held.
func (s *Insights) move() {
	close(s.moved)
	s.moved, s.moves = make(chan struct{}), s.moves+1
}

// Bounded cuts what a proxy refuses to what is kept of it.
func (l Last) bounded() Last {
	l.Rejected = slices.Clone(l.Rejected[:min(len(l.Rejected), maxRejected)])
	for i := range l.Rejected {
		r := &l.Rejected[i]
		r.Error = cut(r.Error, maxError)
		r.Resources = slices.Clone(r.Resources[:min(len(r.Resources), maxResources)])
		for j := range r.Resources {
			r.Resources[j] = cut(r.Resources[j], maxError)
		}
	}
	return l
}
