package proxytemplate

import (
	"errors"
	"fmt"
	"slices"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshgate/meshgate/xds/draft"
)

// filter is a network filter or an HTTP filter.
type filter interface {
	proto.Message
	GetName() string
	GetTypedConfig() *anypb.Any
}

// inListener changes the filters of a listener, and the virtual hosts of a table that is in it.
func (s *step) inListener(origin string, l *listenerv3.Listener) error {
	if s.match.ListenerName != "" && s.match.ListenerName != l.GetName() || !tagged(l, s.match.ListenerTags) {
		return nil
	}
	for _, c := range slices.Concat(l.GetFilterChains(), []*listenerv3.FilterChain{l.GetDefaultFilterChain()}) {
		var err error
		switch {
		case c == nil:
		case s.kind == sortNetworkFilter:
			c.Filters, err = filters(s, origin, c.GetFilters(), isLast[*listenerv3.Filter])
		case s.kind == sortHTTPFilter, s.kind == sortVirtualHost:
			err = s.inManagers(origin, c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// inManagers changes what is inside the connection managers of a chain.
func (s *step) inManagers(origin string, c *listenerv3.FilterChain) error {
	for _, f := range c.GetFilters() {
		packed := f.GetTypedConfig()
		if packed.MessageName() != connectionManager {
			continue
		}
		m := new(hcmv3.HttpConnectionManager)
		err := packed.UnmarshalTo(m)
		switch {
		case err != nil:
		case s.kind == sortHTTPFilter:
			m.HttpFilters, err = filters(s, origin, m.GetHttpFilters(), isLast[*hcmv3.HttpFilter])
		case origin == draft.OriginOutbound && m.GetRouteConfig() != nil && s.ofTable(m.GetRouteConfig().GetName()):
			err = s.hosts(m.GetRouteConfig())
		}
		if err != nil {
			return err
		}
		if packed.Value, err = (proto.MarshalOptions{Deterministic: true}).Marshal(m); err != nil {
			return err
		}
	}
	return nil
}

// isLast reports whether a filter must stay the last one of its list.
func isLast[F filter](f F) bool {
	name := f.GetTypedConfig().MessageName()
	return name == tcpProxy || name == connectionManager || name == router
}

// filters applies a step to a list of filters. Nothing is added after the one that last is about.
func filters[F filter](s *step, origin string, all []F, last func(F) bool) ([]F, error) {
	if s.operation == opPatch || s.operation == opRemove {
		return changed(s, origin, all)
	}
	added, ok := proto.Clone(s.value).(F)
	if !ok {
		return nil, fmt.Errorf("it is a %T", s.value)
	}
	// Envoy looks up what routes say to a filter by its name, so a second one of a name would
	// obey, and use up, what is meant for the first.
	if slices.ContainsFunc(all, func(f F) bool { return f.GetName() == added.GetName() }) {
		return all, fmt.Errorf("there is a filter %s already", added.GetName())
	}
	end := len(all)
	if i := slices.IndexFunc(all, last); i >= 0 {
		end = i
	}
	at := slices.IndexFunc(all, func(f F) bool { return s.named(f.GetName()) })
	switch {
	case s.operation == opAddFirst:
		at = 0
	case s.operation == opAddLast:
		at = end
	case at < 0:
		return all, nil // there is no such filter here
	case s.operation == opAddAfter:
		at = min(at+1, end)
	}
	return slices.Insert(slices.Clone(all), at, added), nil
}

// changed patches or removes the filters that match. Those that must not be changed stay.
func changed[F filter](s *step, origin string, all []F) (kept []F, err error) {
	for _, f := range all {
		if !s.named(f.GetName()) {
			kept = append(kept, f)
			continue
		}
		failed := s.permitted(origin, f, isLast(f))
		switch {
		case failed != nil:
		case s.operation == opRemove:
			continue
		default:
			failed = merge(f.ProtoReflect(), proto.Clone(s.value).ProtoReflect())
		}
		err = errors.Join(err, failed)
		kept = append(kept, f)
	}
	return kept, err
}

// permitted returns an error for a filter that the step must not change: one by which the mesh
// refuses callers, and what it forwards with.
func (s *step) permitted(origin string, f filter, last bool) error {
	name := string(f.GetTypedConfig().MessageName())
	switch {
	case !slices.Contains(networkFilters, name) && !slices.Contains(httpFilters, name):
		return fmt.Errorf("%s is not for templates to change", f.GetName())
	case s.operation == opRemove && last:
		return fmt.Errorf("without %s nothing is forwarded", f.GetName())
	case origin == draft.OriginInbound && name == localRateLimit:
		return fmt.Errorf("%s of an inbound belongs to its rate limits", f.GetName())
	}
	return nil
}
