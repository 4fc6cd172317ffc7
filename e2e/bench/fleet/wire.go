package main

import (
	"errors"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// The resource types of xDS that the fleet subscribes to.
const (
	typeCluster  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	typeEndpoint = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	typeListener = "type.googleapis.com/envoy.config.listener.v3.Listener"
	typeRoute    = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
	typeSecret   = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
)

const (
	typeHTTP       = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
	typeUpstream   = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
	typeDownstream = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext"
)

// allTypes are the types in the order in which an Envoy asks for them; a kind is
// an index into it.
var allTypes = [...]string{typeCluster, typeEndpoint, typeListener, typeRoute, typeSecret}

// shortTypes are how the kinds are called in reports.
var shortTypes = [...]string{"cds", "eds", "lds", "rds", "sds"}

type kind int

const (
	cds kind = iota
	eds
	lds
	rds
	sds
	kinds
)

func kindOf(url []byte) (kind, bool) {
	for k, u := range allTypes {
		if string(url) == u {
			return kind(k), true
		}
	}
	return 0, false
}

var errWire = errors.New("malformed protobuf")

// field is one field of a message. Bytes alias the message.
type field struct {
	num    protowire.Number
	typ    protowire.Type
	bytes  []byte
	varint uint64
}

// each calls f for every field of a message, in order.
func each(b []byte, f func(field) error) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errWire
		}
		b = b[n:]
		x := field{num: num, typ: typ}
		switch typ {
		case protowire.BytesType:
			x.bytes, n = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			x.varint, n = protowire.ConsumeVarint(b)
		default:
			n = protowire.ConsumeFieldValue(num, typ, b)
		}
		if n < 0 {
			return errWire
		}
		b = b[n:]
		if err := f(x); err != nil {
			return err
		}
	}
	return nil
}

// walk calls f for every length-delimited field at a path of field numbers.
func walk(b []byte, f func([]byte) error, path ...protowire.Number) error {
	return each(b, func(x field) error {
		if x.num != path[0] || x.typ != protowire.BytesType {
			return nil
		}
		if len(path) == 1 {
			return f(x.bytes)
		}
		return walk(x.bytes, f, path[1:]...)
	})
}

// number returns the last integer at a path, 0 if there is none.
func number(b []byte, path ...protowire.Number) (v uint64, err error) {
	last := path[len(path)-1]
	take := func(m []byte) error {
		return each(m, func(x field) error {
			if x.num == last && x.typ == protowire.VarintType {
				v = x.varint
			}
			return nil
		})
	}
	if len(path) == 1 {
		return v, take(b)
	}
	return v, walk(b, take, path[:len(path)-1]...)
}

// item is one resource of a response.
type item struct {
	name, version string
	value         []byte
}

// response is what is read of a DeltaDiscoveryResponse. Its slices alias the
// message, its strings do not.
type response struct {
	url     []byte
	nonce   []byte
	items   []item
	removed []string
}

// read takes a message apart, reusing the slices of r.
func (r *response) read(b []byte) error {
	r.url, r.nonce, r.items, r.removed = nil, nil, r.items[:0], r.removed[:0]
	return each(b, func(x field) error {
		if x.typ != protowire.BytesType {
			return nil
		}
		switch x.num {
		case 2:
			it, err := readItem(x.bytes)
			r.items = append(r.items, it)
			return err
		case 4:
			r.url = x.bytes
		case 5:
			r.nonce = x.bytes
		case 6:
			r.removed = append(r.removed, string(x.bytes))
		}
		return nil
	})
}

func readItem(b []byte) (it item, err error) {
	err = each(b, func(x field) error {
		if x.typ != protowire.BytesType {
			return nil
		}
		switch x.num {
		case 1:
			it.version = string(x.bytes)
		case 2:
			_, value, err := openAny(x.bytes)
			it.value = value
			return err
		case 3:
			it.name = string(x.bytes)
		}
		return nil
	})
	return it, err
}

func openAny(b []byte) (url, value []byte, err error) {
	err = each(b, func(x field) error {
		if x.typ != protowire.BytesType {
			return nil
		}
		switch x.num {
		case 1:
			url = x.bytes
		case 2:
			value = x.bytes
		}
		return nil
	})
	return url, value, err
}

// facts are the names that a resource makes an Envoy subscribe to.
type facts struct {
	// endpoints is the assignment of a cluster that has its endpoints from EDS.
	endpoints string
	routes    []string
	secrets   []string
}

