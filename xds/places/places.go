// Package places shares places, for example of streams and links, among the holders of tokens.
// The proxies of a mesh may share one token and choose their own names, so whoever has stolen
// a token must not be able to take the places of the others.
package places

import (
	"cmp"
	"errors"
)

// Owner is the holder of a place.
type Owner struct {
	// Token is the id of the token that was presented. All tokens of a mesh without an id
	// count as one token.
	Token string
	// Mesh is the mesh of the token. It is empty for the token of a gateway, which names its
	// node.
	Mesh string
}

// Limits are numbers of places. A zero field takes its default. The defaults suffice for 5,000
// proxies with one token, each with two places while it is replaced.
type Limits struct {
	// All is the total number of places. Default 20000.
	All int
	// Kept is how many of them proxies of meshes cannot have. So gateways can return even if
	// proxies, or clients that claim to be proxies, have taken all other places. Default 2000.
	Kept int
	// Mesh is the maximum for the proxies of one mesh. Default 15000.
	Mesh int
	// Token is the maximum for the holders of one token. Default 10000.
	Token int
}

// WithDefaults fills in zero fields. The defaults are in proportion to All.
func (l Limits) WithDefaults() Limits {
	l.All = cmp.Or(l.All, 20000)
	l.Kept = cmp.Or(l.Kept, l.All/10)
	l.Mesh = cmp.Or(l.Mesh, l.All*3/4)
	l.Token = cmp.Or(l.Token, l.All/2)
	return l
}

// These errors say why there is no place.
var (
	ErrAll   = errors.New("there are too many")
	ErrKept  = errors.New("there are too many of proxies")
	ErrMesh  = errors.New("there are too many of the mesh")
	ErrToken = errors.New("there are too many with the token")
)

// Places counts the taken places. Its user must guard it.
type Places struct {
	limits  Limits
	all     int
	proxies int
	meshes  map[string]int
	tokens  map[Owner]int
}

// New returns places of which none is taken.
func New(l Limits) *Places {
	return &Places{limits: l.WithDefaults(), meshes: map[string]int{}, tokens: map[Owner]int{}}
}

// Take gives a place to an owner. The error says why there is none.
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

// Give returns a place that Take gave.
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

// All returns the total number of places.
func (p *Places) All() int { return p.limits.All }
