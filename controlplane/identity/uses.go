package identity

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// usesGrace is how long nodes have to show their tokens after a start of the control plane.
// Only after that does the silence of a node mean that it uses no key. Nodes try every few
// seconds.
const usesGrace = 30 * time.Second

// maxNamed bounds the number of nodes that a refusal names.
const maxNamed = 10

// Uses remembers which key signed the token that each node last showed, so that no key is
// deleted while nodes need it. It knows the nodes that have come since the control plane
// started, until their tokens end.
type Uses struct {
	now   func() time.Time
	start time.Time

	mu sync.Mutex
	by map[string]use
}

type use struct {
	key   string
	until time.Time
	// linked says that the node has an agent, which shows its token again once it has taken
	// another one. Streams of such a node keep the token that they began with.
	linked bool
}

// NewUses returns uses of a control plane that starts now.
func NewUses(now func() time.Time) *Uses {
	return &Uses{now: now, start: now(), by: map[string]use{}}
}

// KeyID returns the id of the key that a token names. It does not check the token.
func KeyID(token string) string {
	j, _, err := jwt.NewParser().ParseUnverified(strings.TrimPrefix(token, "Bearer "), &jwt.RegisteredClaims{})
	if err != nil {
		return ""
	}
	kid, _ := j.Header["kid"].(string)
	return kid
}

// Streamed records that a node opened a stream with a valid token of a key.
func (u *Uses) Streamed(node, key string, until time.Time) {
	u.note(node, use{key: key, until: until})
}

// Linked records that an agent opened its link with a valid token of a key.
func (u *Uses) Linked(node, key string, until time.Time) {
	u.note(node, use{key: key, until: until, linked: true})
}

func (u *Uses) note(node string, n use) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if old, ok := u.by[node]; ok && old.linked && !n.linked && u.now().Before(old.until) {
		return
	}
	u.by[node] = n
}

// Forget records that a node no longer exists.
func (u *Uses) Forget(node string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.by, node)
}

// Key returns the key of the token that a node last showed, or "" if none is known.
func (u *Uses) Key(node string) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.by[node].key
}

// Renewed reports whether a node has shown a good token of another key since it showed one
// of this key. Connections that it opened with the old token then no longer represent what
// it holds.
func (u *Uses) Renewed(node, key string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	n, known := u.by[node]
	return known && key != "" && n.key != key && u.now().Before(n.until)
}

// Of lists the nodes with a prefix whose tokens were signed with a key.
func (u *Uses) Of(prefix, key string) []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []string
	now := u.now()
	for node, n := range u.by {
		switch {
		case !now.Before(n.until):
			delete(u.by, node)
		case n.key == key && strings.HasPrefix(node, prefix):
			out = append(out, node)
		}
	}
	slices.Sort(out)
	return out
}

// force is what a refusal to delete a key offers.
const force = ", or repeat this with ?force=true: every token of it is then refused"

// lastKey refuses, as a Conflict, to delete the last key.
func lastKey(what string, last bool) error {
	if last {
		return fault.New(fault.Conflict, "%s is the last one: add another one first%s", what, force)
	}
	return nil
}

// MayDelete refuses, as a Conflict, to delete a key that is the last one, or that signed the
// tokens of nodes with the prefix. what names the key to people.
func (u *Uses) MayDelete(what, prefix, key string, last bool) error {
	if err := lastKey(what, last); err != nil {
		return err
	}
	if users := u.Of(prefix, key); len(users) > 0 {
		return fault.New(fault.Conflict, "%s is in use by the tokens of %s: wait until they have taken new ones%s", what, Named(users), force)
	}
	if left := u.start.Add(usesGrace).Sub(u.now()); left > 0 {
		return fault.New(fault.Conflict, "%s may be in use: the control plane has just started, and nodes have %s more to show their tokens: try again then%s",
			what, left.Round(time.Second), force)
	}
	return nil
}

// Named lists nodes in a text for people.
func Named(nodes []string) string {
	text := "1 node"
	if n := len(nodes); n != 1 {
		text = fmt.Sprintf("%d nodes", n)
	}
	shown := nodes[:min(len(nodes), maxNamed)]
	more := ""
	if len(shown) < len(nodes) {
		more = ", …"
	}
	return text + " (" + strings.Join(shown, ", ") + more + ")"
}
