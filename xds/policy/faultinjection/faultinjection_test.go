package faultinjection

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/xds/policy/policytest"
)

func TestGolden(t *testing.T) { policytest.Golden(t, Policy) }

// TestValidate checks the violations against the texts of the mesh API.
func TestValidate(t *testing.T) {
	const who = `"sources":[{"match":{"team":"a"}}],"destinations":[{"match":{"mesh.io/protocol":"http"}}]`
	for _, c := range []struct {
		name, fields string
		want         []string
	}{
		{`nothing`, ``, []string{`sources: must have at least one element`, `destinations: must have at least one element`, `conf: must have at least one of the faults configured`}},
		{`protocols`, `"sources":[{"match":{"team":"a"}}],"destinations":[{"match":{"mesh.io/service":"x"}},{"match":{"mesh.io/protocol":"tcp"}}],"conf":{"abort":{"percentage":1,"httpStatus":500}}`, []string{
			`destinations[0].match: protocol must be specified`, `destinations[1].match["mesh.io/protocol"]: must be one of the [http, http2, grpc]`,
		}},
		{`crowd`, `"sources":[` + strings.Repeat(`{"match":{"team":"a"}},`, 64) + `{"match":{"team":"b"}}],"destinations":[{"match":{"mesh.io/protocol":"http"}}],"conf":{"abort":{"percentage":1,"httpStatus":500}}`, []string{`sources: must have at most 64 elements`}},
		{`empty faults`, who + `,"conf":{"delay":{},"abort":{},"responseBandwidth":{}}`, []string{`conf: must have at least one of the faults configured`}},
		{`halves`, who + `,"conf":{"delay":{"percentage":1},"abort":{"httpStatus":200},"responseBandwidth":{"percentage":101}}`, []string{
			`conf.delay.value: cannot be empty`, `conf.abort.percentage: cannot be empty`, `conf.responseBandwidth.percentage: has to be in [0.0 - 100.0] range`, `conf.responseBandwidth.limit: cannot be empty`,
		}},
		{`values`, who + `,"conf":{"delay":{"percentage":1,"value":"0s"},"abort":{"percentage":1,"httpStatus":419},"responseBandwidth":{"percentage":1,"limit":"mbps"}}`, []string{
			`conf.abort.httpStatus: http status code is incorrect`, `conf.responseBandwidth.limit: has to be in kbps/mbps/gbps units`,
		}},
		{`valid`, who + `,"conf":{"delay":{"percentage":0,"value":"1s"},"abort":{"percentage":100,"httpStatus":418},"responseBandwidth":{"percentage":1,"limit":"50mbps"}}`, nil},
		{`less than a millisecond`, who + `,"conf":{"delay":{"percentage":1,"value":"900us"}}`, []string{`conf.delay.value: must be at least 1ms`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := `{"type":"FaultInjection","mesh":"demo","name":"x"`
			if c.fields != "" {
				text += "," + c.fields
			}
			_, spec := policytest.Decode(t, Kind, []byte(text+`}`))
			var got []string
			for _, v := range Kind.Document.Validate(spec) {
				got = append(got, v.Path+": "+v.Message)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRates: bits per second are converted to KiB per second, whatever the case of the unit.
func TestRates(t *testing.T) {
	for text, want := range map[string]uint64{"80 kbps": 10, "80Kbps": 10, "1kbps": 1, "50 Mbps": 6104, "50mbps": 6104, "1 gbps": 122070, "0 kbps": 0, "kbps": 0, "5  mbps": 0, "5 mbps!": 0} {
		if got, ok := rate(text); got != want || ok != (want > 0) {
			t.Errorf("%s: %d, %t", text, got, ok)
		}
	}
}
