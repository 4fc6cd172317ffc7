package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshgate/meshgate/e2e/golden"
	"github.com/meshgate/meshgate/xds/machine"
)

const typePrefix = "type.googleapis.com/"

// TestLinkedTypes compares the types of Envoy that this program has linked with a list that
// somebody has looked at. An agent admits an extension of any of them, so what reads files or
// secrets, or runs code, must not be among them unless package machine looks into it. A new
// import, also one of a dependency, makes the list longer.
func TestLinkedTypes(t *testing.T) {
	var names []string
	protoregistry.GlobalTypes.RangeMessages(func(m protoreflect.MessageType) bool {
		md := m.Descriptor()
		if _, nested := md.Parent().(protoreflect.MessageDescriptor); !nested && ofEnvoy(md.FullName()) {
			names = append(names, typePrefix+string(md.FullName()))
		}
		return true
	})
	slices.Sort(names)
	golden.Compare(t, "testdata/linked.golden", []byte(strings.Join(names, "\n")+"\n"))
}

// ofEnvoy leaves out what no Envoy takes for an extension: messages of other programs, and
// notes about messages.
func ofEnvoy(name protoreflect.FullName) bool {
	return slices.ContainsFunc([]string{"envoy.", "xds.", "udpa."}, func(prefix string) bool { return strings.HasPrefix(string(name), prefix) }) &&
		!strings.Contains(string(name), ".annotations.")
}

// TestLinkedTypesAreTheProgramsOwn: the tests of this package link no messages that the
// program does not have, nor fewer.
func TestLinkedTypesAreTheProgramsOwn(t *testing.T) {
	messages := func(args ...string) []string {
		out, err := exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps"}, args...)...).Output()
		if err != nil {
			t.Fatal(err)
		}
		var of []string
		for _, line := range strings.Fields(string(out)) {
			if strings.HasPrefix(line, "github.com/envoyproxy/") || strings.HasPrefix(line, "github.com/cncf/") {
				of = append(of, line)
			}
		}
		slices.Sort(of)
		return slices.Compact(of)
	}
	program, tests := messages("."), messages("-test", ".")
	if !slices.Equal(program, tests) || len(program) == 0 {
		t.Errorf("the program links\n%q\nand its tests\n%q", program, tests)
	}
}

// dangerous are types of Envoy that read files, secrets or the environment, or run code of
// whoever writes them.
var dangerous = []string{
	"envoy.extensions.formatter.file_content.v3.FileContent",
	"envoy.extensions.formatter.generic_secret.v3.GenericSecret",
	"envoy.extensions.formatter.dynamic_modules.v3.DynamicModuleFormatter",
	"envoy.extensions.tracers.opentelemetry.resource_detectors.v3.EnvironmentResourceDetectorConfig",
	"envoy.extensions.tracers.opentelemetry.resource_detectors.v3.DynatraceResourceDetectorConfig",
	"envoy.extensions.filters.http.lua.v3.Lua",
	"envoy.extensions.filters.http.lua.v3.LuaPerRoute",
	"envoy.extensions.filters.http.wasm.v3.Wasm",
	"envoy.extensions.filters.network.wasm.v3.Wasm",
	"envoy.extensions.access_loggers.wasm.v3.WasmAccessLog",
	"envoy.extensions.wasm.v3.WasmService",
	"envoy.extensions.filters.network.golang.v3alpha.Config",
	"envoy.extensions.filters.network.dynamic_modules.v3.DynamicModuleNetworkFilter",
	"envoy.extensions.filters.listener.dynamic_modules.v3.DynamicModuleListenerFilter",
	"envoy.extensions.access_loggers.dynamic_modules.v3.DynamicModuleAccessLog",
	"envoy.extensions.filters.http.credential_injector.v3.CredentialInjector",
	"envoy.extensions.http.injected_credentials.generic.v3.Generic",
	"envoy.extensions.filters.http.aws_request_signing.v3.AwsRequestSigning",
	"envoy.extensions.filters.http.file_system_buffer.v3.FileSystemBufferFilterConfig",
	"envoy.extensions.filters.http.tap.v3.Tap",
	"envoy.extensions.transport_sockets.tap.v3.Tap",
}

// TestDangerousTypesAreRefused: an agent refuses a listener with one of them, wherever the
// control plane has it from. Envoy has each of them: a name with a typing error would be
// refused, too.
func TestDangerousTypesAreRefused(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/envoyproxy/envoy").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range dangerous {
		if !hasMessage(t, filepath.Join(strings.TrimSpace(string(out)), "api"), name) {
			t.Errorf("Envoy has no %s", name)
		}
		body, err := proto.Marshal(&listenerv3.Listener{Name: "l", FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
			Name: "f", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: &anypb.Any{TypeUrl: typePrefix + name}},
		}}}}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = machine.Bounds{}.Admit(typePrefix+"envoy.config.listener.v3.Listener", body)
		if err == nil || !strings.Contains(err.Error(), "does not know") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// hasMessage reports whether the sources of Envoy's API define a message.
func hasMessage(t *testing.T, api, name string) bool {
	t.Helper()
	at := strings.LastIndexByte(name, '.')
	folder, message := strings.ReplaceAll(name[:at], ".", "/"), "\nmessage "+name[at+1:]+" {"
	for _, root := range []string{api, filepath.Join(api, "contrib")} {
		files, err := filepath.Glob(filepath.Join(root, folder, "*.proto"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), message) {
				return true
			}
		}
	}
	return false
}
