package assembly

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/oauth"
	"github.com/meshgate/meshgate/e2e/ports"
	"github.com/meshgate/meshgate/filter/contract"
)

// occupied returns a port that is in use.
func occupied(t *testing.T) int {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return port(ln)
}

// freePort returns a port that nobody uses, and that the system gives to nobody else.
func freePort(t *testing.T) int {
	t.Helper()
	free, err := ports.Free(1)
	if err != nil {
		t.Fatal(err)
	}
	return free[0]
}

// TestClashLeavesNothing: if a port is in use, the ports that were opened before it are
// closed again.
func TestClashLeavesNothing(t *testing.T) {
	c := &config.Config{
		DataPlane:   config.DataPlane{Listen: "127.0.0.1", Port: freePort(t)},
		Diagnostics: config.Diagnostics{Listen: "127.0.0.1", Port: occupied(t)},
	}
	if _, err := openListeners(t.Context(), c); err == nil || !strings.Contains(err.Error(), "diagnostics.port") {
		t.Fatal(err)
	}
	if err := checkFree("dataPlane.port", "127.0.0.1", c.DataPlane.Port); err != nil {
		t.Error(err)
	}
}

func TestPortError(t *testing.T) {
	err := checkFree("mesh.port", "192.0.2.1", 5681)
	if fault.Begun(err) || !strings.HasPrefix(err.Error(), "mesh.port: ") {
		t.Errorf("an address of another machine: %v", err)
	}
}

