// Package trafficroute is the policy that decides where the requests to a service go, in which
// shares, and how endpoints are picked (requirement "TrafficRoute"). Without it an outbound
// leads nowhere.
package trafficroute

import (
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/policy"
)

// Spec is a traffic route.
type Spec struct {
	model.Labelled
	mesh.Connection
	Conf *Conf `json:"conf,omitempty"`
}

// Conf contains rules for HTTP, tried in order, and the destination of everything else: either
// Split or Destination.
type Conf struct {
	Split        []Split       `json:"split,omitempty"`
	LoadBalancer *LoadBalancer `json:"loadBalancer,omitempty"`
	Destination  mesh.Tags     `json:"destination,omitempty"`
	HTTP         []Rule        `json:"http,omitempty"`
}

// LeadsTo returns the tags of the inbounds to which the conf leads, except those with weight
// 0.
func (s *Spec) LeadsTo() (out []mesh.Tags) {
	if s.Conf == nil {
		return nil
	}
	add := func(one mesh.Tags, split []Split) {
		if len(one) > 0 {
			out = append(out, one)
		}
		for _, p := range split {
			if len(p.Destination) > 0 && (p.Weight == nil || *p.Weight > 0) {
				out = append(out, p.Destination)
			}
		}
	}
	add(s.Conf.Destination, s.Conf.Split)
	for i := range s.Conf.HTTP {
		add(s.Conf.HTTP[i].Destination, s.Conf.HTTP[i].Split)
	}
	return out
}

// Split is one destination with its share.
type Split struct {
	// Weight is relative to the sum of all weights. Nothing goes to weight 0.
	Weight      *uint32   `json:"weight,omitempty"`
	Destination mesh.Tags `json:"destination,omitempty"`
}

// Rule says where matching requests go: either Split or Destination.
type Rule struct {
	Match       *Match    `json:"match,omitempty"`
	Modify      *Modify   `json:"modify,omitempty"`
	Split       []Split   `json:"split,omitempty"`
	Destination mesh.Tags `json:"destination,omitempty"`
}

// Match is met by requests that meet all given conditions.
type Match struct {
	Method  *Text           `json:"method,omitempty"`
	Path    *Text           `json:"path,omitempty"`
	Headers map[string]Text `json:"headers,omitempty"`
}

// Text matches text in one of three ways.
type Text struct {
	Prefix *string `json:"prefix,omitempty"`
	Exact  *string `json:"exact,omitempty"`
	// Regex must match the whole text (RE2).
	Regex *string `json:"regex,omitempty"`
}

// Modify changes the forwarded requests and responses.
type Modify struct {
	Path            *Path    `json:"path,omitempty"`
	Host            *Host    `json:"host,omitempty"`
	RequestHeaders  *Headers `json:"requestHeaders,omitempty"`
	ResponseHeaders *Headers `json:"responseHeaders,omitempty"`
}

// Path replaces the matched prefix, or what a pattern matches.
type Path struct {
	RewritePrefix *string       `json:"rewritePrefix,omitempty"`
	Regex         *Substitution `json:"regex,omitempty"`
}

// Host replaces the Host header with a value or with a part of the path.
type Host struct {
	Value    *string       `json:"value,omitempty"`
	FromPath *Substitution `json:"fromPath,omitempty"`
}

// Substitution replaces what a pattern (RE2) matches; \1 is its first group.
type Substitution struct {
	Pattern      string `json:"pattern,omitempty"`
	Substitution string `json:"substitution,omitempty"`
}

// Headers adds and removes headers.
type Headers struct {
	Add    []Header     `json:"add,omitempty"`
	Remove []HeaderName `json:"remove,omitempty"`
}

// Header is a header to set or, with Append, to add to existing ones.
type Header struct {
	Name   string `json:"name,omitempty"`
	Value  string `json:"value,omitempty"`
	Append bool   `json:"append,omitempty"`
}

// HeaderName names a header.
type HeaderName struct {
	Name string `json:"name,omitempty"`
}

// LoadBalancer says how an endpoint is picked. At most one field is set; RoundRobin is the default.
type LoadBalancer struct {
	RoundRobin   *struct{}     `json:"roundRobin,omitempty"`
	LeastRequest *LeastRequest `json:"leastRequest,omitempty"`
	RingHash     *RingHash     `json:"ringHash,omitempty"`
	Random       *struct{}     `json:"random,omitempty"`
	Maglev       *Maglev       `json:"maglev,omitempty"`
}

// LeastRequest compares some endpoints and takes the least busy one.
type LeastRequest struct {
	// ChoiceCount is how many are compared; 2 if absent.
	ChoiceCount uint32 `json:"choiceCount,omitempty"`
}

// These are the hash functions of a ring.
const (
	HashXX     = "XX_HASH"
	HashMurmur = "MURMUR_HASH_2"
)

// RingHash picks endpoints by their places on a ring.
type RingHash struct {
	HashFunction string `json:"hashFunction,omitempty"`
	// MinRingSize and MaxRingSize have Envoy's defaults if absent.
	MinRingSize uint64 `json:"minRingSize,omitempty"`
	MaxRingSize uint64 `json:"maxRingSize,omitempty"`
	Hashed
}

// Maglev picks endpoints from a table.
type Maglev struct{ Hashed }

// Hashed says what of a request is hashed: requests with equal hashes reach one endpoint for as
// long as it is there. Without policies nothing is hashed, and load spreads. The usual mesh does not
// have them; it hashes the address of the workload beside the proxy, which is that of every request.
type Hashed struct {
	// HashPolicies are tried in order, and their hashes combined.
	HashPolicies []HashPolicy `json:"hashPolicies,omitempty"`
}

// HashPolicy hashes one thing, and nothing if a request does not have it. One field beside Terminal
// is set.
type HashPolicy struct {
	Header         *HashName   `json:"header,omitempty"`
	Cookie         *HashCookie `json:"cookie,omitempty"`
	SourceIP       *struct{}   `json:"sourceIp,omitempty"`
	QueryParameter *HashName   `json:"queryParameter,omitempty"`
	// Terminal ends the list if there is a hash by then.
	Terminal bool `json:"terminal,omitempty"`
}

// HashName names a header or a parameter.
type HashName struct {
	Name string `json:"name,omitempty"`
}

// HashCookie is a cookie. With TTL a client without it gets one: for so long, or until it closes if
// it is 0.
type HashCookie struct {
	Name string         `json:"name,omitempty"`
	TTL  *mesh.Duration `json:"ttl,omitempty"`
	Path string         `json:"path,omitempty"`
}

// Kind describes the resources.
var Kind = model.Describe(Spec{}, model.Kind{
	Name: "traffic_route", Path: "traffic-routes", Scoping: model.Mesh, Class: model.Config, Sealed: true,
	Secrets: []string{"/conf/http/*/modify/requestHeaders/add/*/value"}, // Authorization may be among them
	Document: &model.Document{
		Type: "TrafficRoute", Singular: "Traffic Route", Plural: "Traffic Routes",
		Policy: true, Outbound: true,
		Default:  func(any) {},
		Validate: validate,
	},
})

// Policy decides the routes of outbounds and edits their clusters.
var Policy = &policy.Policy{
	Kind: Kind, Phase: policy.Routes, Attachment: policy.ByOutbound,
	Edits:   policy.Edits{Split: split, Cluster: cluster},
	Explain: explain,
	Idle:    idle,
	Hashing: hashing,
}
