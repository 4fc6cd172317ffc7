package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	xdsv3 "github.com/cncf/xds/go/xds/type/v3"
	"github.com/envoyproxy/envoy/contrib/golang/common/go/api"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/filter/host"
)

// document is the configuration of the filter, in a listener or on a route.
type document struct {
	// Chain says what applies to a route ([contract.Chain]).
	Chain json.RawMessage `json:"chain,omitempty"`
	// Disabled takes a chain of an outer level away.
	Disabled bool `json:"disabled,omitempty"`
	// Listener is a [contract.FilterConfig]. Routes have none.
	Listener json.RawMessage `json:"listener,omitempty"`
}

// config is a document that is in use. It refuses every request that it applies to if it
// could not be made. Envoy may destroy it more than once.
type config struct {
	document
	host            *host.Host
	source, program uint32
	strips          bool // the listener removes what clients may not say
	once            sync.Once
}

var errRouteSettings = errors.New("the listener's part of the configuration is not for routes")

// parser makes configurations. It implements [api.StreamFilterConfigParser].
type parser struct{ host *host.Host }

// Parse reads the configuration of a listener, or of a route if callbacks is nil.
func (p *parser) Parse(message *anypb.Any, callbacks api.ConfigCallbackHandler) (parsed any, err error) {
	err = errors.New("reading the configuration panicked")
	defer p.host.Recovered("parse")
	d, err := read(message)
	if err != nil {
		return nil, fmt.Errorf("configuration of the filter: %w", err)
	}
	if callbacks == nil && len(d.Listener) > 0 {
		return nil, errRouteSettings
	}
	c := &config{document: *d, host: p.host}
	if callbacks != nil {
		if err := c.acquireSource(); err != nil {
			return nil, err
		}
	}
	c.acquireProgram()
	return c, nil
}

// read takes a document out of a message: a TypedStruct, a Struct, or a StringValue of JSON.
func read(message *anypb.Any) (*document, error) {
	text := []byte("{}")
	var err error
	var typed xdsv3.TypedStruct
	var object structpb.Struct
	var value wrapperspb.StringValue
	switch {
	case message == nil || message.GetTypeUrl() == "":
	case message.MessageIs(&typed):
		if err = message.UnmarshalTo(&typed); err == nil {
			text, err = protojson.Marshal(typed.GetValue())
		}
	case message.MessageIs(&object):
		if err = message.UnmarshalTo(&object); err == nil {
			text, err = protojson.Marshal(&object)
		}
	case message.MessageIs(&value):
		err = message.UnmarshalTo(&value)
		text = []byte(value.GetValue())
	default:
		err = fmt.Errorf("it is a %s", message.GetTypeUrl())
	}
	if err != nil {
		return nil, err
	}
	var d document
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		return nil, err
	}
	return &d, nil
}

func (c *config) acquireSource() error {
	source, parsed, err := c.host.AcquireSource(c.Listener)
	if err != nil {
		return err
	}
	c.source, c.strips = source, parsed.ListenerStrips
	return nil
}

// acquireProgram compiles the chain. A chain that cannot be used is a program that
// refuses, and so is no program at all.
func (c *config) acquireProgram() {
	if !c.checks() {
		return
	}
	if program, _, err := c.host.AcquireProgram(c.Chain); err == nil {
		c.program = program
	} else {
		c.host.Log().Error("route refused", "error", err)
	}
}

// checks reports whether requests are decided.
func (c *config) checks() bool { return len(c.Chain) > 0 && !c.Disabled }

// Merge makes the configuration of a route within a listener, or within a virtual host. It
// runs on a worker.
func (p *parser) Merge(parent, child any) (merged any) {
	broken := &config{document: document{Chain: json.RawMessage("{}")}, host: p.host}
	merged = broken // its handles name nothing, so it refuses
	defer p.host.Recovered("merge")
	outer, ok := parent.(*config)
	inner, also := child.(*config)
	if !ok || !also {
		return merged
	}
	c := &config{document: document{Listener: outer.Listener, Chain: outer.Chain, Disabled: outer.Disabled}, host: p.host}
	if len(inner.Chain) > 0 || inner.Disabled {
		c.Chain, c.Disabled = inner.Chain, inner.Disabled
	}
	if err := c.acquireSource(); err != nil {
		p.host.Log().Error("route refused", "error", err)
		return merged
	}
	c.acquireProgram()
	return c
}

// Destroy implements [api.Config].
func (c *config) Destroy() {
	defer c.host.Recovered("destroy")
	c.once.Do(func() {
		c.host.ReleaseSource(c.source)
		c.host.ReleaseProgram(c.program)
	})
}
