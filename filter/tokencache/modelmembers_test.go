package tokencache

import (
	"slices"
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
	m.sharing = [...]modelSharing{{of: m.members.of}, {of: m.members.of}}
	m.publish(&publication{reshapes: true, of: m.members.of}, nil)
}

// modelPair are two tokens of different members that may come to share something. That of the
// one that had it first counts in the group.
type modelPair [2]int

// What members share: what upstreams are told of the owners of two tokens, and the value of
// two tokens.
const (
	sharesOwner = iota
	sharesValue
)

var modelPairs = [...]modelPair{
	sharesOwner: {sharedToken, sharedToken + modelTokens/2},
	sharesValue: {sharedValue, sharedValue + modelTokens/2},
}

const (
	sharedToken, sharedValue = 1, 2
	sharedOther, valueOther  = sharedToken + modelTokens/2, sharedValue + modelTokens/2
)

// modelHash is that of a token of a model.
func modelHash(i int) contract.Hash {
	if i == valueOther {
		i = sharedValue
	}
	return hashOf(i)
}

func modelGone(i int, revision uint64) contract.Invalidation {
	return contract.Invalidation{Subject: contract.SubjectToken, Token: modelHash(i), Revision: revision}
}

// modelSharing is the last change by which one of a pair may have come to be the second one, and
// whether it was confirmed.
type modelSharing struct {
	of        version
	confirmed bool
}

// isSecond reports whether another member had first what a token shares with its own.
func (m *model) isSecond(what, i int) bool {
	k := slices.Index(modelPairs[what][:], i)
	if k < 0 || m.store.apart {
		return false
	}
	own, others := m.store.took[what][k], m.store.took[what][1-k]
	return own != 0 && others != 0 && others < own
}

// isOwn reports whether a token counts at the gateways of its own control plane only.
func (m *model) isOwn(i int) bool { return m.isSecond(sharesOwner, i) || m.isSecond(sharesValue, i) }

// secondSince are the changes by which it is confirmed that a token does not count in the group.
func (m *model) secondSince(i int) (since [len(modelPairs)]version) {
	for what := range modelPairs {
		if m.sharing[what].confirmed && m.isSecond(what, i) {
			since[what] = m.sharing[what].of
		}
	}
	return since
}

// take notes that one of a pair has what they share from now on, or gives it away.
func (m *model) take(what, i int, has bool) {
	k := slices.Index(modelPairs[what][:], i)
	if k < 0 || has == (m.store.took[what][k] != 0) {
		return
	}
	m.store.took[what][k] = 0
	if has {
		m.store.took[what][k] = m.store.revision
	}
	m.sharing[what] = modelSharing{of: version{m.lineage, m.store.revision}}
}

// toggleShared has the owner of one of two tokens take what upstreams are told of both, or give
// it away. What is known of the other one stays.
func (m *model) toggleShared(k int) {
	i := modelPairs[sharesOwner][k%2]
	m.store.revision++
	m.take(sharesOwner, i, m.store.took[sharesOwner][k%2] == 0)
	owner := owners(i)[0]
	m.store.owners[owner] = m.store.revision
	owner.Revision = m.store.revision
	m.publish(&publication{of: version{m.lineage, m.store.revision}}, []contract.Invalidation{owner})
}

// seed has a gateway of its own control plane ask for a token, so that Redis holds it.
func (m *model) seed(i int) {
	if m.inOrder && m.writable {
		m.refill(i % modelTokens)
	}
}
