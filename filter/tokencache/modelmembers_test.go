package tokencache

import (
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// otherPlane is a control plane that comes into the group of a model and leaves it.
const otherPlane = "plane-2"

// planeOf is who holds a token of a model.
func planeOf(i int) string {
	if i < modelTokens/2 {
		return testPlane
	}
	return otherPlane
}

// modelMembers is what a control plane knows of whose credentials its filter accepts.
type modelMembers struct {
	// told is what the link was told, in force from a position on; known is what the filter
	// has confirmed, nil if nobody knows.
	told, known *contract.Scopes
	at          contract.Position
	// of is the last change, and left says that it was confirmed that the other one has left.
	of   version
	left bool
}

// welcome notes what a filter is welcomed with; anew says that it has to start anew.
func (m *modelMembers) welcome(of *contract.Scopes, head contract.Position) (anew bool) {
	m.told = of
	if anew = !of.Continues(m.known); anew {
		m.known, m.at = nil, head
	}
	return anew
}

func (m *modelMembers) ack(at contract.Position) {
	if at >= m.at {
		m.known = m.told
	}
}

// scopes is what the group consists of.
func (m *model) scopes() *contract.Scopes {
	of := groupOf(testPlane, otherPlane)
	if m.store.apart {
		of = groupOf(testPlane)
	}
	if m.w.clock.Now().millis() < m.store.sinceAt+(contract.RecordLife+10*time.Minute).Milliseconds() {
		of.Since = m.store.since
	}
	return of
}

// holds reports whether a token is of a member.
func (m *model) holds(i int) bool { return m.scopes().Has(planeOf(i)) }

// hasLeft is the change by which the holder of a token is confirmed to have left. Who comes
// back while a look-up is under way may be found by it.
func (m *model) hasLeft(i int) version {
	if m.members.left && !m.holds(i) {
		return m.members.of
	}
	return version{}
}

func (m *model) writeMembers() {
	of := m.scopes()
	m.redis[contract.RedisMembersKey(of.Of)] = contract.Members{Epoch: m.epoch, Members: of.Members, Since: of.Since}.Marshal()
}

// reshape notes what an entry tells a link, whether that arrives or not.
func (m *model) reshape(e modelEntry) {
	if e.scopes != nil && m.link != nil {
		m.members.told, m.members.known, m.members.at = e.scopes, nil, m.head()
	}
}

// toggleMember has the other control plane leave, or come. What it holds is not revoked.
func (m *model) toggleMember(int) {
	m.store.revision++
	m.store.apart, m.store.since, m.store.sinceAt = !m.store.apart, m.store.revision, m.w.clock.Now().millis()
	m.members.of, m.members.left = version{m.lineage, m.store.revision}, false
	m.sharing = modelSharing{of: m.members.of}
	m.publish(&publication{reshapes: true, shares: true, of: m.members.of}, nil)
}

// modelSharing is the last change by which the two may have come to share something as
// members of the group, and whether it was confirmed.
type modelSharing struct {
	of        version
	confirmed bool
}

// These two tokens are of credentials that may come to share what upstreams are told. The
// other control plane is the one that makes it so.
const (
	sharedToken = 1
	sharedOther = sharedToken + modelTokens/2
)

// isShared reports whether two members have what upstreams would be told of a token.
func (m *model) isShared(i int) bool {
	return m.store.shared && !m.store.apart && (i == sharedToken || i == sharedOther)
}

// sharedSince is the change by which it is confirmed that a token is nobody's in the group.
func (m *model) sharedSince(i int) version {
	if m.sharing.confirmed && m.isShared(i) {
		return m.sharing.of
	}
	return version{}
}

// toggleShared has the other control plane change a credential: it comes to share something
// with one of the first, or shares it no more. Only who is in a group with it is concerned.
func (m *model) toggleShared(int) {
	m.store.revision++
	m.store.shared = !m.store.shared
	items := []contract.Invalidation{owners(sharedOther)[0]}
	if m.isShared(sharedToken) {
		items = append(items, owners(sharedToken)[0])
	}
	for i := range items {
		m.store.owners[items[i]] = m.store.revision
		items[i].Revision = m.store.revision
	}
	m.sharing = modelSharing{of: version{m.lineage, m.store.revision}}
	m.publish(&publication{shares: true, of: m.sharing.of}, items)
}

// seed has a gateway of its own control plane ask for a token, so that Redis holds it.
func (m *model) seed(i int) {
	if m.inOrder && m.writable {
		m.refill(i % modelTokens)
	}
}
