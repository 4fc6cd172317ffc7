package audit

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestWhatReceiversAreTold: the events that docs/cloud.md shows are ones of this package, and its commands
// verify them with the published key, and nothing that was changed.
func TestWhatReceiversAreTold(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "cloud.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "### Destinations and what they receive\n")
	section, _, _ = strings.Cut(section, "\n### ")
	blocks := strings.Split(section, "```")
	if len(blocks) != 9 {
		t.Fatalf("the section has %d parts", len(blocks))
	}
	inJSON, inCEF := strings.TrimPrefix(blocks[1], "json\n"), strings.TrimPrefix(blocks[3], "\n")
	script, printed := strings.TrimPrefix(blocks[5], "sh\n"), strings.TrimPrefix(blocks[7], "\n")
	s := signer(t)
	line := origin.JSON(login(), s)
	if inJSON != string(line)+"\n" || inCEF != string(origin.CEF(login(), s))+"\n" {
		t.Errorf("the page shows\n%s%s", inJSON, inCEF)
	}
	var mu sync.Mutex
	var published []Keys
	publish := func(sets ...Keys) {
		mu.Lock()
		defer mu.Unlock()
		published = sets
	}
	publish(s.Keys())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		_ = json.NewEncoder(w).Encode(published[0]) // the script would miss it
		if len(published) > 1 {
			published = published[1:]
		}
	}))
	defer server.Close()
	run := func(events string) (string, error) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "events"), []byte(events), 0o600); err != nil {
			t.Fatal(err)
		}
		c := exec.CommandContext(t.Context(), "sh", "-c", "set -eu\n"+script)
		c.Dir, c.Env = dir, append(os.Environ(), "CLOUD="+server.URL)
		out, err := c.CombinedOutput()
		return string(out), err
	}
	odd := login()
	odd.UserAgent = `a=b|c\d,"sig":"x" sig=y` + "\n<&>é"
	line = origin.JSON(odd, s)
	for _, events := range []string{inJSON + inCEF, string(line) + "\n" + string(origin.CEF(odd, s)) + "\n"} {
		if out, err := run(events); err != nil || out != printed {
			t.Errorf("%v: it prints\n%s\nof\n%s", err, out, events)
		}
		for _, one := range strings.SplitAfter(events, "\n") {
			if changed := strings.Replace(one, "192.0.2.22", "192.0.2.23", 1); one != "" {
				if out, err := run(changed); err == nil {
					t.Errorf("what was changed is verified: %s", out)
				}
			}
		}
	}
	// The set has been replaced since it was fetched, and an old key is still in it.
	var keys keyring
	keys.rotate(7)
	s = NewSigner(keys.list)
	old := s.Keys()
	events := inJSON
	keys.rotate(8)
	events += string(origin.CEF(login(), s)) + "\n"
	publish(old, s.Keys())
	if out, err := run(events); err != nil || out != printed {
		t.Errorf("after a rotation: %v: it prints\n%s", err, out)
	}
	keys = keys[:1]
	publish(s.Keys())
	if out, err := run(events); err == nil || !strings.HasPrefix(out, "not verified: "+inJSON) {
		t.Errorf("what a withdrawn key has signed: %v: it prints\n%s", err, out)
	}
}
