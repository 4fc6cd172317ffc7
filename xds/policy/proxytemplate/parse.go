package proxytemplate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/yamldoc"
)

// Bounds of templates, in bytes and levels. A modification is made on every resource that it
// matches, so a template is multiplied by all that a proxy has.
const (
	maxText  = 16 << 10
	maxTexts = 32 << 10
	maxDepth = 32
)

var decoder = protojson.UnmarshalOptions{RecursionLimit: maxDepth}

// decode decodes YAML or JSON into a message.
func decode(text string, into proto.Message) error {
	doc, err := yamldoc.JSON(context.Background(), []byte(text), maxText)
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return errors.New(f.Detail)
	}
	if err != nil {
		return err
	}
	if err := decoder.Unmarshal(doc, into); err != nil {
		// Some builds of the library write another kind of space, so that nobody compares texts.
		return errors.New(strings.TrimSpace(strings.ReplaceAll(strings.TrimPrefix(err.Error(), "proto:"), "\u00a0", " ")))
	}
	return nil
}

// parse decodes a message of a known type that sets only what templates may set there.
func parse(text string, into proto.Message, in scope) error {
	if err := decode(text, into); err != nil {
		return err
	}
	return in.check(into.ProtoReflect(), "", 0)
}

// parseTyped does what parse does for a message that says its type.
func parseTyped(text string, in scope) (proto.Message, error) {
	packed := new(anypb.Any)
	if err := decode(text, packed); err != nil {
		return nil, err
	}
	m, err := packed.UnmarshalNew()
	if err != nil {
		return nil, errors.New("it must have an \"@type\" that is known")
	}
	return m, in.check(m.ProtoReflect(), "", 0)
}

// size returns the bytes of all texts.
func (c *Conf) size() (n int) {
	for i := range c.Resources {
		n += len(c.Resources[i].Resource)
	}
	for i := range c.Modifications {
		if _, change := c.Modifications[i].one(); change != nil {
			n += len(change.Value)
		}
	}
	return n
}

var errMany = fmt.Errorf("resources and modifications must not have more than %d bytes together", maxTexts)
