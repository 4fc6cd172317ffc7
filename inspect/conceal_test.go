package inspect

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestConceal: the values of headers of health checks and of Envoy's own calls are removed, in
// both spellings. Everything else stays byte for byte.
func TestConceal(t *testing.T) {
	for in, want := range map[string]string{
		`{"configs": [ {"value":"seen"} ]}`: `{"configs": [ {"value":"seen"} ]}`,
		`{"health_checks":[{"http_health_check":{"path":"/h","request_headers_to_add":[{"header":{"key":"authorization","value":"Basic x"}}]}}],"value":"seen"}`: `{"health_checks":[{"http_health_check":{"path":"/h","request_headers_to_add":[{"header":{"key":"authorization","value":"[redacted]"}}]}}],"value":"seen"}`,
		`{"healthChecks": [{"httpHealthCheck": {"requestHeadersToAdd": [{"header": {"value" : "x\"y", "key":"a"}}]}}]}`:                                          `{"healthChecks": [{"httpHealthCheck": {"requestHeadersToAdd": [{"header": {"value" : "[redacted]", "key":"a"}}]}}]}`,
		`{"initial_metadata":[{"key":"a","raw_value":"x"},{"key":"b","value":"value"}]}`:                                                                         `{"initial_metadata":[{"key":"a","raw_value":"[redacted]"},{"key":"b","value":"[redacted]"}]}`,
		`{"a":{"health_checks":[{"n":1e999,"b":[true,null,"value","x"]}],"request_headers_to_add":[{"header":{"value":"x"}}]}}`:                                  `{"a":{"health_checks":[{"n":1e999,"b":[true,null,"value","x"]}],"request_headers_to_add":[{"header":{"value":"[redacted]"}}]}}`,
		// Of what routes add, only that is shown which is nobody's secret.
		`{"request_headers_to_add":[{"header":{"key":"connection","value":"Upgrade"}},{"header":{"key":"x-key","value":"x"}}],"response_headers_to_add":[{"header":{"value":"seen"}}]}`: `{"request_headers_to_add":[{"header":{"key":"connection","value":"Upgrade"}},{"header":{"key":"x-key","value":"[redacted]"}}],"response_headers_to_add":[{"header":{"value":"seen"}}]}`,
		`{"requestHeadersToAdd":[{"header":{"value":"x","key":"connection"}}],"healthChecks":[{"requestHeadersToAdd":[{"header":{"key":"connection","value":"x"}}]}]}`:                  `{"requestHeadersToAdd":[{"header":{"value":"[redacted]","key":"connection"}}],"healthChecks":[{"requestHeadersToAdd":[{"header":{"key":"connection","value":"[redacted]"}}]}]}`,
		`{"value":"health_checks","initial_metadata":1,"b":{"value":"seen"}}`:                                                                                                           `{"value":"health_checks","initial_metadata":1,"b":{"value":"seen"}}`,
		// A password can also be in what a TCP health check sends.
		`{"health_checks":[{"tcp_health_check":{"send":{"text":"41555448"},"receive":[{"binary":"AQ=="}]}}],"text":"seen","binary":"seen"}`: `{"health_checks":[{"tcp_health_check":{"send":{"text":"[redacted]"},"receive":[{"binary":"[redacted]"}]}}],"text":"seen","binary":"seen"}`,
		// Envoy quotes what it refuses.
		`{"error_state":{"details":"health_checks { value: \"x\" }","version_info":"1"},"details":"seen"}`: `{"error_state":{"details":"[redacted]","version_info":"1"},"details":"seen"}`,
		`{"errorState":{"details":"value: x","failedConfiguration":{"healthChecks":[{"value":"x"}]}}}`:     `{"errorState":{"details":"[redacted]","failedConfiguration":{"healthChecks":[{"value":"[redacted]"}]}}}`,
		`{"error_state":{"details":"port is in use"}}`:                                                     `{"error_state":{"details":"port is in use"}}`,
	} {
		got, err := Conceal([]byte(in))
		if err != nil || string(got) != want {
			t.Errorf("%s\n got %s %v\nwant %s", in, got, err, want)
		}
	}
	for _, in := range []string{"", "no", "[]", `"x"`, `{"health_checks":[}`, `{} {}`, `<html>`} {
		if got, err := Conceal([]byte(in)); err == nil {
			t.Errorf("%q became %q", in, got)
		}
	}
}

// FuzzConceal: whatever the document, the result is a valid document without the value.
func FuzzConceal(f *testing.F) {
	f.Add(`"x":{"a":[1,"b"]}`, `"value":"n"`)
	f.Fuzz(func(t *testing.T, before, after string) {
		const secret = "canary-1234567890"
		in := `{` + before + `,"initial_metadata":[{"key":"k","value":"` + secret + `"}],` + after + `}`
		if !json.Valid([]byte(in)) || strings.Contains(before+after, secret) {
			return
		}
		got, err := Conceal([]byte(in))
		if err != nil || !json.Valid(got) || strings.Contains(string(got), secret) {
			t.Fatalf("%s became %s, %v", in, got, err)
		}
	})
}

// BenchmarkConceal conceals a dump of 20 MB with health checks.
func BenchmarkConceal(b *testing.B) {
	cluster := `{"name":"c","health_checks":[{"http_health_check":{"request_headers_to_add":[{"header":{"key":"a","value":"b"}}]}}],"x":"` + strings.Repeat("y", 1000) + `"},`
	dump := []byte(`{"configs":[` + strings.Repeat(cluster, 20<<20/len(cluster)) + `{}]}`)
	b.SetBytes(int64(len(dump)))
	for b.Loop() {
		if _, err := Conceal(dump); err != nil {
			b.Fatal(err)
		}
	}
}
