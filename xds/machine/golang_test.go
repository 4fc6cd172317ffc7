package machine_test

import (
	"strings"
	"testing"

	golangv3 "github.com/envoyproxy/go-control-plane/contrib/envoy/extensions/filters/http/golang/v3alpha"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/machine"
)

const ownLibrary = "/opt/meshgate/" + contract.GolangLibrary

func object(t *testing.T, text string) *structpb.Struct {
	t.Helper()
	s := new(structpb.Struct)
	if err := s.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestLibraryOfTheMachine: the library for Envoy's filter for Go is the machine's own, whatever
// is named, and where there is none no filter is taken that would load one. The settings of the
// filter are the machine's, too.
func TestLibraryOfTheMachine(t *testing.T) {
	config := func(library string, plugin proto.Message) *golangv3.Config {
		return &golangv3.Config{LibraryId: "meshgate", LibraryPath: library, PluginName: "meshgate", PluginConfig: pack(t, plugin)}
	}
	plain := object(t, `{"listener":{}}`)
	b := machine.Bounds{Library: ownLibrary}
	for _, named := range []string{contract.GolangLibrary, ownLibrary, "/tmp/evil.so"} {
		body, err := admit(t, b, config(named, plain))
		if err != nil {
			t.Fatalf("%s: %v", named, err)
		}
		got := new(golangv3.Config)
		if err := proto.Unmarshal(body, got); err != nil {
			t.Fatal(err)
		}
		if got.GetLibraryPath() != ownLibrary {
			t.Errorf("%s became %s", named, got.GetLibraryPath())
		}
	}
	for name, refused := range map[string]struct {
		bounds  machine.Bounds
		message proto.Message
		want    string
	}{
		"no library":       {machine.Bounds{}, config(ownLibrary, plain), "a library"},
		"settings":         {b, config(ownLibrary, object(t, `{"listener":{"settings":{"redis":{"url":"redis://192.0.2.1"},"cache":{}}}}`)), "settings of the filter"},
		"another spelling": {b, config(ownLibrary, object(t, `{"Listener":{"settings":{"redis":{"url":"redis://192.0.2.1"},"cache":{}}}}`)), "not known"},
		"another form":     {b, config(ownLibrary, wrapperspb.String(`{"listener":{}}`)), "cannot be looked into"},
		"a route": {b, &golangv3.ConfigsPerRoute{PluginsConfig: map[string]*golangv3.RouterPlugin{
			"meshgate": {Override: &golangv3.RouterPlugin_Config{Config: pack(t, wrapperspb.String("{}"))}},
		}}, "cannot be looked into"},
	} {
		if _, err := admit(t, refused.bounds, refused.message); err == nil || !strings.Contains(err.Error(), refused.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
