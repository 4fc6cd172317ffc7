package plan

import (
	"fmt"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/meshgate/meshgate/xds/resource"
)

// InitialFetchTimeout is how long Envoy waits for a resource that another one names. It must
// be the same wherever a name is subscribed to: Envoy regards a different value as a separate
// subscription and waits for a push that never comes.
const InitialFetchTimeout = 15 * time.Second

// Accepts is how many connections a worker accepts before it serves its existing ones. A flood
// of new connections must not keep it from them.
const Accepts = 1

// ADS returns the one configuration source: envoy.config.core.v3.ConfigSource.
func ADS() *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
		InitialFetchTimeout:   durationpb.New(InitialFetchTimeout),
		ResourceApiVersion:    corev3.ApiVersion_V3,
	}
}

// Literal escapes text for Envoy's formatter, which interprets %NAME% in header values that
// routes and health checks add. %% stands for a percent sign.
func Literal(s string) string { return strings.ReplaceAll(s, "%", "%%") }

// validated is implemented by the generated Envoy messages.
type validated interface{ ValidateAll() error }

// Pack puts a message into an Any; equal messages yield equal bytes. It fails for a message
// that breaks the rules of its proto.
func Pack(m proto.Message) (*anypb.Any, error) {
	body, err := marshal(m)
	if err != nil {
		return nil, err
	}
	return &anypb.Any{TypeUrl: "type.googleapis.com/" + string(m.ProtoReflect().Descriptor().FullName()), Value: body}, nil
}

// Freeze marshals a message into a resource. It validates the message first, because Envoy
// rejects a whole response for one message that breaks the rules of its proto.
func Freeze(t resource.TypeURL, name string, m proto.Message) (*resource.Resource, error) {
	body, err := marshal(m)
	if err != nil {
		return nil, fmt.Errorf("freeze %s: %w", name, err)
	}
	return resource.New(t, name, body), nil
}

func marshal(m proto.Message) ([]byte, error) {
	if v, ok := m.(validated); ok {
		if err := v.ValidateAll(); err != nil {
			return nil, fmt.Errorf("validate %s: %w", m.ProtoReflect().Descriptor().Name(), err)
		}
	}
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("marshal %s: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	return body, nil
}
