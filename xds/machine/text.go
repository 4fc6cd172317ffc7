package machine

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/directing"
	"github.com/meshgate/meshgate/xds/reserved"
)

// These are the names of the fields that configure the filter.
const (
	ofListener protoreflect.FullName = "envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter.filter_config"
	ofRoute    protoreflect.FullName = "envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilterPerRoute.filter_config"
)

// errNoRoots refuses to verify a server by the authorities of a machine that has none.
var errNoRoots = errors.New("it needs the certificate authorities of the proxy's machine, of which its agent has found no file: name one with --system-ca-file")

// text checks a field that may name something.
func (w *walk) text(field protoreflect.FullName, value []byte, roots bool) error {
	what, is := refused[field]
	switch {
	case field == filename && roots && w.bounds.Roots != "":
		w.foreign = w.foreign || string(value) != w.bounds.Roots
		return nil
	case field == filename && roots:
		return errNoRoots
	case field == golangLibrary && w.bounds.Library != "":
		w.foreign = w.foreign || string(value) != w.bounds.Library
		return nil
	case field == golangLibrary:
		return unnamed("a library", field)
	case field == library && string(value) != contract.FilterName:
		return unnamed("a library", field)
	case is:
		return unnamed(what, field)
	case string(value) == reserved.ADSCluster && !compared(field):
		return fmt.Errorf("it names %q, which leads to the proxy's agent (%s)", value, field)
	case w.decides(field, value) && !compared(field):
		return fmt.Errorf("it names %q, which leads to the proxy's authorization service (%s)", value, field)
	case w.logs(field, value) && !compared(field):
		return fmt.Errorf("it names %q, which leads to the access logs of the proxy's agent (%s)", value, field)
	case w.shows(value) && !compared(field):
		return fmt.Errorf("it names %q, which leads to the metrics of the proxy's agent (%s)", value, field)
	case byHeader[field], field == stateKey && string(value) == directing.Chosen && !w.redirected:
		return choosesCluster(field)
	case field == stateKey && string(value) == chosenAddress:
		return chosen(field)
	case reserved.ReadsVariable(value) && !compared(field):
		return unnamed("a variable of the environment", protoreflect.FullName(joined(w.path)))
	}
	return nil
}

// joined returns the names of fields, joined by dots.
func joined(path []protoreflect.Name) string {
	var b strings.Builder
	for i, name := range path {
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(string(name))
	}
	return b.String()
}

// compared reports whether a text is only compared with others. The pattern of a route is such
// a text, and the author of a route chooses it freely.
func compared(field protoreflect.FullName) bool {
	return strings.HasPrefix(string(field), "envoy.type.matcher.v3.") || strings.HasPrefix(string(field), "xds.type.matcher.v3.")
}

// told checks the configuration of the filter. Only one form is accepted: the proxy turns
// several other forms into text, and a form that is not read here could contain settings. The
// settings of the filter say what it connects to and which file is its credential.
func told(field protoreflect.FullName, packed []byte) error {
	url, value, err := unpack(packed)
	if err != nil || len(url)+len(value) == 0 {
		return err
	}
	if string(url) != typePrefix+"google.protobuf.StringValue" {
		return fmt.Errorf("it configures the filter in a form that cannot be looked into (%s)", field)
	}
	text, err := last(ofText, value, 1)
	if err != nil || field == ofRoute {
		return err
	}
	return withoutSettings(field, text)
}

func withoutSettings(field protoreflect.FullName, text []byte) error {
	config, err := contract.ParseFilterConfig(text)
	if err != nil {
		return errors.New("it configures the filter with what cannot be read")
	}
	if config.Settings != nil {
		return unnamed("settings of the filter", field)
	}
	return nil
}

// toldGo is told for the library of Envoy's filter for Go, whose one form is a Struct. A
// configuration of a route has no part for a listener, and a filter that finds one refuses.
func toldGo(field protoreflect.FullName, packed []byte) error {
	url, value, err := unpack(packed)
	if err != nil || len(url)+len(value) == 0 {
		return err
	}
	object := new(structpb.Struct)
	if string(url) != typePrefix+"google.protobuf.Struct" || proto.Unmarshal(value, object) != nil {
		return fmt.Errorf("it configures the filter in a form that cannot be looked into (%s)", field)
	}
	for member := range object.GetFields() {
		// The filter takes names in any case, so another spelling would hide settings.
		if member != contract.GolangListener && member != contract.GolangChain && member != contract.GolangDisabled {
			return fmt.Errorf("it configures the filter with %q, which is not known (%s)", member, field)
		}
	}
	listener := object.GetFields()[contract.GolangListener]
	if listener == nil {
		return nil
	}
	text, err := listener.MarshalJSON()
	if err != nil {
		return fmt.Errorf("it configures the filter with what cannot be read (%s)", field)
	}
	return withoutSettings(field, text)
}
