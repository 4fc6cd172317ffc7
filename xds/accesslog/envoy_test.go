package accesslog

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/echo/v3" // named in the text below
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/meshgate/meshgate/filter/contract"
)

func envoyPath() string {
	return cmp.Or(os.Getenv("ENVOY_PATH"), "../../.tools/envoy")
}

// validated asks a real Envoy whether it takes the loggers of a format.
func validated(t *testing.T, format string) {
	t.Helper()
	s := Settings{Enabled: true, Format: format, Drop: 10}
	var loggers []*accesslogv3.AccessLog
	for _, m := range []contract.Mode{contract.ModeModule, contract.ModeExtAuthz} {
		more, err := Loggers(s, m)
		if err != nil {
			t.Fatal(err)
		}
		loggers = append(loggers, more...)
	}
	for _, p := range places {
		more, err := Sidecar(s, p)
		if err != nil {
			t.Fatal(err)
		}
		loggers = append(loggers, more...)
		if more, err = Handshakes(s, p); err != nil {
			t.Fatal(err)
		}
		loggers = append(loggers, more...)
	}
	l := &listenerv3.Listener{}
	if err := protojson.Unmarshal([]byte(`{"name":"l","address":{"socketAddress":{"address":"127.0.0.1","portValue":0}},"filterChains":[{"filters":[
		{"name":"echo","typedConfig":{"@type":"type.googleapis.com/envoy.extensions.filters.network.echo.v3.Echo"}}]}]}`), l); err != nil {
		t.Fatal(err)
	}
	l.AccessLog = loggers
	text, err := protojson.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "envoy.json")
	if err := os.WriteFile(file, fmt.Appendf(nil, `{"static_resources":{"listeners":[%s]}}`, text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(context.Background(), envoyPath(), "--mode", "validate", "-c", file).CombinedOutput(); err != nil {
		t.Errorf("envoy refuses what was accepted: %v\n%s", err, out)
	}
}

// What is accepted at the start of a control plane Envoy takes, too: a listener whose log
// it refuses serves nobody.
func TestEnvoyTakesWhatIsAccepted(t *testing.T) {
	fields := map[string]any{"text": "100%% of it", "mixed": "%%%DURATION%%%"}
	take := func(name, text string) {
		if _, err := Parse(fmt.Sprintf(`{"a":%q}`, text)); err == nil {
			fields[name] = text
		}
	}
	for _, name := range plain {
		take(name, "%"+name+"%")
		take(name+" cut", "%"+name+":10%")
		take(name+" argument", "%"+name+"(x)%")
	}
	for _, word := range Words() {
		take("word "+word, "%MESHGATE("+word+")%")
		take("word cut "+word, "%MESHGATE("+word+"):10%")
	}
	for _, text := range []string{
		"%REQ(X-TENANT)%", "%REQ(X-TENANT):0%", "%REQ(X-TENANT?USER-AGENT):99999%", "%REQ(:METHOD)%", "%RESP(X-A)%", "%TRAILER(X-A?X-B):5%",
		"%START_TIME()%", "%START_TIME(%s.%9f)%", "%START_TIME(%)%",
	} {
		take(text, text)
	}
	var inner any = "%DURATION%"
	for range maxDepth - 1 {
		inner = map[string]any{"a": inner}
	}
	fields["deep"] = inner
	text, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	if len(fields) < 60 {
		t.Fatalf("only %d fields were accepted", len(fields))
	}
	validated(t, string(text))
	validated(t, Default)
	validated(t, "")
}
