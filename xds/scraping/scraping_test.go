package scraping_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/xds/scraping"
)

func applications(names ...string) (out []scraping.Application) {
	for _, name := range names {
		out = append(out, scraping.Application{Name: name, At: netip.MustParseAddrPort("127.0.0.1:80"), Path: "/metrics?a=b"})
	}
	return out
}

// TestSettingsTravel: agents read what was described, and nothing that is too much or unclear.
func TestSettingsTravel(t *testing.T) {
	var many []string
	for i := range scraping.MaxApplications + 1 {
		many = append(many, fmt.Sprint(i))
	}
	for name, tt := range map[string]struct {
		is   scraping.Settings
		good bool
	}{
		"nothing":       {scraping.Settings{}, true},
		"everything":    {scraping.Settings{Filter: `a\.b|"c"`, UsedOnly: true, Applications: applications("a", "b")}, true},
		"two of a name": {scraping.Settings{Applications: applications("a", "a")}, false},
		"too many":      {scraping.Settings{Applications: applications(many...)}, false},
		"no address":    {scraping.Settings{Applications: []scraping.Application{{Name: "a"}}}, false},
	} {
		c, err := tt.is.Describe()
		if err != nil {
			t.Fatal(err)
		}
		raw, err := proto.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		got, err := scraping.Read(raw)
		if (err == nil) != tt.good {
			t.Errorf("%s: %v", name, err)
		} else if err == nil && !cmp.Equal(*got, tt.is, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })) {
			t.Errorf("%s: %v", name, got)
		}
	}
	for name, raw := range map[string]string{"nothing": "", "no message": "\xff"} {
		if _, err := scraping.Read([]byte(raw)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
