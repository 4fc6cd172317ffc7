package declare

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshgate/meshgate/controlplane/cli/clitest"
	"github.com/meshgate/meshgate/controlplane/client"
)

// TestStrangeAnswers: an answer that no gateway gives is an error, and none that says that there
// are differences.
func TestStrangeAnswers(t *testing.T) {
	r := newRig(t, "")
	n := 0
	answer := ""
	r.before = func(w http.ResponseWriter, q *http.Request) bool {
		if q.URL.Path != "/services" {
			return false
		}
		n++
		_, _ = w.Write([]byte(strings.ReplaceAll(answer, "%", strconv.Itoa(n))))
		return true
	}
	f := file(t, "consumers: []\n")
	for text, want := range map[string]string{
		`{"data": [null]}`:                           "without an id",
		`{"data": [{"name": "x"}]}`:                  "without an id",
		`{"data": [{"name": "x", "id": "../"}]}`:     "without an id",
		`{"data": [], "next": "/services?offset=%"}`: "never ends",
	} {
		answer, n = text, 0
		for _, args := range [][]string{{"dump"}, {"diff", f, "--non-zero-exit-code"}} {
			if out, code := r.run(t, args...); code != 1 || !strings.Contains(out, want) || n > 1000 {
				t.Errorf("%s %v: %d after %d: %s", text, args, code, n, out)
			}
		}
	}
}