// TestClaim: a state directory can be claimed again after the first claim is released.
func TestClaim(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	for range 2 {
		f, err := ClaimStateDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ClaimStateDir(dir); err == nil {
			t.Error("claimed twice")
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestFilterThatEnvoyCannotHave: an Envoy without the filter for Go is refused at the start,
// and the error says what to do. An authorization service needs no library at all.
func TestFilterThatEnvoyCannotHave(t *testing.T) {
	dir, envoy := t.TempDir(), filepath.Join("..", "..", ".tools", "envoy")
	if err := os.WriteFile(filepath.Join(dir, contract.GolangLibrary), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := &config.Config{ModulePath: dir, Filter: config.Filter{Mode: "golang"}}
	if _, err := FindFilter(t.Context(), c, envoy); err == nil || !strings.Contains(err.Error(), "needs an Envoy of the contrib distribution") {
		t.Errorf("golang in a stock Envoy: %v", err)
	}
	c.ModulePath = t.TempDir()
	if _, err := FindFilter(t.Context(), c, envoy); err == nil || !strings.Contains(err.Error(), contract.GolangLibrary) {
		t.Errorf("golang without the library: %v", err)
	}
	c.Filter.Mode = "extauthz"
	if _, err := FindFilter(t.Context(), c, envoy); err != nil {
		t.Errorf("extauthz: %v", err)
	}
}

// TestNobodyPosesAsTheAuthorizationService: an agent does not send requests to a socket in whose
// place others could put one of their own, be it by making its folder.
func TestNobodyPosesAsTheAuthorizationService(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	wants := map[os.FileMode]string{0: "mkdir -p -m 700 " + dir, 0o777: "filter.authz: others may write to folder " + dir, 0o700: ""}
	c := &config.Config{Filter: config.Filter{Mode: "extauthz", Authz: contract.UnixPrefix + dir + "/authz.sock"}}
	for _, mode := range []os.FileMode{0, 0o777, 0o700} {
		if mode != 0 {
			if err := errors.Join(os.MkdirAll(dir, 0o700), os.Chmod(dir, mode)); err != nil {
				t.Fatal(err)
			}
		}
		f, err := FindFilter(t.Context(), c, "")
		if want := wants[mode]; (want != "") != (err != nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", mode, err)
		}
		if err == nil && f.asked != dir+"/authz.sock" {
			t.Errorf("it asks at %q", f.asked)
		}
	}
}

func TestFindModule(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, contract.ModuleLibrary)
	if _, err := FindModule(dir, contract.ModuleLibrary); err == nil || !strings.Contains(err.Error(), "make build") {
		t.Errorf("an empty directory: %v", err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, configured := range []string{dir, file} {
		if got, err := FindModule(configured, contract.ModuleLibrary); err != nil || got != dir {
			t.Errorf("%s: %q, %v", configured, got, err)
		}
	}
}

func TestFindEnvoy(t *testing.T) {
	dir := t.TempDir()
	script := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good, bad := script("good", "echo; echo ' envoy version: x '"), script("bad", "exit 1")
	for _, test := range []struct{ configured, env, path, line string }{
		{good, "", good, "envoy version: x"},
		{good, bad, good, "envoy version: x"},
		{"", good, good, "envoy version: x"},
		{bad, good, "", ""}, // a configured Envoy is not silently replaced
		{"", bad, "", ""},
		{"", filepath.Join(dir, "none"), "", ""},
	} {
		t.Setenv("ENVOY_PATH", test.env)
		path, line, err := FindEnvoy(test.configured)
		if path != test.path || line != test.line || (err == nil) != (test.path != "") {
			t.Errorf("%q, ENVOY_PATH %q: %q, %q, %v", test.configured, test.env, path, line, err)
		}
	}
}

// TestEnded distinguishes a requested end from a failure.
func TestEnded(t *testing.T) {
	live, over := context.Background(), canceled()
	for _, test := range []struct {
		name string
		ctx  context.Context
		err  error
		want string
	}{
		{"no error", live, nil, ""},
		{"asked for", over, context.Canceled, ""},
		{"failed at the end", over, os.ErrClosed, "part: file already closed"},
		{"failed", live, os.ErrClosed, "part: file already closed"},
		{"canceled by somebody else", live, context.Canceled, "part: context canceled"},
	} {
		got := ""
		if err := ended(test.ctx, "part", test.err); err != nil {
			got = err.Error()
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s:\n%s", test.name, diff)
		}
	}
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// TestClosers: closers run in reverse order, and only once.
func TestClosers(t *testing.T) {
	var c closers
	var got []int
	for i := range 3 {
		c.add(func(context.Context) { got = append(got, i) })
	}
	c.run(t.Context())
	c.run(t.Context())
	if diff := cmp.Diff([]int{2, 1, 0}, got); diff != "" {
		t.Error(diff)
	}
}

// TestReadiness: the answer names the first thing that is missing.
func TestReadiness(t *testing.T) {
	missing := "the gateway"
	r := &readiness{
		checks:     []func() string{func() string { return "" }, func() string { return missing }},
		conditions: newConditions(slog.New(slog.DiscardHandler)),
	}
	state := func() string { missing, _ := r.state(t.Context()); return missing }
	if got := state(); got != "starting" {
		t.Errorf("%q", got)
	}
	r.serving.Store(true)
	if got := state(); got != "the gateway" {
		t.Errorf("%q", got)
	}
	missing = ""
	if got := state(); got != "" {
		t.Errorf("%q", got)
	}
}

// TestKinds: no two stored kinds share a name or a path.
func TestKinds(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range AllKinds() {
		if k.Name == "" || k.New == nil || seen[k.Name] || k.Path != "" && seen["/"+k.Path] {
			t.Errorf("kind %q at %q", k.Name, k.Path)
		}
		seen[k.Name], seen["/"+k.Path] = true, true
	}
	for k := range oauth.Subjects() {
		if !seen[k.Name] {
			t.Errorf("revocations of %s, which is not stored", k.Name)
		}
	}
}

// TestRedisCA: a bundle without certificates is refused, because nothing could be trusted.
func TestRedisCA(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ url, file, want string }{
		{"rediss://127.0.0.1:1", file, "redis.caFile: " + file + " holds no certificate"},
		{"rediss://127.0.0.1:1", file + ".not", "redis.caFile: open "},
		{"http://127.0.0.1:1", "", ""},
	} {
		p, err := openRedis(&config.Config{Redis: config.Redis{URL: test.url, CAFile: test.file}}, time.Now, slog.New(slog.DiscardHandler))
		if p != nil || err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s, %s: %v, want %s", test.url, test.file, err, test.want)
		}
	}
}

// TestOpenControlPlane opens a control plane in memory on free ports, and closes it. Goleak
// then finds leftover goroutines.
func TestOpenControlPlane(t *testing.T) {
	dir := t.TempDir()
	local := config.MeshPorts{Listen: "127.0.0.1"}
	c := &config.Config{
		StateDir: dir, Store: config.Store{Type: "memory"},
		DataPlane:   config.DataPlane{Listen: "127.0.0.1", Port: freePort(t), Names: "mesh.example, 10.0.0.7,"},
		Diagnostics: config.Diagnostics{Listen: "127.0.0.1"}, Mesh: local, Admin: config.AdminPorts{Listen: "127.0.0.1"},
	}
	cp, err := OpenControlPlane(t.Context(), c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"localhost", "127.0.0.1", "::1", "mesh.example", "10.0.0.7"}, cp.names()); diff != "" {
		t.Error(diff)
	}
	pem, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	if err != nil || string(pem) != string(cp.authority.PEM()) {
		t.Errorf("the CA file: %v", err)
	}
	at := port(cp.ports.data)
	cp.close(t.Context())
	cp.close(t.Context())
	if err := checkFree("dataPlane.port", "127.0.0.1", at); err != nil {
		t.Error(err)
	}
}

// TestStoppedWhileStarting: a control plane that is told to end before it serves has done what it should.
func TestStoppedWhileStarting(t *testing.T) {
	for range 5 { // it may also have begun to serve
		cp := openIn(t, t.TempDir())
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := cp.Run(ctx); err != nil {
			t.Fatal(err)
		}
	}
}
