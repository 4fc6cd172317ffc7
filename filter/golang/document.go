package golang

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	xdsv3 "github.com/cncf/xds/go/xds/type/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// document is the configuration of the filter in a listener or on a route.
type document struct {
	// Chain says what applies to a route ([contract.Chain]).
	Chain json.RawMessage `json:"chain,omitempty"`
	// Disabled removes the chain of an outer level.
	Disabled bool `json:"disabled,omitempty"`
	// Listener is a [contract.FilterConfig]. Only listeners have one.
	Listener json.RawMessage `json:"listener,omitempty"`
}

var errBehind = errors.New("there is more behind the JSON object")

// read reads a document from a message: a TypedStruct, a Struct, or a StringValue with JSON.
func read(message *anypb.Any) (*document, error) {
	text, err := textOf(message)
	if err != nil {
		return nil, err
	}
	var d document
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errBehind
	}
	return &d, nil
}

// textOf returns the JSON of a message, or that of an empty document if there is no message.
func textOf(message *anypb.Any) ([]byte, error) {
	if message.GetTypeUrl() == "" {
		return []byte("{}"), nil
	}
	m, err := message.UnmarshalNew()
	if err != nil {
		return nil, err
	}
	var object proto.Message
	switch m := m.(type) {
	case *xdsv3.TypedStruct:
		object = m.GetValue()
	case *structpb.Struct:
		object = m
	case *wrapperspb.StringValue:
		return []byte(m.GetValue()), nil
	default:
		return nil, fmt.Errorf("it is a %s, not a Struct", message.GetTypeUrl())
	}
	return protojson.Marshal(object)
}
