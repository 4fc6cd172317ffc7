package explain_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/turns"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/inspect/explain"
	"github.com/meshgate/meshgate/xds/plan/edge"
	"github.com/meshgate/meshgate/xds/resource"
)

// known is the token that the gateways of shop accept.
const known = "kn0wn-51b0c7d29e6f4a83-t0k3n"

func uuid(kind, n int) string { return fmt.Sprintf("%08d-0000-4000-8000-%012d", kind, n) }

// shop are the gateways of a control plane with an open service and one behind tokens.
func shop(t *testing.T) *explain.Gateways {
	db := memstore.New()
	t.Cleanup(func() { _ = db.Close() })
	put := func(k *model.Kind, id string, spec any) {
		if _, err := db.Update(context.Background(), model.Config, func(tx store.Tx) error {
			_, err := tx.Create(&model.Resource{Kind: k, Scope: model.DefaultControlPlane, Name: id, Created: time.Unix(1, 0), Spec: spec})
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	for n, name := range []string{"open", "guarded"} {
		put(gateway.Services, uuid(1, n), &gateway.Service{
			Name: name, Protocol: "http", Host: "127.0.0.1", Port: 9000 + n, ConnectTimeout: 1000, ReadTimeout: 1000, WriteTimeout: 1000, Enabled: true,
		})
	}
	route := func(n, service int, name string, edit func(*gateway.Route)) {
		r := &gateway.Route{Name: name, Protocols: []string{"http", "https"}, HTTPSRedirectStatusCode: 426, Service: uuid(1, service)}
		edit(r)
		put(gateway.Routes, uuid(2, n), r)
	}
	route(0, 0, "everything", func(r *gateway.Route) { r.Paths = []string{"/"} })
	route(3, 0, "stripped", func(r *gateway.Route) { r.Paths, r.StripPath = []string{"/stripped"}, true })
	route(1, 1, "invoices", func(r *gateway.Route) { r.Paths, r.StripPath = []string{"/invoices"}, true })
	route(2, 0, "secure", func(r *gateway.Route) { r.Paths, r.Protocols = []string{"/secure"}, []string{"https"} })
	config, err := json.Marshal(gateway.OAuth2Config{AuthHeaderName: "authorization", Scopes: []string{"email"}, PKCE: "lax", GlobalCredentials: true})
	if err != nil {
		t.Fatal(err)
	}
	put(gateway.Plugins, uuid(3, 0), &gateway.Plugin{Name: "oauth2", Service: uuid(1, 1), Config: config, Enabled: true, Protocols: []string{"http", "https"}})
	var g *view.Gateway
	if err := db.View(context.Background(), func(r store.Reader) (err error) {
		g, err = view.Load(model.DefaultControlPlane, r)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	params := edge.Params{HTTPPort: 8000, HTTPSPort: 8443, Filter: contract.ModeModule, OAuth: edge.Endpoint{Host: "127.0.0.1", Port: 5678}}
	set := edge.NewPlanner(params).Plan(g).Set
	good := contract.HashToken([]byte(known))
	return &explain.Gateways{
		Scope: model.DefaultControlPlane, Nodes: func() []string { return []string{"cp/default/gw-1"} },
		Last: func(string) *resource.Set { return set }, Turns: turns.Sized(1, 1),
		Planned: func(context.Context) error { return nil },
		Record: func(_ context.Context, _ string, hash contract.Hash) (*contract.Record, contract.Answer, uint64, error) {
			if hash != good {
				return nil, contract.Unknown, 1, nil
			}
			return &contract.Record{
				Version: contract.RecordVersion, Credential: contract.Credential{ID: uuid(4, 0), ClientID: "app"},
				Consumer: &contract.Consumer{ID: uuid(5, 0), Username: "bob"},
			}, contract.Found, 1, nil
		},
	}
}

// TestGatewayDecides: routes by their priority, plugins, tokens, consumers, targets.
func TestGatewayDecides(t *testing.T) {
	e := shop(t)
	for _, test := range []struct {
		name   string
		q      explain.Question
		want   string
		others string
	}{
		{"open", explain.Question{Path: "/x"}, "allowed 0 everything 127.0.0.1:9000", ""},
		{"a prefix that is stripped", explain.Question{Path: "/stripped/x"}, "allowed 0 stripped 127.0.0.1:9000", "everything"},
		{"without a token", explain.Question{Path: "/invoices/1"}, "refused 401 invoices plugins oauth2", "everything"},
		{"an unknown token", explain.Question{Path: "/invoices", Token: canary}, "refused 401 invoices plugins oauth2", "everything"},
		{"a valid token", explain.Question{Path: "/invoices", Token: known}, "allowed 0 invoices plugins oauth2 consumer bob 127.0.0.1:9001", "everything"},
		{"the OAuth server", explain.Question{Path: "/invoices/oauth2/token", Method: "POST"}, "allowed 0 invoices plugins oauth2", "everything"},
		{"https demanded", explain.Question{Path: "/secure"}, "refused 426 secure", "everything"},
		{"https", explain.Question{Path: "/secure", Scheme: "https"}, "allowed 0 secure 127.0.0.1:9000", "everything"},
		{"a method that nobody gets", explain.Question{Path: "/x", Method: "TRACE"}, "refused 405", "everything"},
		{"a path that is normalised", explain.Question{Path: "/a%2fb"}, "unknown 0", ""},
	} {
		query := map[string][]string{"host": {"shop.example"}, "path": {test.q.Path}, "token": {test.q.Token}, "method": {test.q.Method}, "scheme": {test.q.Scheme}}
		q, err := explain.Read(query, "", "host", "path", "token", "method", "scheme")
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.Explain(context.Background(), q)
		if err != nil {
			t.Fatal(err)
		}
		var others []string
		for _, o := range got.Others {
			others = append(others, o.Name)
		}
		if said := summary(got); said != test.want || strings.Join(others, " ") != test.others {
			t.Errorf("%s: %s, others %v, want %s, others %s\n%s", test.name, said, others, test.want, test.others, dump(got))
		}
		if text, err := json.Marshal(got); err != nil || strings.Contains(string(text), known) || strings.Contains(string(text), canary) {
			t.Errorf("%s: the token is shown, or %v", test.name, err)
		}
	}
}

// summary is an explanation in a few words.
func summary(e *explain.Explanation) string {
	out := fmt.Sprintf("%s %d", e.Outcome.Verdict, e.Outcome.Status)
	for _, s := range e.Steps {
		if s.Step == "route" {
			for _, r := range s.Decided {
				if !strings.HasSuffix(out, r.Name) {
					out += " " + r.Name
				}
			}
		}
	}
	for _, p := range e.Plugins {
		out += " " + p.Type + " " + p.Name
	}
	if e.Consumer != nil {
		out += " consumer " + e.Consumer.Name
	}
	for i := range e.Endpoints {
		out += " " + e.Endpoints[i].Address
	}
	return out
}
