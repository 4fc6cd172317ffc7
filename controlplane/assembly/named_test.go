package assembly

import (
	"regexp"
	"slices"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/meshgate/meshgate/xds/machine"
)

// harmless matches fields of Envoy's configuration whose names sound like a file or socket
// but that name none, and fields that occur only in a bootstrap, which the agent itself
// makes.
var harmless = regexp.MustCompile(`^(` +
	`envoy\.config\.bootstrap\..*` +
	`|envoy\.config\.route\.v3\.(RedirectAction|RouteAction|RouteAction\.HashPolicy\.Cookie|RouteMatch)\.\w+` +
	`|envoy\.config\.core\.v3\.HealthCheck\.HttpHealthCheck\.path` +
	`|envoy\.(data\.accesslog|service\.auth)\..*` +
	`|envoy\.extensions\.filters\.http\.ext_authz\.v3\.HttpService\.path_(prefix|override)` +
	`|envoy\.extensions\.filters\.http\.golang\.v3alpha\.Config\.library_id` +
	`|envoy\.extensions\.filters\.network\.tcp_proxy\.v3\.TcpProxy\.TunnelingConfig\.post_path` +
	`|envoy\.type\.http\.v3\.Cookie\.path` +
	`)$`)

// TestWhatSoundsLikeAFileIsJudged: an agent inspects every extension whose type this program
// contains, and refuses all others. Somebody who adds a type that can name a file, a socket
// or a library must decide about it in package machine. A type that runs code must not be
// added, but for Envoy's filter for Go: that runs the machine's own library, or is refused.
func TestWhatSoundsLikeAFileIsJudged(t *testing.T) {
	sounds := regexp.MustCompile(`path|file|directory|socket|library|pipe|environment|command`)
	seen := 0
	protoregistry.GlobalTypes.RangeMessages(func(mt protoreflect.MessageType) bool {
		md := mt.Descriptor()
		if pkg := string(md.ParentFile().Package()); !regexp.MustCompile(`^(envoy|xds|udpa)\.`).MatchString(pkg) {
			return true
		}
		for i := range md.Fields().Len() {
			f := md.Fields().Get(i)
			text := f.Kind() == protoreflect.StringKind || f.Kind() == protoreflect.BytesKind
			// A message may name a variable in a field that sounds like nothing.
			variable := f.Message() != nil && f.Name() == "environment"
			if !variable && (!text || !sounds.MatchString(string(f.Name()))) {
				continue
			}
			if seen++; !judged(f) && !harmless.MatchString(string(f.FullName())) {
				t.Errorf("nobody has decided on %s", f.FullName())
			}
		}
		return true
	})
	if seen < 20 {
		t.Errorf("%d fields", seen)
	}
	for _, name := range []protoreflect.FullName{
		"envoy.extensions.filters.http.lua.v3.Lua", "envoy.extensions.wasm.v3.VmConfig",
	} {
		if _, err := protoregistry.GlobalTypes.FindMessageByName(name); err == nil {
			t.Errorf("%s is a type of this program, so that agents take it: it runs code", name)
		}
	}
	if !machine.Names("envoy.extensions.filters.http.golang.v3alpha.Config.library_path") {
		t.Error("nobody has decided on the library of the filter for Go")
	}
}

// judged reports whether package machine lists a field, or a message that contains it, among
// those that name resources of the machine.
func judged(f protoreflect.FieldDescriptor) bool {
	names := []protoreflect.FullName{f.FullName()}
	if m := f.Message(); m != nil {
		names = append(names, m.FullName())
	}
	for of := f.Parent(); of != nil; of = of.Parent() {
		names = append(names, of.FullName())
	}
	return slices.ContainsFunc(names, machine.Names)
}
