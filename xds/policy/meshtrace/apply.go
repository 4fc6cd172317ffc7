package meshtrace

import (
	"fmt"

	tagv3 "github.com/envoyproxy/go-control-plane/envoy/type/tracing/v3"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/collector"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/target"
	"github.com/meshgate/meshgate/xds/policy/tracing"
)

// cluster is the name of the cluster of the collector, of which a proxy has one.
var cluster = draft.Marked("meshtrace")

// merged returns what chosen policies come to.
func merged(chosen []*view.Policy) *Conf {
	conf, _ := target.For(target.Entries(chosen, items), mesh.Tags{}, target.Fields[Conf])
	if conf == nil {
		return &Conf{}
	}
	return conf
}

// found is the collector of chosen policies. With a problem there are no spans.
type found struct {
	tracing.Spans
	problem string
}

// Problem implements policy.Problematic.
func (f found) Problem() string { return f.problem }

// facts reads the collector. One that cannot be used may have been stored before it was
// refused.
func facts(_ policy.World, chosen []*view.Policy) any {
	c := merged(chosen)
	if len(c.Backends) == 0 {
		return found{}
	}
	server, wrong := c.Backends[0].collector()
	if len(wrong) > 0 {
		return found{problem: fmt.Sprintf("the backend cannot be used (default.backends[0]%s: %s): nothing is traced", wrong[0].Path, wrong[0].Message)}
	}
	return found{Spans: tracing.Spans{Cluster: cluster, Collector: server, Sampling: c.sampling()}}
}

func (c *Conf) sampling() tracing.Sampling {
	if c.Sampling == nil {
		return tracing.Upto(nil)
	}
	s := tracing.Upto(c.Sampling.Overall)
	if c.Sampling.Client != nil {
		s.Client = *c.Sampling.Client
	}
	if c.Sampling.Random != nil {
		s.Random = *c.Sampling.Random
	}
	return s
}

// tags returns the tags of spans. Of two with one name, the first counts, as in Envoy.
func (c *Conf) tags() (out []*tagv3.CustomTag) {
	for _, t := range c.Tags {
		switch {
		case t.Literal != nil && *t.Literal != "":
			out = append(out, collector.Literal(t.Name, *t.Literal))
			continue
		case t.Header == nil:
			continue
		}
		out = append(out, &tagv3.CustomTag{Tag: t.Name, Type: &tagv3.CustomTag_RequestHeader{RequestHeader: &tagv3.CustomTag_Header{
			Name: t.Header.Name, DefaultValue: t.Header.Default,
		}}})
	}
	return out
}

// spans returns what was found for a selection, or nil if there are no spans.
func spans(s *policy.Selection) *tracing.Spans {
	f, _ := s.Facts.(found)
	if !f.Traced() {
		return nil
	}
	return &f.Spans
}

func inbound(d *draft.Inbound, s *policy.Selection) error {
	if t := spans(s); t != nil {
		return t.Inbound(d, merged(s.Policies).tags()...)
	}
	return nil
}

func outbound(d *draft.Outbound, s *policy.Selection) error {
	if t := spans(s); t != nil {
		return t.Outbound(d, merged(s.Policies).tags()...)
	}
	return nil
}

func contribute(d *draft.Contribution, s *policy.Selection) error {
	if t := spans(s); t != nil {
		return t.Contribute(d)
	}
	return nil
}
