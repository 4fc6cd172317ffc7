package gateway

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/model"
)

// TestNumbersAreNoHosts: a numeric host would make a proxy connect to an address that nobody
// has checked.
func TestNumbersAreNoHosts(t *testing.T) {
	hosts := map[string]func(string) string{
		"service":      func(name string) string { return created(t, Services, `{"host":"`+name+`"}`)["host"] },
		"service, url": func(name string) string { return created(t, Services, `{"url":"http://`+name+`:80/"}`)["host"] },
		"upstream":     func(name string) string { return created(t, Upstreams, `{"name":"`+name+`"}`)["name"] },
		"host header": func(name string) string {
			return created(t, Upstreams, `{"name":"a","host_header":"`+name+`:80"}`)["host_header"]
		},
		"probe": func(name string) string {
			return created(t, Upstreams, `{"name":"a","healthchecks":{"active":{"https_sni":"`+name+`"}}}`)["healthchecks.active.https_sni"]
		},
		"target":           func(name string) string { return targetText(name) },
		"target, port":     func(name string) string { return targetText(name + ":80") },
		"target, brackets": func(name string) string { return targetText("[" + name + "]:80") },
		"server name":      func(name string) string { return sniText(name) },
		"wildcard":         func(name string) string { return sniText("*." + name) },
	}
	for what, refusal := range hosts {
		for _, name := range []string{"1.2.3", "1.2.3.4.5", "192.168.0.256", "127.1", "2130706433", "017700000001", "0x7f000001", "x.0X7F", "a.0x", "a.1.", "99999999999999999999"} {
			if refusal(name) == "" {
				t.Errorf("%s: %s is accepted", what, name)
			}
		}
		for _, name := range []string{"v1", "1.example", "9f3c2a4b5d6e", "2048game", "a.v1", "0x7g"} {
			if text := refusal(name); text != "" {
				t.Errorf("%s: %s is refused: %s", what, name, text)
			}
		}
	}
	for _, address := range []string{"10.0.0.1", "::1"} {
		if text := hostText(address) + targetText(address); text != "" {
			t.Errorf("%s is refused: %s", address, text)
		}
	}
}

func created(t *testing.T, kind *model.Kind, body string) map[string]string {
	t.Helper()
	_, err := kind.Schema.Process(model.OpCreate, decode(t, body), nil)
	return violations(t, err)
}

// TestStoredNumbersAreRead: hosts that older versions stored can still be shown, found and
// deleted.
func TestStoredNumbersAreRead(t *testing.T) {
	var target UpstreamTarget
	if err := json.Unmarshal([]byte(`{"upstream":"u","target":"X.0x7F:80"}`), &target); err != nil {
		t.Fatal(err)
	}
	index, _ := Targets.Unique[0].Value(&target)
	host, port := target.HostPort()
	if target.Target != "X.0x7F:80" || index != "u x.0x7f:80" || host != "x.0x7f" || port != 80 {
		t.Errorf("%s, %s, %s, %d", target.Target, index, host, port)
	}
	want := map[string]any{RefUpstream: map[string]any{"id": "u"}, "target": "x.0x7f:80"}
	if diff := cmp.Diff(want, UpstreamTargetFields(index)); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	if key := Targets.Schema.KeyIndex("X.0x7F"); key != "x.0x7f:8000" {
		t.Errorf("key %s", key)
	}
}
