package contract

import (
	"strings"
	"testing"
)

// TestModes: every name is a mode of that name, and nothing else is one.
func TestModes(t *testing.T) {
	for _, name := range ModeNames() {
		if m, err := ParseMode(name); err != nil || m.String() != name || !m.Known() {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
	for _, name := range []string{"", "Module", "wasm"} {
		if m, err := ParseMode(name); err == nil || !strings.Contains(err.Error(), "module, extauthz, golang") {
			t.Errorf("%q is %v, %v", name, m, err)
		}
	}
	if Mode("module").Known() {
		t.Error("there are two spellings of one mode")
	}
}

// TestHonours: an authorization service cannot change bodies; the others can.
func TestHonours(t *testing.T) {
	for _, c := range []struct {
		plugin  Plugin
		refused bool
	}{
		{Plugin{OAuth2: &OAuth2{InBody: true}}, false},
		{Plugin{OAuth2: &OAuth2{HideCredentials: true}}, false},
		{Plugin{OAuth2: &OAuth2{InBody: true, HideCredentials: true}}, true},
		{Plugin{KeyAuth: &KeyAuth{InBody: true, HideCredentials: true}}, true},
		{Plugin{Termination: &Termination{}}, false},
	} {
		chain := &Chain{Plugins: []Plugin{c.plugin}}
		if err := ModeExtAuthz.Honours(chain); (err != nil) != c.refused {
			t.Errorf("%+v: %v", c.plugin, err)
		}
		for _, m := range []Mode{ModeModule, ModeGolang} {
			if err := m.Honours(chain); err != nil {
				t.Errorf("%s: %v", m, err)
			}
		}
	}
}
