package machine

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/meshgate/meshgate/filter/contract"
)

// Names of what the filter is told.
const (
	ofListener protoreflect.FullName = "envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter.filter_config"
	ofRoute    protoreflect.FullName = "envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilterPerRoute.filter_config"
)

// variable begins the command with which a format reads the environment.
const variable = "%ENVIRONMENT"

// text looks at a field that may name something.
func (w *walk) text(field protoreflect.FullName, value []byte, roots bool) error {
	what, is := refused[field]
	switch {
	case field == filename && roots && w.bounds.Roots != "":
		w.foreign = w.foreign || string(value) != w.bounds.Roots
		return nil
	case field == library && string(value) != contract.FilterName:
		return unnamed("a library", field)
	case is:
		return unnamed(what, field)
	case field == stateKey && string(value) == chosenAddress:
		return chosen(field)
	case readsVariable(value) && !compared(field):
		return unnamed("a variable of the environment", protoreflect.FullName(joined(w.path)))
	}
	return nil
}

// joined are the fields that lead somewhere.
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

// readsVariable reports whether a text, as a format, could read the environment. Which
// texts are formats nobody lists, so all count. Doubled percent signs stand for
// themselves: what somebody wants said literally is no command and must not hold up the
// resource. After a percent sign that stands alone nothing is known to be literal.
func readsVariable(text []byte) bool {
	if !bytes.Contains(text, []byte(variable)) {
		return false
	}
	for i := bytes.IndexByte(text, '%'); i < len(text); i++ {
		if text[i] != '%' {
			continue
		}
		if i+1 == len(text) || text[i+1] != '%' {
			return bytes.Contains(text[i:], []byte(variable))
		}
		i++
	}
	return false
}

// compared reports whether a text is only compared with others, as the pattern of a route
// is, which whoever makes a route chooses freely.
func compared(field protoreflect.FullName) bool {
	return strings.HasPrefix(string(field), "envoy.type.matcher.v3.") || strings.HasPrefix(string(field), "xds.type.matcher.v3.")
}

// told looks at what the filter is told, which has a single form: the proxy makes text of
// several others, and what is not read here could hold settings. Those of the filter say
// what it connects to and which file is its credential.
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
	config, err := contract.ParseFilterConfig(text)
	if err != nil {
		return errors.New("it configures the filter with what cannot be read")
	}
	if config.Settings != nil {
		return unnamed("settings of the filter", field)
	}
	return nil
}
