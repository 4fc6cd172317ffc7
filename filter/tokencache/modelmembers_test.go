package tokencache

import "github.com/meshgate/meshgate/filter/contract"

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
	if anew = !of.Equal(m.known); anew {
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
	if m.store.apart {
		return groupOf(testPlane)
	}
	return groupOf(testPlane, otherPlane)
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
	m.redis[contract.RedisMembersKey(of.Of)] = contract.Members{Epoch: m.epoch, Members: of.Members}.Marshal()
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
	m.store.apart = !m.store.apart
	m.members.of, m.members.left = version{m.lineage, m.store.revision}, false
	m.publish(&publication{reshapes: true, of: m.members.of}, nil)
}
