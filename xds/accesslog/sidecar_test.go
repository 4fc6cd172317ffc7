package accesslog

import (
	"strings"
	"testing"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
)

var places = []Place{
	{Mesh: "shop", Service: "backend", Inbound: true}, {Mesh: "shop", Service: "backend"},
	{Mesh: "shop", Service: "ledger", Inbound: true, TCP: true}, {Mesh: "shop", Service: "ledger", TCP: true},
}

// Names in a format are names, whatever signs they have, and a length cuts the name and
// nothing else.
func TestNamesAtAPortAreLiteral(t *testing.T) {
	p := Place{Mesh: "50%", Service: "a%REQ(COOKIE)%b", Inbound: true}
	f, err := Parse(`{"a":"%MESHGATE(service)%","b":"%MESHGATE(mesh):3%","c":"%MESHGATE(service):4% %MESHGATE(direction):2%","d":"%MESHGATE(caller):5%","e":"%MESHGATE(details):5%","f":"%MESHGATE(consumer):5%","g":"%MESHGATE(path):9%"}`)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"a": "a%%REQ(COOKIE)%%b", "b": "50%%", "c": "a%%RE in", "d": "%DOWNSTREAM_PEER_URI_SAN%", "e": "%RESPONSE_CODE_DETAILS%",
		"f": "%DYNAMIC_METADATA(meshgate:consumer):5%", "g": "%PATH(NQ:PATH):9%",
	}
	if d := cmp.Diff(want, translated(f.fields, p.say)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// What a caller says of itself is in no line of a sidecar: nothing has looked at it.
func TestSidecarsBelieveNoHeader(t *testing.T) {
	for _, p := range places {
		f, err := Parse(Default)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range p.fields(translated(f.fields, p.say)) {
			text, _ := value.(string)
			for _, header := range []string{"X-FORWARDED", "x-consumer", "x-credential", "x-anonymous", "x-authenticated"} {
				if strings.Contains(text, header) {
					t.Errorf("%+v: %s is %s", p, name, text)
				}
			}
		}
	}
}

// TestSidecarsLogWhereItIsOn: one logger, or none.
func TestSidecarsLogWhereItIsOn(t *testing.T) {
	for _, p := range places {
		for enabled, want := range map[bool]int{true: 1, false: 0} {
			got, err := Sidecar(Settings{Enabled: enabled, Collector: "http://127.0.0.1:4317"}, p)
			if err != nil || len(got) != want {
				t.Errorf("%+v: %v, %v", p, got, err)
			}
		}
	}
	for enabled, want := range map[bool]int{true: 1, false: 0} {
		if got, err := Handshakes(Settings{Enabled: enabled}, places[2]); err != nil || len(got) != want {
			t.Errorf("handshakes: %v, %v", got, err)
		}
	}
	if _, err := Sidecar(Settings{Enabled: true, Format: "x"}, places[0]); err == nil {
		t.Error("a format that is none was taken")
	}
}

// Each port of each proxy has a logger of its own, and most of a listener is its logger.
func TestLoggersAreShort(t *testing.T) {
	most := map[Place]int{
		{Mesh: "demo", Service: "backend"}:                           1600,
		{Mesh: "demo", Service: "backend", Inbound: true}:            2120,
		{Mesh: "demo", Service: "backend", TCP: true}:                800,
		{Mesh: "demo", Service: "backend", Inbound: true, TCP: true}: 1160 + 810,
	}
	for p, bytes := range most {
		loggers, err := Sidecar(Settings{Enabled: true}, p)
		if p.Inbound && p.TCP && err == nil {
			var more []*accesslogv3.AccessLog
			more, err = Handshakes(Settings{Enabled: true}, p)
			loggers = append(loggers, more...)
		}
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		for _, l := range loggers {
			got += proto.Size(l)
		}
		if got > bytes {
			t.Errorf("%+v: %d bytes, more than %d", p, got, bytes)
		}
	}
}
