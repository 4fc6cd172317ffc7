package main

import (
	"os"
	"regexp"
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/host"
	"github.com/meshgate/meshgate/filter/host/hosttest"
	"github.com/meshgate/meshgate/filter/tokencache"
)

// counted is a token cache that has counted.
type counted struct {
	*hosttest.Tokens
	s tokencache.Stats
}

func (c counted) Stats() tokencache.Stats { return c.s }

// The figures are those of all token caches, each under its name.
func TestFigures(t *testing.T) {
	text, err := os.ReadFile("figures.c")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`LITERAL\("([a-z_]+)"\)`).FindAllSubmatch(text, -1)
	open := make(chan host.Tokens, 2)
	for _, s := range []tokencache.Stats{{Hits: 3, L2Hits: 2, Linked: true, LeaseAge: 5e6}, {Hits: 4, StaleServed: 1, LeaseAge: 7e6}} {
		open <- counted{hosttest.NewTokens(""), s}
	}
	h := host.New(host.NewLogger(&hosttest.Log{}), func(*host.Host, *contract.Settings, string) (host.Tokens, error) { return <-open, nil })
	for _, config := range []string{"", `{"settings":{"redis":{"url":"redis://a"},"cache":{}}}`} {
		if _, _, err := h.AcquireSource([]byte(config)); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := h.AcquireProgram([]byte(hosttest.Chain)); err != nil {
		t.Fatal(err)
	}
	out := make([]uint64, len(names))
	if !figures(h, out) {
		t.Fatal("no figures")
	}
	got := map[string]uint64{}
	for i, n := range names {
		if out[i] != 0 {
			got[string(n[1])] = out[i]
		}
	}
	for name, want := range map[string]uint64{
		"cache_hits_total": 7, "redis_hits_total": 2, "stale_served_total": 1, "linked": 1, "lease_age_milliseconds": 7,
	} {
		if got[name] != want {
			t.Errorf("%s is %d, want %d", name, got[name], want)
		}
	}
	if len(got) != 5 {
		t.Errorf("figures: %v", got)
	}
}
