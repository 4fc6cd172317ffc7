package config

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/insight"
)

// known are the keys of GET /config that clients know, by their sections.
var known = map[string]string{
	"adminServer":                "apis.dataplaneToken.enabled local.port " + public,
	"apiServer":                  "catalog.bootstrap.url catalog.monitoringAssignment.url catalog.sds.url corsAllowedDomains port readOnly",
	"bootstrapServer":            "port params.adminAccessLogPath params.adminAddress params.adminPort params.xdsConnectTimeout params.xdsHost params.xdsPort",
	"dataplaneTokenServer":       "enabled local.port " + public,
	"defaults":                   "mesh",
	"discovery":                  "universal.pollingInterval",
	"general":                    "advertisedHostname",
	"guiServer":                  "port apiServerUrl",
	"monitoringAssignmentServer": "grpcPort assignmentRefreshInterval",
	"reports":                    "enabled",
	"runtime":                    "universal",
	"sdsServer":                  "grpcPort tlsCertFile tlsKeyFile dataplaneConfigurationRefreshInterval",
	"store":                      "type sqlite.path memory cache.enabled cache.expirationTime",
	"xdsServer":                  "grpcPort diagnosticsPort dataplaneConfigurationRefreshInterval dataplaneStatusFlushInterval",
}

const public = "public.enabled public.interface public.port public.tlsCertFile public.tlsKeyFile public.clientCertsDir"

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

// TestEffectiveIsWhole: the document has the keys that clients know, and every setting.
func TestEffectiveIsWhole(t *testing.T) {
	doc, _ := effective(t, map[string]string{
		"mesh.port": "9681", "mesh.readOnly": "true", "defaults.skipMeshCreation": "true", "mode": ModeZone, "zone.name": "east", "drain.timeout": "90s", "mesh.corsAllowedDomains": "https://a.example",
		"dataPlane.names": "cp.example, 10.0.0.1",
	})
	for name, keys := range known {
		for key := range strings.FieldsSeq(keys) {
			if _, ok := at(doc, name+"."+key); !ok {
				t.Errorf("there is no %s.%s", name, key)
			}
		}
	}
	for _, k := range Table {
		if _, ok := at(doc, "meshgate."+k.Name); !ok {
			t.Errorf("there is no setting %s", k.Name)
		}
	}
	for name, want := range map[string]any{
		"apiServer.port": 9681.0, "apiServer.readOnly": true, "defaults.skipMeshCreation": true, "environment": "universal", "mode": "zone", "store.type": "sqlite",
		"xdsServer.grpcPort": 5678.0, "xdsServer.dataplaneStatusFlushInterval": insight.Interval.String(), "general.advertisedHostname": "cp.example", "apiServer.auth.clientCertsDir": "", "multizone.zone.name": "east", "meshgate.drain.timeout": "1m30s", "meshgate.access.roles": nil,
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
