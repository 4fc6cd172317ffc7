package meshapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/policy/meshtrafficpermission"
)

// writeModes say of each offered kind with which text its writes are refused. It is written for people:
// the code decides by what a kind says of itself.
var writeModes = []struct {
	name   string
	writes Writes
	text   func(k *model.Kind) string
}{
	{"standalone", Writes{}, func(*model.Kind) string { return "" }},
	{"global", Writes{Global: true}, func(k *model.Kind) string {
		if slices.Contains([]*model.Kind{mesh.Dataplanes, mesh.ZoneIngresses, mesh.ZoneEgresses}, k) {
			return textGlobal
		}
		return ""
	}},
	{"zone", Writes{Zone: true}, func(k *model.Kind) string {
		own := []string{"Dataplane", "ZoneIngress", "ZoneEgress", "Zone", "MeshAccessLog", "MeshTokenAuth", "MeshTrace", "MeshTrafficPermission"}
		if slices.Contains(own, k.Document.Type) {
			return ""
		}
		return textReadOnly
	}},
	{"read only", Writes{ReadOnly: true}, func(*model.Kind) string { return textReadOnly }},
	{"read only in a zone", Writes{ReadOnly: true, Zone: true}, func(*model.Kind) string { return textReadOnly }},
	{"native", Writes{Native: true}, func(*model.Kind) string { return textNative }},
}

// TestModes: what is written by another control plane, or by nobody, is refused with the text that says
// where to write it, also as a dry run, and stays as it is. Everything else is written. The lists of kinds
// say the same beforehand.
func TestModes(t *testing.T) {
	for _, mode := range writeModes {
		t.Run(mode.name, func(t *testing.T) {
			a := offeredAPI(t, func(o *Options) { o.Kinds = append(o.Kinds, surveys) })
			samples := map[*model.Kind]string{}
			for _, k := range offered() {
				samples[k] = samplesOf(t, k)[0].with(map[string]any{"name": "x"}).text(t)
				a.put(t, collectionOf(k)+"/x", samples[k])
			}
			a.options.Writes = mode.writes
			h := Handler(a.options)
			for _, k := range offered() {
				item, why := collectionOf(k)+"/x", mode.text(k)
				before := request(h, "GET", item, "").Body.String()
				for _, query := range []string{"?dryRun=true", ""} {
					for _, method := range []string{http.MethodPut, http.MethodDelete} {
						rec := request(h, method, item+query, samples[k], "Content-Type", mediaJSON)
						if why != "" {
							check(t, rec, expected(405, "Method not allowed", why))
						} else if rec.Code != http.StatusOK {
							t.Errorf("%s %s: %d %s", method, item+query, rec.Code, rec.Body)
						}
					}
				}
				switch rec := request(h, "GET", item, ""); {
				case why != "" && rec.Body.String() != before:
					t.Errorf("%s is refused and has become %d %s", item, rec.Code, rec.Body)
				case why == "" && rec.Code != http.StatusNotFound:
					t.Errorf("%s is not deleted: %d", item, rec.Code)
				case why == "": // others are in it, or have it
					a.put(t, item, samples[k])
				}
			}
			saysReadOnly(t, h, mode.text)
			if rec := request(h, http.MethodPost, "/tokens/dataplane", `{}`, "Content-Type", mediaJSON); rec.Code != http.StatusOK {
				t.Errorf("tokens: %d %s", rec.Code, rec.Body)
			}
		})
	}
}

// saysReadOnly compares readOnly of /policies and /_resources with the texts.
func saysReadOnly(t *testing.T, h http.Handler, text func(*model.Kind) string) {
	t.Helper()
	type listed struct {
		Name     string
		ReadOnly bool
	}
	var doc struct{ Policies, Resources []listed }
	for _, path := range []string{"/policies", "/_resources"} {
		if err := json.Unmarshal(request(h, "GET", path, "").Body.Bytes(), &doc); err != nil {
			t.Fatal(err)
		}
	}
	kinds := map[string]*model.Kind{}
	for _, k := range offered() {
		kinds[k.Document.Type] = k
	}
	said := map[string]bool{}
	for _, p := range slices.Concat(doc.Policies, doc.Resources) {
		if said[p.Name] = true; p.Name == surveys.Document.Type {
			if !p.ReadOnly {
				t.Error("what is only shown is said to be written")
			}
		} else if want := text(kinds[p.Name]) != ""; p.ReadOnly != want {
			t.Errorf("readOnly of %s is %t", p.Name, p.ReadOnly)
		}
	}
	for _, k := range all.Kinds() {
		if k.Document.Policy && !slices.ContainsFunc(doc.Policies, func(p listed) bool { return p.Name == k.Document.Type }) {
			t.Errorf("/policies lacks %s", k.Document.Type)
		}
	}
	if len(said) != len(kinds)+1 {
		t.Errorf("%d kinds are listed, of %d", len(said), len(kinds)+1)
	}
}

// TestNamesInAZone: what a zone writes is known as <zone>.<name> above it, so new names leave room for that.
// Other control planes, and what only this one has, keep the whole length.
func TestNamesInAZone(t *testing.T) {
	const zone = "east"
	longest := strings.Repeat("n", model.MaxName)
	fits := longest[:model.MaxName-len(zone+".")-1]
	a := offeredAPI(t)
	before := longest[:len(fits)+1]
	put := func(h http.Handler, k *model.Kind, name string) *httptest.ResponseRecorder {
		return request(h, http.MethodPut, collectionOf(k)+"/"+name, samplesOf(t, k)[0].with(map[string]any{"name": name}).text(t), "Content-Type", mediaJSON)
	}
	if rec := put(a.handler, mesh.Dataplanes, before); rec.Code != http.StatusCreated {
		t.Fatal(rec.Code, rec.Body)
	}
	a.options.Zone, a.options.Writes = zone, Writes{Zone: true}
	h := Handler(a.options)
	for _, k := range []*model.Kind{mesh.Dataplanes, mesh.ZoneIngresses, mesh.ZoneEgresses, meshtrafficpermission.Kind} {
		if rec := put(h, k, fits); rec.Code != http.StatusCreated {
			t.Errorf("%s that fits: %d %s", k.Name, rec.Code, rec.Body)
		}
		check(t, put(h, k, fits+"nn"), expected(400, "Could not process a resource", "Resource is not valid", "name", "the length of the name must be shorter"))
	}
	if rec := put(h, mesh.Zones, longest); rec.Code != http.StatusCreated {
		t.Errorf("a zone of its own: %d %s", rec.Code, rec.Body)
	}
	if rec := put(h, mesh.Dataplanes, before); rec.Code != http.StatusOK {
		t.Errorf("one that is there: %d %s", rec.Code, rec.Body)
	}
}
