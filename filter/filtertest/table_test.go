package filtertest

import (
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
)

// TestTable proves the table with the engine, and the engine with the table.
func TestTable(t *testing.T) {
	for _, cold := range []bool{false, true} {
		s := &Stream{Cold: cold, Interner: engine.NewInterner()}
		for _, c := range Cases() {
			name := c.Name
			if cold {
				name += "/cold"
			}
			t.Run(name, func(t *testing.T) {
				o, err := s.Run(&c)
				if err != nil {
					t.Fatal(err)
				}
				for _, d := range c.Check(o) {
					t.Error(d)
				}
			})
		}
		if n := s.Interner.Len(); n != 0 {
			t.Errorf("%d chains are still interned", n)
		}
	}
}

// TestTableIsSound checks what runners over HTTP rely on.
func TestTableIsSound(t *testing.T) {
	label := regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	names := map[string]bool{}
	records := map[contract.Hash]contract.Record{}
	for _, c := range Cases() {
		if !label.MatchString(c.Name) || names[c.Name] {
			t.Errorf("case %q: the name is no DNS label or is used twice", c.Name)
		}
		names[c.Name] = true
		if c.Request.Path == "" || c.Request.Path[0] != '/' || c.Want.Outcome == 0 {
			t.Errorf("case %q has no path or no outcome", c.Name)
		}
		for _, tok := range c.Tokens {
			if old, ok := records[tok.Hash()]; ok && !cmp.Equal(old, tok.Record) {
				t.Errorf("case %q: token %q has another record elsewhere", c.Name, tok.Value)
			}
			records[tok.Hash()] = tok.Record
			b, err := tok.Record.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := contract.ParseRecord(b); err != nil {
				t.Errorf("case %q: token %q: %v", c.Name, tok.Value, err)
			}
		}
	}
}

// TestCheckFinds makes sure that a passing check means something: each damage to
// a good observation must be reported.
func TestCheckFinds(t *testing.T) {
	s := &Stream{Interner: engine.NewInterner()}
	byName := map[string]Case{}
	for _, c := range Cases() {
		byName[c.Name] = c
	}
	for _, tc := range []struct {
		name, on string
		damage   func(*Observed)
	}{
		{"other outcome", "bearer", func(o *Observed) { o.Outcome = Issued }},
		{"other status", "no-token", func(o *Observed) { o.Status = 403 }},
		{"other body", "no-token", func(o *Observed) { o.Body += " " }},
		{"challenge missing", "no-token", func(o *Observed) { o.Header.Del("www-authenticate") }},
		{"challenge twice", "no-token", func(o *Observed) { o.Header.Add("www-authenticate", "Bearer") }},
		{"unwanted header", "no-token", func(o *Observed) { o.Header.Set("cache-control", "no-store") }},
		{"grpc status to others", "no-token", func(o *Observed) { o.Header.Set("grpc-status", "16") }},
		{"no grpc status", "grpc-missing", func(o *Observed) { o.Header.Set("grpc-status", "0") }},
		{"refused and proxied", "no-token", func(o *Observed) { o.Upstream = o.Header }},
		{"identity missing", "bearer", func(o *Observed) { o.Upstream.Del("x-consumer-id") }},
		{"identity twice", "bearer", func(o *Observed) { o.Upstream.Add("x-consumer-id", "root") }},
		{"identity unwanted", "bearer", func(o *Observed) { o.Upstream.Set("x-anonymous-consumer", "true") }},
		{"twin", "bearer", func(o *Observed) { o.Upstream["X_consumer-Id"] = []string{"root"} }},
		{"hand-over leaks", "bearer", func(o *Observed) { o.Upstream.Set("x-meshgate-oauth", "evil") }},
		{"credential shown", "hidden", func(o *Observed) { o.Upstream.Set("authorization", "x") }},
		{"client believed", "issue-spoofed", func(o *Observed) { o.Upstream.Set("x-meshgate-client", spoofedClient) }},
		{"path changed", "query-hidden", func(o *Observed) { o.Path += "?access_token=token-full" }},
		{"body changed", "form", func(o *Observed) { o.Sent += "x" }},
		{"body left", "form-hidden-whole", func(o *Observed) { o.Sent = "x" }},
		{"client invented", "issue-spoofed", func(o *Observed) { o.Upstream.Set("x-meshgate-client", "x") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := byName[tc.on]
			o, err := s.Run(&c)
			if err != nil {
				t.Fatal(err)
			}
			if d := c.Check(o); len(d) != 0 {
				t.Fatalf("before the damage: %v", d)
			}
			tc.damage(o)
			if d := c.Check(o); len(d) == 0 {
				t.Error("the damage went unnoticed")
			}
		})
	}
}

func TestNormalise(t *testing.T) {
	for in, want := range map[string]string{
		"/": "/", "/a/b": "/a/b", "/a/../b": "/b", "/../a": "/a", "/a/.": "/a/", "/a/..": "/", "/a/b/..": "/a/",
		"//a///b//": "/a/b/", "/%61%2e%2E/b": "/a../b", "/a/%2e%2e/b": "/b", "/a%2Fb": "/a%2Fb", "/%2561": "/%2561",
		"/a?b=/../c": "/a?b=/../c", "/a%": "/a%", "/a%zz": "/a%zz", "/a?": "/a?",
	} {
		if got := Normalise(in); got != want {
			t.Errorf("Normalise(%q) = %q, want %q", in, got, want)
		}
	}
}
