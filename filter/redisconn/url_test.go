package redisconn

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"
)

// secret must not appear in any error.
const secret = "pa55word"

func TestParse(t *testing.T) {
	t.Parallel()
	tcp := func(addresses ...string) address { return address{network: "tcp", addresses: addresses} }
	with := func(t address, change func(*address)) address { change(&t); return t }
	for url, want := range map[string]address{
		"r:1":                           tcp("r:1"),
		"[::1]:6379":                    tcp("[::1]:6379"),
		"redis://r":                     tcp("r:6379"),
		"redis://u:pa55word@r:1/2":      with(tcp("r:1"), func(t *address) { t.username, t.password, t.database = "u", secret, 2 }),
		"redis://:pa55word@r":           with(tcp("r:6379"), func(t *address) { t.password = secret }),
		"rediss://r:1":                  with(tcp("r:1"), func(t *address) { t.tls, t.serverName = true, "r" }),
		"rediss://r:1?skip_verify=true": with(tcp("r:1"), func(t *address) { t.tls, t.serverName, t.insecure = true, "r", true }),
		"unix:///run/redis.sock?db=3":   {network: "unix", addresses: []string{"/run/redis.sock"}, database: 3},
		"redis+sentinel://a/m":          with(tcp("a:26379"), func(t *address) { t.master = "m" }),
		"redis+sentinel://u:pa%2F55word@a:1,b,[::1]:3/m%20n/7?sentinel_username=s&sentinel_password=p%26w": with(tcp("a:1", "b:26379", "[::1]:3"), func(t *address) {
			t.username, t.password, t.master, t.database = "u", "pa/55word", "m n", 7
			t.sentinelUsername, t.sentinelPassword = "s", "p&w"
		}),
		"rediss+sentinel://a:1/m":            with(tcp("a:1"), func(t *address) { t.tls, t.master = true, "m" }),
		"redis+cluster://u:p@@a,b:7":         with(tcp("a:6379", "b:7"), func(t *address) { t.cluster, t.username, t.password = true, "u", "p@" }),
		"rediss+cluster://a:1,b:2,[fe80::1]": with(tcp("a:1", "b:2", "[fe80::1]:6379"), func(t *address) { t.cluster, t.tls = true, true }),
	} {
		got, err := parse(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if diff := cmp.Diff(&want, got, cmp.AllowUnexported(address{}), cmpopts.IgnoreTypes(redis.Options{})); diff != "" {
			t.Errorf("%s: %s", url, diff)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"", "r", "r:", ":1", "u:pa55word@r:1", "r:1/2", "r:99999", "http://u:pa55word@r", "redis://u:pa55word@r:x", "redis://u:pa55word@r/x/y",
		"redis://u:pa55word@r?nothing=1", "redis://u:pa55word%zz@r", "redis+other://u:pa55word@r", "rediss+://r", "unix+cluster://r",
		"unix+sentinel:///a/m", "redis+sentinel://u:pa55word@a", "redis+sentinel://u:pa55word@a/", "redis+sentinel://a/m/x", "redis+sentinel://a/m/-1", "redis+sentinel://a/m/1/2",
		"redis+sentinel://a/m?sentinel_password=pa55word&sentinel_password=pa55word", "redis+sentinel://a/m?password=pa55word", "redis+sentinel://a/m?%zzpa55word",
		"redis+sentinel://u:pa55word%zz@a/m", "redis+sentinel://u:pa55word@a,,b/m", "redis+sentinel://u:pa55word@a:0/m", "redis+sentinel:///m",
		"redis+cluster://u:pa55word@a/0", "redis+cluster://u:pa55word@a?x=pa55word", "redis+cluster://u:pa55word@", "redis+cluster://a b", "redis+cluster://a:1:2",
		"redis+cluster://u:pa55word/@a", "redis+cluster://" + strings.Repeat("a,", maxAddresses) + "a",
	} {
		got, err := parse(url)
		if err == nil {
			t.Errorf("%s: %+v", url, got)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", url, err)
		}
		if c, err := Open(Options{Settings: settings(url)}); err == nil {
			_ = c.Close()
			t.Errorf("%s: opened", url)
		}
	}
}

// FuzzParse: every URL that parses names an address, and no error quotes the URL.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"r:1", "redis://u:p@r:1/2?protocol=2", "unix:///run/redis.sock?db=3", "rediss+sentinel://u:p@a:1,b/m/7?sentinel_password=x", "redis+cluster://u:p@a,b:7",
		"redis+sentinel://[::1]/m", "redis://[::1]:1", "redis+cluster://@,", "://", "redis+sentinel://a/%",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, url string) {
		got, err := parse(url)
		if err != nil {
			if len(err.Error()) > 120 {
				t.Fatalf("%q: %v", url, err)
			}
			return
		}
		if len(got.addresses) == 0 || got.addresses[0] == "" || (got.cluster && got.master != "") || got.database < 0 && !strings.Contains(url, "-") {
			t.Fatalf("%q: %+v", url, got)
		}
		c, err := Open(Options{Settings: settings(url)})
		if err != nil {
			t.Fatalf("%q: %v", url, err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
