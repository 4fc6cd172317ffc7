package proxytemplate

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/controlplane/hostname"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/reserved"
)

// limits are the least and the greatest number that a field may have.
type limits struct{ least, most uint64 }

// sized bounds a number, wrapped or not.
func sized(l limits) func(protoreflect.Value) error {
	return func(v protoreflect.Value) error {
		var n uint64
		switch x := v.Interface().(type) {
		case uint32:
			n = uint64(x)
		case protoreflect.Message:
			switch w := x.Interface().(type) {
			case *wrapperspb.UInt32Value:
				n = uint64(w.GetValue())
			case *wrapperspb.UInt64Value:
				n = w.GetValue()
			default:
				return fmt.Errorf("it is a %T and no number", w)
			}
		default:
			return fmt.Errorf("it is a %T and no number", x)
		}
		if n < l.least || n > l.most {
			return fmt.Errorf("must be in the range [%d, %d]", l.least, l.most)
		}
		return nil
	}
}

// between bounds a duration.
func between(least, most time.Duration) func(protoreflect.Value) error {
	return func(v protoreflect.Value) error {
		d, ok := v.Message().Interface().(*durationpb.Duration)
		if !ok || d.CheckValid() != nil || d.AsDuration() < least || d.AsDuration() > most {
			return fmt.Errorf("must be in the range [%s, %s]", least, most)
		}
		return nil
	}
}

// oneOf permits some values of an enumeration.
func oneOf(names ...string) func(protoreflect.Value) error {
	return func(v protoreflect.Value) error {
		n := v.Enum()
		for _, name := range names {
			if number, ok := enumerated[name]; ok && number == n {
				return nil
			}
		}
		return errors.New("must be one of " + strings.Join(names, ", "))
	}
}

// enumerated are the numbers of values of enumerations that oneOf is about
// (envoy.config.cluster.v3.Cluster, envoy.config.core.v3.SocketAddress).
var enumerated = map[string]protoreflect.EnumNumber{
	"STRICT_DNS": 1, "LOGICAL_DNS": 2, "ROUND_ROBIN": 0, "LEAST_REQUEST": 1, "RANDOM": 3, "TCP": 0,
}

// typePrefix begins the type URLs that Envoy reads.
const typePrefix = "type.googleapis.com/"

// packs permits some messages in an Any.
func packs(names ...string) func(protoreflect.Value) error {
	return func(v protoreflect.Value) error {
		packed, ok := v.Message().Interface().(*anypb.Any)
		if !ok || !slices.Contains(names, strings.TrimPrefix(packed.GetTypeUrl(), typePrefix)) || !strings.HasPrefix(packed.GetTypeUrl(), typePrefix) {
			return errors.New("its type must be one of " + strings.Join(names, ", "))
		}
		return nil
	}
}

// texts permits a text without control characters.
func texts(most int) func(protoreflect.Value) error {
	return func(v protoreflect.Value) error {
		s := v.String()
		switch wrong := reserved.Wrong(s); {
		case len(s) > most:
			return fmt.Errorf("must have at most %d bytes", most)
		case !policy.Visible(s):
			return errors.New(policy.TextVisible)
		case wrong != "":
			return errors.New(wrong)
		}
		return nil
	}
}

// ownNames are beginnings of names that only the mesh gives.
var ownNames = []string{"@", "inbound:", "outbound:", "mesh:"}

// ownName permits the name of a new resource. Names of services are in the mesh's own hands, too;
// whether there is such a service is known only where the resource is added.
func ownName(v protoreflect.Value) error {
	if err := texts(255)(v); err != nil {
		return err
	}
	for _, prefix := range ownNames {
		if strings.HasPrefix(v.String(), prefix) {
			return fmt.Errorf("names with %q are those of the mesh", prefix)
		}
	}
	return nil
}

// target permits a cluster to lead to. Those of workloads are reached through inbounds alone,
// where callers are checked.
func target(v protoreflect.Value) error {
	if strings.HasPrefix(v.String(), "@") {
		return errors.New("must be a service or a cluster of the template")
	}
	return texts(255)(v)
}

func socketOf(v protoreflect.Value) (*corev3.SocketAddress, error) {
	a, ok := v.Message().Interface().(*corev3.Address)
	if !ok || a.GetSocketAddress() == nil {
		return nil, errors.New("must have a socket_address")
	}
	s := a.GetSocketAddress()
	if p := s.GetPortValue(); p == 0 || p > 65535 {
		return nil, errors.New("socket_address.port_value: must be in the range [1, 65535]")
	}
	return s, nil
}

// reachable permits an address to connect to, and no name: only a resolver knows where that leads,
// and it may lead to the machine of the proxy, past everything by which an inbound checks callers.
// Names of the mesh are not led through templates either.
func reachable(v protoreflect.Value) error {
	s, err := socketOf(v)
	if err != nil {
		return err
	}
	ip, err := netip.ParseAddr(s.GetAddress())
	switch {
	case err != nil:
		return errors.New("socket_address.address: must be an IP address")
	case ip.Zone() != "":
		return errors.New("socket_address.address: must have no zone")
	}
	if !hostname.IsElsewhere(ip) {
		return errors.New("socket_address.address: must not be of this machine, link-local, multicast, or where clouds tell credentials")
	}
	return nil
}

// listenable permits an address to listen at.
func listenable(v protoreflect.Value) error {
	s, err := socketOf(v)
	if err != nil {
		return err
	}
	if ip, err := netip.ParseAddr(s.GetAddress()); err != nil || ip.Zone() != "" || ip.IsMulticast() {
		return errors.New("socket_address.address: must be an IP address without a zone")
	}
	return nil
}

// ofProxies are headers that say where a request comes from, or how a connection is used.
var ofProxies = []string{"connection", "content-length", "forwarded", "te", "transfer-encoding", "upgrade", "x-real-ip"}

// headerName permits a header to change. Who a request comes from is told in headers that only
// proxies write.
func headerName(v protoreflect.Value) error {
	name := v.String()
	var vs policy.Violations
	vs.Header("", name, "")
	switch lower := strings.ToLower(name); {
	case name == "" || len(name) > 255:
		return errors.New("must have 1 to 255 characters")
	case len(vs) > 0:
		return errors.New(vs[0].Message)
	case contract.IsReserved([]byte(lower), false), slices.Contains(ofProxies, lower),
		strings.HasPrefix(lower, "x-forwarded-"), strings.HasPrefix(lower, "x-envoy-"):
		return errors.New("only proxies write this header")
	}
	return nil
}

// domain permits a host of a virtual host.
func domain(v protoreflect.Value) error {
	if v.String() != "*" && !mesh.IsHost(strings.TrimPrefix(v.String(), "*.")) {
		return errors.New("must be *, or a host name in lower case, after *. or not")
	}
	return nil
}

// headerValue permits a text that Envoy sends as it is.
func headerValue(v protoreflect.Value) error {
	if strings.Contains(v.String(), "%") {
		return errors.New("must have no %, with which Envoy's own variables begin")
	}
	return texts(1024)(v)
}