// TestPanic: a mistake of the tool has the exit code of a failure, wherever it happens.
func TestPanic(t *testing.T) {
	for name, run := range map[string]func(c *cobra.Command, args []string) error{
		"at once": func(*cobra.Command, []string) error { panic("oops") },
		"at the same time": func(c *cobra.Command, _ []string) error {
			return parallel(c.Context(), 2, 3, func(context.Context, int) error { panic("oops") })
		},
	} {
		_, err := clitest.Execute(t, command(&cobra.Command{Use: "x"}, run))
		if err == nil || clitest.Code(err) != 1 || !strings.Contains(err.Error(), "oops") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPanicInAWrite: what has come to nothing is a failure, and nothing is deleted after it.
func TestPanicInAWrite(t *testing.T) {
	r := &runner{api: &API{Parallel: 2}, begin: func(*Op) { panic("oops") }, progress: func(int, int) {}}
	done, err := r.run(t.Context(), &Plan{Ops: []*Op{{Action: Creating, ID: "a"}, {Action: Creating, ID: "b"}, {Action: Deleting, ID: "c"}}})
	if err == nil || !strings.Contains(err.Error(), "oops") || len(done) > 0 || r.begun[nil] || len(r.begun) > 2 {
		t.Errorf("%v %v", done, err)
	}
}

// TestWaits: whoever waits long is told, and nobody waits for hours.
func TestWaits(t *testing.T) {
	r := newRig(t, "")
	after := "7"
	r.before = func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Retry-After", after)
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	}
	c, err := client.New(client.Options{Address: r.url})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var slept time.Duration
	var told []string
	api := &API{
		Client: c, Parallel: 1, Waiting: func(text string) { told = append(told, text) },
		Sleep: func(_ context.Context, d time.Duration) error { slept += d; return nil },
	}
	call := func() error {
		slept, told = 0, nil
		return api.call(t.Context(), http.MethodGet, "/services", nil, nil, nil)
	}
	if err := call(); status(err) != 429 || slept != 63*time.Second || len(told) != 9 || !strings.Contains(told[0], "7s") {
		t.Errorf("%v %s %v", err, slept, told)
	}
	after = "3600"
	if err := call(); err == nil || slept != 0 || !strings.Contains(err.Error(), "1h0m0s") {
		t.Errorf("%v %s %v", err, slept, told)
	}
	after = "1"
	if err := call(); err == nil || len(told) != 0 {
		t.Errorf("%v %v", err, told)
	}
}

// TestInterrupted: whoever ends a command is not told of contexts.
func TestInterrupted(t *testing.T) {
	f := file(t, "services:\n- {name: a, host: h}\n")
	for _, args := range [][]string{{"dump"}, {"sync", f}, {"sync", f, "--json-output"}} {
		r := newRig(t, "") // one of its own: requests of the command before may still be under way
		ctx, cancel := context.WithCancel(t.Context())
		r.before = func(w http.ResponseWriter, q *http.Request) bool {
			if (q.Method == http.MethodPut) == (args[0] == "sync") {
				cancel()
				return true
			}
			return false
		}
		c := GatewayCommand()
		var out strings.Builder
		c.SetOut(&out)
		c.SetErr(&out)
		c.SilenceErrors, c.SilenceUsage = true, true
		c.SetArgs(append(args, "--gateway-addr", r.url))
		err := c.ExecuteContext(ctx)
		if err == nil || clitest.Code(err) != 1 || err.Error() != "interrupted" || strings.Contains(out.String(), "context") {
			t.Errorf("%v: %v %s", args, err, out.String())
		}
		cancel()
	}
}

// TestPlaces: the environment does not name two places at once. A flag says which one is meant.
func TestPlaces(t *testing.T) {
	r := newRig(t, "")
	t.Setenv("MESHGATE_GATEWAY_ADDR", r.url)
	t.Setenv("MESHGATE_CLOUD_CONTROL_PLANE_NAME", "team-a")
	t.Setenv("MESHGATE_CLOUD_ADDR", r.url)
	out, err := clitest.Execute(t, GatewayCommand(), "dump")
	if err == nil || !strings.Contains(err.Error(), "MESHGATE_GATEWAY_ADDR") || !strings.Contains(err.Error(), "MESHGATE_CLOUD_") {
		t.Errorf("%v %s", err, out)
	}
	if out, err = clitest.Execute(t, GatewayCommand(), "dump", "--gateway-addr", r.url); err != nil {
		t.Errorf("%v %s", err, out)
	}
	if out, err = clitest.Execute(t, GatewayCommand(), "dump", "--cloud-control-plane-name", "team-b"); err == nil || strings.Contains(err.Error(), "MESHGATE_") {
		t.Errorf("%v %s", err, out)
	}
}

// TestPingMesh: the mesh API is no gateway.
func TestPingMesh(t *testing.T) {
	m := newMeshRig(t)
	out, err := clitest.Execute(t, GatewayCommand(), "ping", "--gateway-addr", m.url)
	if err == nil || !strings.Contains(err.Error(), "mesh API") {
		t.Errorf("%v %s", err, out)
	}
}

// TestRenamedAnonymous: a consumer that a plugin names is renamed after the plugin.
func TestRenamedAnonymous(t *testing.T) {
	r := newRig(t, "")
	text := "consumers:\n- {id: a0000000-0000-4000-8000-000000000001, username: alice}\nplugins:\n- name: key-auth\n  config: {anonymous: alice}\n"
	r.must(t, "sync", file(t, text))
	renamed := file(t, strings.ReplaceAll(text, "alice", "bob"))
	if out := r.must(t, "sync", renamed); !strings.Contains(out, "Updated: 2\n") {
		t.Error(out)
	}
	r.api(t, "GET", "/consumers/bob", "", 200)
	if out := r.must(t, "diff", "--non-zero-exit-code", renamed); !strings.HasPrefix(out, "Summary:") {
		t.Error(out)
	}
	chain := func(names ...string) string {
		var b strings.Builder
		for i, name := range names {
			fmt.Fprintf(&b, "- {id: b0000000-0000-4000-8000-00000000000%d, username: %s}\n", i, name)
		}
		return file(t, "consumers:\n"+b.String())
	}
	r.must(t, "sync", chain("c", "d", "e"))
	if out := r.must(t, "sync", chain("d", "e", "f"), "--parallelism", "1"); !strings.Contains(out, "Updated: 3\n") {
		t.Error(out)
	}
}

// TestTokenOfTheEnvironment: the file of a token that is in no file is not named.
func TestTokenOfTheEnvironment(t *testing.T) {
	r := cloudRig(t, "CLUSTER_TYPE_HYBRID")
	t.Setenv("MESHGATE_CLOUD_TOKEN", "wrong")
	if out, code := r.run(t, "dump"); code != 1 || strings.Contains(out, "token of  (") || !strings.Contains(out, "does not take the token") {
		t.Errorf("%d %s", code, out)
	}
}
