package tokencache

import (
	"fmt"
	"slices"

	"github.com/meshgate/meshgate/filter/contract"
)

// modelFound is how often each token was found.
type modelFound [modelTokens]int

func (f *modelFound) all() (n int) {
	for _, k := range f {
		n += k
	}
	return n
}

// check asks about a token on both ways. What is found must not be older than the
// last revocation that was confirmed before.
func (m *model) check(i int) {
	c, hash := m.w.cache, modelHash(i)
	var since [modelTokens]asked
	for k := range since {
		since[k] = asked{m.confirmed[k], m.hasLeft(k), m.secondSince(k)}
	}
	buf := make([]byte, contract.MaxPacked)
	m.mu.Unlock() // time does not pass, but others answer
	defer m.mu.Lock()
	if p := m.proven[i]; p.holds(m.w.clock.Now()) {
		m.judgeAnswer("proof", hash, &since, p.packed)
		m.repeated++
	}
	before, proven := c.Prove(hash)
	if n, a := c.Lookup(hash, buf); a == contract.Found {
		m.judgeAnswer("memory", hash, &since, buf[:n])
		if after, ok := c.Prove(hash); proven && ok && before == after {
			m.proven[i] = provenAnswer{before, slices.Clone(buf[:n])}
		}
	}
	c.Resolve(hash, testPlugin, func(a contract.Answer, packed []byte) {
		if a == contract.Found {
			m.judgeAnswer("look-up", hash, &since, packed)
		}
	})
}

// asked is what was confirmed of a token when a question began: its last revocation, that who
// holds it has left, and that another member had first what it shares with that.
type asked struct {
	revoked, left version
	second        [len(modelPairs)]version
}

func (m *model) judgeAnswer(how string, hash contract.Hash, since *[modelTokens]asked, packed []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	spans, _ := contract.Unpacked(packed)
	var i int // several members may hold a token of that hash
	var of version
	id := spans[contract.FieldUserID]
	if _, err := fmt.Sscanf(string(packed[id.Off:id.Off+id.Len]), "%d:%d:%d", &i, &of.lineage, &of.revision); err != nil || modelHash(i) != hash {
		m.faults = append(m.faults, fmt.Sprintf("%s: another token found (%v)", how, err))
		return
	}
	m.found[i]++
	was := &since[i]
	if of.before(was.revoked) {
		m.faults = append(m.faults, fmt.Sprintf("%s: token %d found as of %v, revoked at %v", how, i, of, was.revoked))
	}
	if was.left != (version{}) && was.left == m.hasLeft(i) {
		m.faults = append(m.faults, fmt.Sprintf("%s: token %d found of who has left", how, i))
	}
	for what, since := range m.secondSince(i) {
		if was.second[what] != (version{}) && was.second[what] == since {
			m.faults = append(m.faults, fmt.Sprintf("%s: token %d found of which another member had the same first", how, i))
		}
	}
}
