package engine_test

import (
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
)

// TestServiceOfAMember: on the route of a group's gateway a token is good for the service of
// the member that the chain names, and for no other one's of the same id.
func TestServiceOfAMember(t *testing.T) {
	p := compile(&contract.Chain{Service: "s", ServicePlane: "a", Plugins: []contract.Plugin{{ID: "o", OAuth2: &contract.OAuth2{Header: "authorization"}}}})
	group := &contract.Scopes{Of: "group", Members: []string{"a", "b"}}
	for name, tc := range map[string]struct {
		holder, service string
		want            engine.Action
	}{
		"its own":                 {"a", "", engine.Continue},
		"of who serves":           {"b", "a", engine.Continue},
		"another's":               {"b", "", engine.Refuse},
		"for who does not serve":  {"a", "b", engine.Refuse},
		"judged by who looked up": {"", "", engine.Continue},
	} {
		r := contract.Record{Version: 1, Plane: tc.holder, Service: "s", ServicePlane: tc.service, Credential: contract.Credential{ID: "c", ClientID: "app"}}
		m := &message{Method: "GET", Path: "/", Headers: map[string][]string{"authorization": {"bearer x"}}}
		v := drive(t, p, m, saying{r.PackFor(group, nil), contract.Found}, make([]byte, engine.BufferSize))
		if v.Action != tc.want || tc.want == engine.Refuse && v.Refusal.Reason != contract.ReasonWrongService {
			t.Errorf("%s: action %d, %+v", name, v.Action, v.Refusal)
		}
	}
}
