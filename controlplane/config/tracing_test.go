package config

import "testing"

func TestCollector(t *testing.T) {
	for text, want := range map[string]Collector{
		"":                              {},
		"http://127.0.0.1:4318":         {"127.0.0.1", 4318, false, "/v1/traces"},
		"https://collector.example/":    {"collector.example", 443, true, "/v1/traces"},
		"http://[::1]:4318/otlp/traces": {"::1", 4318, false, "/otlp/traces"},
		"http://collector.example":      {"collector.example", 80, false, "/v1/traces"},
	} {
		got, err := (&Tracing{OTLP: OTLP{Endpoint: text}}).Collector()
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"collector:4318", "grpc://collector:4317", "http://", "http://u:p@collector", "http://c:0", "http://c:65536", "http://c?x=1", "http://c#x"} {
		if len((&Tracing{OTLP: OTLP{Endpoint: text}}).check()) != 1 {
			t.Errorf("%q is accepted", text)
		}
	}
	for sample, good := range map[float64]bool{0: true, 0.5: true, 1: true, -1: false, 1.5: false} {
		if got := len((&Tracing{Sample: sample}).check()) == 0; got != good {
			t.Errorf("%v: %t", sample, got)
		}
	}
}
