package meshaccesslog

import (
	"slices"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/logsink"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/logging"
	"github.com/meshgate/meshgate/xds/policy/target"
)

// confFor returns what policies say about somebody with some tags; nil if they say nothing.
func confFor(chosen []*view.Policy, of func(any) []target.Item[Conf], tags mesh.Tags) *Conf {
	conf, _ := target.For(target.Entries(chosen, of), tags, target.Last[Conf])
	return conf
}

func called(service string) mesh.Tags { return mesh.Tags{mesh.TagService: service} }

func inbound(d *draft.Inbound, s *policy.Selection) error {
	if s == nil {
		return nil
	}
	logs, err := confFor(s.Policies, from, mesh.Tags{}).loggers(logging.AtInbound(d))
	logging.Inbound(d, logs...)
	return err
}

func outbound(d *draft.Outbound, s *policy.Selection) error {
	logs, err := confFor(s.Policies, to, called(d.Service)).loggers(logging.AtOutbound(d))
	logging.Outbound(d, logs...)
	return err
}

func (c *Conf) loggers(at logging.Place) (out []*accesslogv3.AccessLog, err error) {
	if c == nil {
		return nil, nil
	}
	for i := range c.Backends {
		log, err := c.Backends[i].logger(at)
		if err != nil {
			return nil, err
		}
		out = append(out, log)
	}
	return out, nil
}

func (b *Backend) logger(at logging.Place) (*accesslogv3.AccessLog, error) {
	if o := b.OpenTelemetry; o != nil {
		c, err := o.collector()
		if err != nil {
			return nil, err
		}
		record, err := logging.RecordBody(o.Body)
		if err != nil {
			return nil, err
		}
		return at.ToCollector(c, record, members(o.Attributes))
	}
	sink, format := b.sink()
	if format == nil {
		return at.ToSink(sink, "", nil)
	}
	if format.Plain != nil {
		return at.ToSink(sink, *format.Plain, nil)
	}
	return at.ToSink(sink, "", members(format.JSON))
}

func members(all []Field) (out []logging.Field) {
	for _, f := range all {
		out = append(out, logging.Field{Key: f.Key, Format: f.Value})
	}
	return out
}

// sink returns where lines go, and their format. There is none for a collector.
func (b *Backend) sink() (logsink.Sink, *Format) {
	switch {
	case b.File != nil:
		return logsink.Sink{File: b.File.Path}, b.File.Format
	case b.TCP != nil:
		return logsink.Sink{TCP: b.TCP.Address}, b.TCP.Format
	}
	return logsink.Sink{}, nil
}

// contribute tells of everything that the policies name, because it is not known for which place
// they were chosen. A sink without lines and a collector without records cost nothing.
func contribute(d *draft.Contribution, s *policy.Selection) error {
	told := map[any]bool{}
	for _, p := range s.Policies {
		for _, item := range slices.Concat(from(p.Spec), to(p.Spec)) {
			if item.Default == nil {
				continue
			}
			for i := range item.Default.Backends {
				if err := item.Default.Backends[i].tell(d, told); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// tell adds what a backend needs, unless it was told already.
func (b *Backend) tell(d *draft.Contribution, told map[any]bool) error {
	if o := b.OpenTelemetry; o != nil {
		c, err := o.collector()
		if err != nil || told[c] {
			return err
		}
		told[c] = true
		return c.Contribute(d)
	}
	sink, _ := b.sink()
	if (sink == logsink.Sink{}) || told[sink] {
		return nil
	}
	told[sink] = true
	d.Clusters = append(d.Clusters, sink.Describe())
	return nil
}
