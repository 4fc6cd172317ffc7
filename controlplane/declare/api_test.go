package declare

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/meshgate/meshgate/controlplane/cli/clitest"
	"github.com/meshgate/meshgate/controlplane/client"
	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/dryrun/dryruntest"
	"github.com/meshgate/meshgate/controlplane/gatewayapi"
)

// TestTooManyRequests: an API that wants to be asked later is asked later, as long as it says
// or longer each time, and at most ten times.
func TestTooManyRequests(t *testing.T) {
	var asked atomic.Int32
	limit, after := int32(3), "7"
	r := newRig(t, "")
	r.before = func(w http.ResponseWriter, _ *http.Request) bool {
		if asked.Add(1) > limit {
			return false
		}
		if after != "" {
			w.Header().Set("Retry-After", after)
		}
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	}
	c, err := client.New(client.Options{Address: r.url})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var waits []time.Duration
	api := &API{Client: c, Parallel: 1, Sleep: func(_ context.Context, d time.Duration) error {
		waits = append(waits, d)
		return nil
	}}
	call := func() error {
		asked.Store(0)
		waits = nil
		return api.call(t.Context(), http.MethodGet, "/services", nil, nil, nil)
	}
	if err := call(); err != nil || !slices.Equal(waits, []time.Duration{7 * time.Second, 7 * time.Second, 7 * time.Second}) {
		t.Errorf("%v %v", waits, err)
	}
	after = ""
	if err := call(); err != nil || !slices.Equal(waits, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}) {
		t.Errorf("%v %v", waits, err)
	}
	limit = 100
	if err := call(); status(err) != http.StatusTooManyRequests || asked.Load() != 10 || waits[8] != time.Minute {
		t.Errorf("%v after %d: %v", waits, asked.Load(), err)
	}
	stop := errors.New("stop")
	api.Sleep = func(context.Context, time.Duration) error { return stop }
	if err := call(); !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
}

// TestBusyAPI: an API that has no time and says when it may have some is asked again then, but not one that
// takes long to say so, which would be kept busy. One that says nothing is not.
func TestBusyAPI(t *testing.T) {
	r := newRig(t, "")
	now, takes, after, asked := time.Unix(0, 0), time.Duration(0), "5", 0
	r.before = func(w http.ResponseWriter, _ *http.Request) bool {
		asked++
		now = now.Add(takes)
		if after != "" {
			w.Header().Set("Retry-After", after)
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	}
	c, err := client.New(client.Options{Address: r.url})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	api := &API{Client: c, Parallel: 1, Now: func() time.Time { return now }, Sleep: func(context.Context, time.Duration) error { return nil }}
	for _, test := range []struct {
		takes time.Duration
		after string
		want  int
	}{{0, "5", 10}, {time.Second, "5", 10}, {5 * time.Second, "5", 5}, {25 * time.Second, "5", 1}, {time.Minute, "5", 1}, {0, "", 1}} {
		takes, after, asked = test.takes, test.after, 0
		if err := api.call(t.Context(), http.MethodGet, "/services", nil, nil, nil); status(err) != http.StatusServiceUnavailable || asked != test.want {
			t.Errorf("%+v: asked %d times, %v", test, asked, err)
		}
	}
}

// TestPages: a collection is read to its end, whatever the size of its pages.
func TestPages(t *testing.T) {
	r := newRig(t, "")
	r.before = func(_ http.ResponseWriter, q *http.Request) bool {
		query := q.URL.Query()
		if query.Has("size") {
			query.Set("size", "2")
			q.URL.RawQuery = query.Encode()
		}
		return false
	}
	var text strings.Builder
	text.WriteString("consumers:\n")
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		text.WriteString("- username: " + name + "\n")
	}
	f := file(t, text.String())
	r.must(t, "sync", f)
	if out := r.must(t, "diff", f, "--non-zero-exit-code"); !strings.HasPrefix(out, "Summary:") {
		t.Error(out)
	}
}

