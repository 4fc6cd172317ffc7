// Package places shares places, as of streams and links, among those who hold tokens, so
// that whoever has stolen one does not take those of others: the proxies of a mesh may
// share one token and name themselves as they please.
package places

import (
	"cmp"
	"errors"
)

// Owner is who takes a place.
type Owner struct {
	// Token is the id of the token that was shown. Tokens of a mesh without one count as
	// one token.
	Token string
	// Mesh is that of the token, empty for the token of a gateway, which names its node.
	Mesh string
}

// Limits are numbers of places. A zero field takes its default. The defaults do for 5,000
// proxies with one token, each of which has two places while it is replaced.
type Limits struct {
	// All is how many there are. Default 20000.
	All int
	// Kept is how many of them proxies of meshes cannot have: gateways come back though
	// proxies, or who claims to be some, have taken all others. Default 2000.
	Kept int
	// Mesh is how many the proxies of one mesh have. Default 15000.
	Mesh int
	// Token is how many of those the holders of one token have. Default 10000.
	Token int
}

// WithDefaults fills in what is zero. What is not set shrinks with the number of all.
func (l Limits) WithDefaults() Limits {
	l.All = cmp.Or(l.All, 20000)
	l.Kept = cmp.Or(l.Kept, l.All/10)
	l.Mesh = cmp.Or(l.Mesh, l.All*3/4)
	l.Token = cmp.Or(l.Token, l.All/2)
	return l
}

// Why there is no place.
var (
	ErrAll   = errors.New("there are too many")
	ErrKept  = errors.New("there are too many of proxies")
	ErrMesh  = errors.New("there are too many of the mesh")
	ErrToken = errors.New("there are too many with the token")
)

// Places counts who has places. Whoever uses it guards it.
type Places struct {
	limits  Limits
	all     int
	proxies int
	meshes  map[string]int
	tokens  map[Owner]int
}

// New returns places that nobody has.
func New(l Limits) *Places {
	return &Places{limits: l.WithDefaults(), meshes: map[string]int{}, tokens: map[Owner]int{}}
}

// Take gives a place to an owner, or says why there is none.
func (p *Places) Take(o Owner) error {
	switch {
	case p.all >= p.limits.All:
		return ErrAll
	case o.Mesh == "":
	case p.tokens[o] >= p.limits.Token:
		return ErrToken
	case p.meshes[o.Mesh] >= p.limits.Mesh:
		return ErrMesh
	case p.proxies >= p.limits.All-p.limits.Kept:
		return ErrKept
	}
	p.count(o, 1)
	return nil
}

// Give takes a place back that Take gave.
func (p *Places) Give(o Owner) { p.count(o, -1) }

func (p *Places) count(o Owner, n int) {
	p.all += n
	if o.Mesh == "" {
		return // its node has a quota
	}
	p.proxies += n
	if p.tokens[o] += n; p.tokens[o] == 0 {
		delete(p.tokens, o)
	}
	if p.meshes[o.Mesh] += n; p.meshes[o.Mesh] == 0 {
		delete(p.meshes, o.Mesh)
	}
}

// All is how many places there are.
func (p *Places) All() int { return p.limits.All }