// references reads the facts of a cluster or a listener.
func references(k kind, b []byte) (*facts, error) {
	f := &facts{}
	if k == cds {
		return f, f.cluster(b)
	}
	return f, f.listener(b)
}

func (f *facts) cluster(b []byte) error {
	const discoveryEDS = 3
	mode, err := number(b, 2)
	if err != nil {
		return err
	}
	if mode == discoveryEDS {
		for _, path := range [][]protowire.Number{{1}, {3, 2}} { // name, then eds_cluster_config.service_name
			err = errors.Join(err, walk(b, func(v []byte) error {
				if len(v) > 0 {
					f.endpoints = string(v)
				}
				return nil
			}, path...))
		}
	}
	return errors.Join(err, walk(b, f.socket, 24), walk(b, f.socket, 43, 3))
}

func (f *facts) listener(b []byte) error {
	chain := func(c []byte) error {
		return errors.Join(walk(c, f.filter, 3), walk(c, f.socket, 6))
	}
	return errors.Join(walk(b, chain, 3), walk(b, chain, 25))
}

// filter reads a network filter.
func (f *facts) filter(b []byte) error {
	return walk(b, func(a []byte) error {
		url, value, err := openAny(a)
		if err != nil || string(url) != typeHTTP {
			return err
		}
		return walk(value, add(&f.routes), 3, 2) // rds.route_config_name
	}, 4)
}

// socket reads a transport socket.
func (f *facts) socket(b []byte) error {
	return walk(b, func(a []byte) error {
		url, value, err := openAny(a)
		if err != nil || string(url) != typeUpstream && string(url) != typeDownstream {
			return err
		}
		put := add(&f.secrets)
		return errors.Join(walk(value, put, 1, 6, 1), walk(value, put, 1, 7, 1), walk(value, put, 1, 8, 2, 1))
	}, 3)
}

// add collects distinct names.
func add(to *[]string) func([]byte) error {
	return func(v []byte) error {
		if s := string(v); s != "" && !slices.Contains(*to, s) {
			*to = append(*to, s)
		}
		return nil
	}
}

// hasEndpoint reports whether an assignment contains an address.
func hasEndpoint(b []byte, address string, port uint64) (found bool, err error) {
	err = walk(b, func(socket []byte) error {
		var here string
		p, err := number(socket, 3)
		if err != nil {
			return err
		}
		err = walk(socket, func(v []byte) error { here = string(v); return nil }, 2)
		found = found || here == address && p == port
		return err
	}, 2, 2, 1, 1, 1) // endpoints, lb_endpoints, endpoint, address, socket_address
	return found, err
}

// maxConnections reads the first number of circuit_breakers.thresholds.
func maxConnections(b []byte) (uint64, error) { return number(b, 10, 1, 2, 1) }

// pemOf returns the inline data of a secret: its certificate chain or its bundle.
func pemOf(b []byte) (chain, bundle []byte, err error) {
	take := func(to *[]byte) func([]byte) error {
		return func(v []byte) error { *to = v; return nil }
	}
	for _, data := range []protowire.Number{2, 3} { // inline_bytes, inline_string
		err = errors.Join(err, walk(b, take(&chain), 2, 1, data), walk(b, take(&bundle), 4, 1, data))
	}
	return chain, bundle, err
}

// request builds a DeltaDiscoveryRequest.
type request struct {
	node                   string
	kind                   kind
	subscribe, unsubscribe []string
	versions               map[string]string
	nonce                  []byte
}

func (r *request) append(b []byte) []byte {
	text := func(b []byte, num protowire.Number, s string) []byte {
		return protowire.AppendString(protowire.AppendTag(b, num, protowire.BytesType), s)
	}
	if r.node != "" {
		b = protowire.AppendBytes(protowire.AppendTag(b, 1, protowire.BytesType), text(nil, 1, r.node))
	}
	b = text(b, 2, allTypes[r.kind])
	for _, s := range r.subscribe {
		b = text(b, 3, s)
	}
	for _, s := range r.unsubscribe {
		b = text(b, 4, s)
	}
	for name, version := range r.versions {
		b = protowire.AppendBytes(protowire.AppendTag(b, 5, protowire.BytesType), text(text(nil, 1, name), 2, version))
	}
	if len(r.nonce) > 0 {
		b = protowire.AppendBytes(protowire.AppendTag(b, 6, protowire.BytesType), r.nonce)
	}
	return b
}