// TestDryRun: the control plane says what each write would do, and nothing is written.
func TestDryRun(t *testing.T) {
	r := newRig(t, "", func(o *gatewayapi.Options) { o.DryRun = dryruntest.New(t, o.Store) })
	r.must(t, "sync", file(t, "services:\n- {name: old, host: h}\n- {name: kept, host: h}\n"))
	before := r.store.Revision()
	out := r.must(t, "sync", "--dry-run", file(t, "services:\n- {name: kept, host: i}\n- name: new\n  host: h\n  routes:\n  - {name: r, paths: [/r]}\n"))
	check(t, "dryrun", out)
	if r.store.Revision() != before {
		t.Error("something was written")
	}
	grpc := "services:\n- name: kept\n  host: h\n  protocol: grpc\n  routes:\n  - name: r\n    paths: [/r]\n    protocols: [grpc]\n    strip_path: false\n"
	r.must(t, "sync", file(t, grpc))
	bad, code := r.run(t, "sync", "--dry-run", file(t, grpc+"    plugins:\n    - {name: key-auth, protocols: [http]}\n"))
	if code != 1 || !strings.Contains(bad, "1 errors occurred") || !strings.Contains(bad, "HTTP status 400") {
		t.Errorf("%d %s", code, bad)
	}
	without := newRig(t, "")
	if out, code := without.run(t, "sync", "--dry-run", file(t, "consumers:\n- username: a\n")); code != 1 {
		t.Errorf("%d %s", code, out)
	}
}

// TestEnvironment: every flag has a variable, which the program does not take for a mistyped
// setting.
func TestEnvironment(t *testing.T) {
	r := newRig(t, "")
	r.must(t, "sync", file(t, "services:\n- {name: a, host: h}\n"))
	t.Setenv("MESHGATE_GATEWAY_ADDR", r.url)
	t.Setenv("MESHGATE_FORMAT", "json")
	out, err := clitest.Execute(t, GatewayCommand(), "dump")
	if err != nil || !strings.HasPrefix(out, "{\n") || !strings.Contains(out, `"name": "a"`) {
		t.Errorf("%v %s", err, out)
	}
	t.Setenv("MESHGATE_PARALLELISM", "many")
	out, err = clitest.Execute(t, GatewayCommand(), "dump")
	if err == nil || clitest.Code(err) != 1 || !strings.Contains(err.Error(), "MESHGATE_PARALLELISM") {
		t.Errorf("%v %s", err, out)
	}
	env := []string{"MESHGATE_FILE_KEY=x"}
	for _, root := range []*cobra.Command{GatewayCommand(), MeshCommand(nil)} {
		for _, c := range append(root.Commands(), root) {
			for _, flags := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
				flags.VisitAll(func(f *pflag.Flag) { env = append(env, EnvName(f.Name)+"=x") })
			}
		}
	}
	loaded, err := config.Load(config.Sources{Env: env})
	if err != nil || len(loaded.Warnings) > 0 || len(env) < 40 {
		t.Errorf("%v %v", err, loaded.Warnings)
	}
}

// TestExitCodes: whatever is wrong is 1, so that 2 says that there are differences.
func TestExitCodes(t *testing.T) {
	r := newRig(t, "")
	f := file(t, "services:\n- {name: a, host: h}\n")
	for _, c := range []struct {
		want int
		args []string
	}{
		{0, []string{"diff", f}}, {2, []string{"diff", f, "--non-zero-exit-code"}}, {1, []string{"diff", f, "--no-such-flag"}}, {1, []string{"nonsense"}},
		{1, []string{"dump", "surplus"}}, {1, []string{"dump", "--format", "toml"}}, {1, []string{"dump", "--headers", "nothing"}}, {1, []string{"reset"}},
		{0, []string{"ping"}}, {0, []string{"validate", f}},
	} {
		c.args = append(c.args, "--gateway-addr", r.url)
		command := GatewayCommand()
		command.SetIn(strings.NewReader(""))
		out, err := clitest.Execute(t, command, c.args...)
		if code := clitest.Code(err); code != c.want && (c.want != 0 || err != nil) {
			if c.args[0] == "reset" && err == nil {
				continue // nothing is there
			}
			t.Errorf("%v: exit code %d, want %d: %v %s", c.args, code, c.want, err, out)
		}
	}
	r.must(t, "sync", f)
	if out, code := r.run(t, "reset"); code != 1 || !strings.Contains(out, "This deletes 1 entities of the gateway at") {
		t.Errorf("%d %s", code, out)
	}
}
