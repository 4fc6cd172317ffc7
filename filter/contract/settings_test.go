package contract

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseSettings(t *testing.T) {
	got, err := ParseSettings([]byte(`{"redis":{"url":"rediss://h","ca_file":"/ca"},
		"control_plane":{"address":"h:5678","ca_file":"/ca","token_file":"/t","node":"cp/default/1"},
		"cache":{"max_bytes":1,"negative_ttl_ms":5000,"grace_ms":3}}`))
	want := &Settings{
		Redis:        &RedisSettings{URL: "rediss://h", CAFile: "/ca"},
		ControlPlane: &ControlPlaneSettings{Address: "h:5678", CAFile: "/ca", TokenFile: "/t", Node: "cp/default/1"},
		Cache:        CacheSettings{MaxBytes: 1, NegativeTTL: 5000, Grace: 3},
	}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
}

func TestParseSettingsRefuses(t *testing.T) {
	for name, in := range map[string]string{
		"nothing":          ``,
		"no authority":     `{"cache":{}}`,
		"no url":           `{"redis":{}}`,
		"misspelt":         `{"redis":{"url":"redis://h"},"cache":{"grace":1}}`,
		"no node":          `{"control_plane":{"address":"a","ca_file":"c","token_file":"t"}}`,
		"no ca":            `{"control_plane":{"address":"a","token_file":"t","node":"n"}}`,
		"no token":         `{"control_plane":{"address":"a","ca_file":"c","node":"n"}}`,
		"no address":       `{"control_plane":{"ca_file":"c","token_file":"t","node":"n"}}`,
		"negative size":    `{"redis":{"url":"redis://h"},"cache":{"max_bytes":-1}}`,
		"negative ttl":     `{"redis":{"url":"redis://h"},"cache":{"negative_ttl_ms":-1}}`,
		"negative grace":   `{"redis":{"url":"redis://h"},"cache":{"grace_ms":-1}}`,
		"long memory":      `{"redis":{"url":"redis://h"},"cache":{"negative_ttl_ms":5001}}`,
		"trailing data":    `{"redis":{"url":"redis://h"}} {}`,
		"numbers as texts": `{"redis":{"url":"redis://h"},"cache":{"grace_ms":"1"}}`,
	} {
		if s, err := ParseSettings([]byte(in)); err == nil {
			t.Errorf("%s: parsed as %+v", name, s)
		}
	}
}

func TestParseFilterConfig(t *testing.T) {
	for in, want := range map[string]*FilterConfig{
		"":                         {},
		"{}":                       {},
		`{"listener_strips":true}`: {ListenerStrips: true},
		`{"forwarding":"peer"}`:    {Forwarding: ForwardingPeer},
		`{"forwarding":"trusted"}`: {Forwarding: ForwardingTrusted},
		`{"settings":{"redis":{"url":"redis://h"}}}`: {Settings: &Settings{Redis: &RedisSettings{URL: "redis://h"}}},
	} {
		got, err := ParseFilterConfig([]byte(in))
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Errorf("%q: %v (-want +got):\n%s", in, err, d)
		}
	}
	for _, in := range []string{`{"listener_strip":true}`, `{} {}`, `[]`, `{"settings":{}}`, `{"settings":{"redis":{}}}`,
		`{"forwarding":"none"}`, `{"forwarding":"peer","listener_strips":true}`} {
		if c, err := ParseFilterConfig([]byte(in)); err == nil {
			t.Errorf("%q parsed as %+v", in, c)
		}
	}
}

// TestLinkNamesNoFile: the peer of the link must not be able to make the filter read files
// of this machine.
func TestLinkNamesNoFile(t *testing.T) {
	for name, c := range map[string]struct {
		redis *RedisSettings
		ok    bool
	}{
		"none":             {nil, true},
		"a server":         {&RedisSettings{URL: "rediss://h"}, true},
		"an authority":     {&RedisSettings{URL: "rediss://h", CA: "pem"}, true},
		"a socket":         {&RedisSettings{URL: "unix:///run/redis.sock"}, true},
		"an authority's":   {&RedisSettings{URL: "rediss://h", CAFile: "/etc/shadow"}, false},
		"one without name": {&RedisSettings{}, false},
	} {
		if err := (&Level2{Redis: c.redis}).Check(); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
