package config

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
)

// sections are the top-level keys that clients of GET /config know.
var sections = []string{
	"adminServer", "apiServer", "bootstrapServer", "dataplaneTokenServer", "defaults", "discovery", "environment", "general", "guiServer",
	"monitoringAssignmentServer", "reports", "runtime", "sdsServer", "store", "xdsServer",
}

// effective returns the document that a client gets for flags.
func effective(t *testing.T, flags map[string]string) (doc map[string]any, text string) {
	t.Helper()
	l, err := Load(Sources{Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(l.Config.Effective())
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	return doc, string(raw)
}

// at returns the value at a dotted name.
func at(doc map[string]any, name string) (v any, ok bool) {
	v = doc
	for part := range strings.SplitSeq(name, ".") {
		m, is := v.(map[string]any)
		if !is {
			return nil, false
		}
		if v, ok = m[part]; !ok {
			return nil, false
		}
	}
	return v, true
}

// TestEffectiveIsWhole: the document has the sections that clients know, and every setting.
func TestEffectiveIsWhole(t *testing.T) {
	doc, _ := effective(t, map[string]string{
		"mesh.port": "9681", "mesh.readOnly": "true", "mode": ModeZone, "zone.name": "east", "drain.timeout": "90s", "mesh.corsAllowedDomains": "https://a.example",
	})
	for _, name := range sections {
		if _, ok := doc[name]; !ok {
			t.Errorf("there is no section %s", name)
		}
	}
	for _, k := range Table {
		if _, ok := at(doc, "meshgate."+k.Name); !ok {
			t.Errorf("there is no setting %s", k.Name)
		}
	}
	for name, want := range map[string]any{
		"apiServer.port": 9681.0, "apiServer.readOnly": true, "environment": "universal", "mode": "zone", "store.type": "sqlite",
		"xdsServer.grpcPort": 5678.0, "multizone.zone.name": "east", "meshgate.drain.timeout": "1m30s", "meshgate.access.roles": nil,
	} {
		if got, ok := at(doc, name); !ok || got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if got, _ := at(doc, "apiServer.corsAllowedDomains"); len(got.([]any)) != 1 {
		t.Errorf("the origins are %v", got)
	}
}

// TestEffectiveHasNoSecrets: a secret in any setting that may hold one is not shown.
func TestEffectiveHasNoSecrets(t *testing.T) {
	const planted = "planted-secret-0123456789"
	flags := map[string]string{"tracing.otlp.endpoint": "https://user:" + planted + "@collector.example", "access.oidc.issuer": "https://user:" + planted + "@issuer.example"}
	masked := map[string]string{}
	for _, k := range Table {
		if k.Secret {
			masked[k.Name] = planted
		}
	}
	maps.Copy(flags, masked)
	l := &Loaded{Origin: map[string]string{}, values: map[string]any{}}
	for _, k := range Table {
		l.values[k.Name] = k.Default
	}
	for name, v := range flags {
		l.values[name] = v
	}
	_ = l.decode(func(string) bool { return false }) // the values need not work
	raw, err := json.Marshal(l.Config.Effective())
	if err != nil {
		t.Fatal(err)
	}
	if text := string(raw); strings.Contains(text, planted) {
		t.Errorf("a secret is shown: %s", text)
	}
	var doc map[string]any
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	for name := range masked {
		if got, _ := at(doc, "meshgate."+name); got != Mask {
			t.Errorf("%s is %v, want %s", name, got, Mask)
		}
	}
	if len(masked) == 0 || !strings.Contains(string(raw), Mask+"@collector.example") {
		t.Errorf("nothing was planted: %s", raw)
	}
}
