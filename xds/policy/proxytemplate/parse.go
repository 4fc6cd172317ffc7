package proxytemplate

import (
	"errors"
	"fmt"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"sigs.k8s.io/yaml"
)

var errNoSocket = errors.New("a listener needs a socket_address")

// parse reads a message in YAML or JSON.
func parse(text string, into proto.Message) error {
	body, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return err
	}
	if err := protojson.Unmarshal(body, into); err != nil {
		// The library varies its spaces, so that nobody relies on its texts.
		return errors.New(strings.ReplaceAll(err.Error(), "\u00a0", " "))
	}
	return nil
}

// whole is a message that Envoy's own rules can be asked about.
type whole interface {
	proto.Message
	GetName() string
	ValidateAll() error
}

// parseWhole reads a message and holds it against the rules of its fields, including those of
// the messages that it packs.
func parseWhole(text string, into whole) error {
	if err := parse(text, into); err != nil {
		return err
	}
	return complete(into)
}

// check holds a message against the rules of its fields.
func check(m whole) error {
	if err := m.ValidateAll(); err != nil {
		return err
	}
	return packed(m.ProtoReflect())
}

// parseResource reads a resource with its @type.
func parseResource(text string) (whole, error) {
	var head struct {
		Type string `json:"@type"`
	}
	if err := yaml.Unmarshal([]byte(text), &head); err != nil {
		return nil, err
	}
	if head.Type == "" {
		return nil, errors.New("it has no @type")
	}
	p := new(anypb.Any)
	if err := parse(text, p); err != nil {
		return nil, err
	}
	m, err := p.UnmarshalNew()
	if err != nil {
		return nil, err
	}
	switch m := m.(type) {
	case *clusterv3.Cluster:
		return m, complete(m)
	case *listenerv3.Listener:
		if m.GetAddress().GetSocketAddress() == nil {
			return nil, errNoSocket
		}
		return m, complete(m)
	case *routev3.RouteConfiguration:
		return m, complete(m)
	}
	return nil, fmt.Errorf("%s is neither a Cluster nor a Listener nor a RouteConfiguration", p.MessageName())
}

// complete makes sure that a message can stand by itself.
func complete(m whole) error {
	if m.GetName() == "" {
		return errors.New("it has no name")
	}
	return check(m)
}
