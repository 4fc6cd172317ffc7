package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/filter/contract"
)

func begun(t *testing.T, p *processes) string {
	t.Helper()
	name, err := p.begin()
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func ends(t *testing.T, p *processes, name string) {
	t.Helper()
	if err := p.end(name); err != nil {
		t.Fatal(err)
	}
}

// sleeper runs this binary as an Envoy with a name, until the returned function is called.
func sleeper(t *testing.T, name string) (end func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"=sleeper", contract.ProcessEnv+"="+name)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	startUp(t, cmd)
	end = func() { _ = in.Close(); _ = cmd.Wait() }
	t.Cleanup(end)
	return end
}

// startUp starts a process that says when it is up: until it runs a program of its own, nobody
// can read what it was started with.
func startUp(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatalf("it did not come up: %v", err)
	}
}

// TestSuccessorIsNamed: ended processes are reported together with the process that was
// started last, whatever happened to those in between and to the agent.
func TestSuccessorIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "processes.json")
	p, err := openProcesses(path)
	if err != nil {
		t.Fatal(err)
	}
	check := func(when string, want contract.Ended) {
		t.Helper()
		if diff := cmp.Diff(want, p.untold(false)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	first := begun(t, p)
	check("while it runs", contract.Ended{Successor: first})
	ends(t, p, first)
	check("before the next one", contract.Ended{Processes: []string{first}})
	second := begun(t, p)
	check("with the next one", contract.Ended{Processes: []string{first}, Successor: second})
	ends(t, p, second)
	third := begun(t, p)
	check("when that has died, too", contract.Ended{Processes: []string{first, second}, Successor: third})

	end := sleeper(t, third)
	if p, err = openProcesses(path); err != nil {
		t.Fatal(err)
	}
	check("after the agent's death", contract.Ended{Processes: []string{first, second}, Successor: third})
	fourth := begun(t, p)
	check("while two run, of which each may have read what was left", contract.Ended{Processes: []string{first, second}})
	end()
	if p, err = openProcesses(path); err != nil {
		t.Fatal(err)
	}
	check("when all have died", contract.Ended{Processes: []string{first, second, third, fourth}})
	if err := p.told([]string{first, second}, p.rounds()); err != nil {
		t.Fatal(err)
	}
	check("when some were told", contract.Ended{Processes: []string{third, fourth}})
}

// TestFirstOfManyIsKept: of Envoys that die one after another without ever being linked,
// the control plane counts only the one before them.
func TestFirstOfManyIsKept(t *testing.T) {
	p, err := openProcesses(filepath.Join(t.TempDir(), "processes.json"))
	if err != nil {
		t.Fatal(err)
	}
	first := begun(t, p)
	ends(t, p, first)
	for range contract.MaxEnded + 3 {
		ends(t, p, begun(t, p))
	}
	last := begun(t, p)
	got := p.untold(false)
	if n := len(got.Processes); n != contract.MaxEnded-1 || got.Processes[0] != first || got.Successor != last {
		t.Errorf("%d are told, the first is kept: %t", n, n > 0 && got.Processes[0] == first)
	}
}

// TestOneThatRunsIsNotForgotten: however many die after it, an Envoy that could not be
// stopped is known at the next start, and no process counts as its successor.
func TestOneThatRunsIsNotForgotten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "processes.json")
	p, err := openProcesses(path)
	if err != nil {
		t.Fatal(err)
	}
	ends(t, p, begun(t, p))
	stuck := begun(t, p)
	sleeper(t, stuck)
	for range contract.MaxEnded + 3 {
		ends(t, p, begun(t, p))
	}
	begun(t, p)
	if e := p.untold(true); e.Successor != "" || e.Gone || len(e.Processes) > contract.MaxEnded {
		t.Errorf("%+v", e)
	}
	if p, err = openProcesses(path); err != nil {
		t.Fatal(err)
	}
	if got := p.untold(false); got.Successor != stuck {
		t.Errorf("%q runs, %q counts", stuck, got.Successor)
	}
}

// TestProcessThatCannotBeNoted: a process that cannot be stored is not started. So it is no
// successor and does not delay reports.
func TestProcessThatCannotBeNoted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	p, err := openProcesses(filepath.Join(dir, "processes.json"))
	if err != nil {
		t.Fatal(err)
	}
	first := begun(t, p)
	ends(t, p, first)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := p.begin(); err == nil {
		t.Fatal("it was noted")
	}
	if diff := cmp.Diff(contract.Ended{Processes: []string{first}}, p.untold(false)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// left returns an agent whose predecessor has left an Envoy that has ended, and a trust
// file.
func left(t *testing.T, o Options) (a *Agent, ended, trust string) {
	t.Helper()
	a = newAgent(t, o)
	ended = begun(t, a.processes)
	ends(t, a.processes, ended)
	trust = filepath.Join(a.dir.path, contract.TrustFile)
	if err := os.WriteFile(trust, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	return a, ended, trust
}

// TestTrustIsNotGoneWhileAnEnvoyRuns: an Envoy that cannot be stopped has read the trust,
// and may not be linked yet. So an agent that leaves it behind does not report the trust as
// gone.
func TestTrustIsNotGoneWhileAnEnvoyRuns(t *testing.T) {
	cp := newControlPlane(t)
	o, _ := cp.options(t, "gw")
	a, ended, trust := left(t, o)
	orphan := begun(t, a.processes)
	sleeper(t, orphan)
	a = newAgent(t, o)
	bodies := heard(t, cp, 0)
	a.leave()
	if diff := cmp.Diff(contract.Ended{Processes: []string{ended}, Successor: orphan}, <-bodies); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := os.Stat(trust); err != nil {
		t.Error(err)
	}
}

// TestAgentThatNeverBegins: an agent that is refused starts no Envoy any more. The trust of
// the last Envoy is not needed, and no revocation must wait for that Envoy.
func TestAgentThatNeverBegins(t *testing.T) {
	cp := newControlPlane(t)
	o, _ := cp.options(t, "gw")
	a, ended, trust := left(t, o)
	bodies := heard(t, cp, 0)
	answer := *cp.refuse.Load()
	turnsDown := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == contract.EndedPath {
			answer(w, r)
			return
		}
		http.Error(w, "the port is taken", http.StatusUnprocessableEntity)
	})
	cp.refuse.Store(&turnsDown)
	if err := a.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("%v", err)
	}
	for _, gone := range []bool{false, true} { // first whether the control plane answers, then what was removed meanwhile
		select {
		case got := <-bodies:
			if diff := cmp.Diff(contract.Ended{Processes: []string{ended}, Gone: gone}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		default:
			t.Error("nobody was told")
		}
	}
	if _, err := os.Stat(trust); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the trust is still there: %v", err)
	}
}

// TestTrustOutlivesAControlPlaneThatIsAway: a gateway that ends in good order while the
// control plane is away keeps its trust, as a killed one does. A gateway that gets an
// answer, even a refusal, does not.
func TestTrustOutlivesAControlPlaneThatIsAway(t *testing.T) {
	for status, stays := range map[int]bool{http.StatusServiceUnavailable: true, http.StatusTooEarly: false, http.StatusUnauthorized: false} {
		cp := newControlPlane(t)
		o, _ := cp.options(t, "gw")
		a, ended, trust := left(t, o)
		says := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", status) })
		cp.refuse.Store(&says)
		a.leave()
		if _, err := os.Stat(trust); errors.Is(err, os.ErrNotExist) == stays {
			t.Errorf("%d: %v", status, err)
		}
		if diff := cmp.Diff([]string{ended}, a.processes.untold(false).Processes); diff != "" {
			t.Errorf("%d: the next start does not tell (-want +got):\n%s", status, diff)
		}
	}
}

// TestBelieves checks, by the rules of the filter, what lets a filter read Redis without
// the control plane.
func TestBelieves(t *testing.T) {
	now := time.Now()
	path := filepath.Join(t.TempDir(), contract.TrustFile)
	by := &contract.ControlPlaneSettings{Address: "cp:5678", Node: "cp/default/gw"}
	if believes(path, by, now) {
		t.Error("without a file")
	}
	const said = `{"address":"cp:5678","node":"cp/default/gw","trust":{"epoch":7,"servers":["a"]},"scopes":{"of":"default","members":["default"]},"leased_ms":%d}`
	leased := func(text string, age time.Duration) string { return fmt.Sprintf(text, now.Add(-age).UnixMilli()) }
	for text, want := range map[string]bool{
		leased(said, time.Hour):                                     true,
		leased(said, contract.TrustFor):                             false,
		leased(said, -contract.LeaseAhead+time.Minute):              true,
		leased(said, -contract.LeaseAhead-time.Minute):              false,
		leased(strings.Replace(said, ":7,", ":0,", 1), 0):           false,
		leased(strings.Replace(said, "cp:", "other:", 1), 0):        false,
		leased(strings.Replace(said, "/gw", "/other", 1), 0):        false,
		leased(strings.Replace(said, `,"servers":["a"]`, "", 1), 0): false,
		leased(strings.Replace(said, `["a"]`, `["b","a"]`, 1), 0):   false,
		leased(strings.Replace(said, `"node"`, `"unknown"`, 1), 0):  false,
		strings.Replace(said, `,"leased_ms":%d`, "", 1):             false,
		// An older filter was not told whose credentials count, and a newer one reads nothing then.
		leased(strings.Replace(said, `,"scopes":{"of":"default","members":["default"]}`, "", 1), 0): false,
		strings.Replace(said, `["default"]`, `["b","a"]`, 1):                                        false,
		`{"trust":`: false,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := believes(path, by, now); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	if err := os.WriteFile(path, []byte(leased(said, time.Hour)), 0o600); err != nil {
		t.Fatal(err)
	}
	if believes(path, nil, now) {
		t.Error("of no control plane")
	}
}

// TestSlowEarDoesNotKeepTheDataplane: if the control plane does not answer the report of
// ended Envoys, it is still told that the proxy leaves.
func TestSlowEarDoesNotKeepTheDataplane(t *testing.T) {
	cp := newControlPlane(t)
	o, _ := cp.options(t, "gw")
	o.Sidecar = &Sidecar{Mesh: "default", Dataplane: "type: Dataplane"}
	a, _, _ := left(t, o)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	deregistered := make(chan string, 1)
	slow := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == contract.EndedPath {
			select {
			case <-r.Context().Done():
			case <-ctx.Done():
			}
			return
		}
		deregistered <- r.URL.Path
	})
	cp.refuse.Store(&slow)
	a.leave()
	select {
	case <-deregistered:
	default:
		t.Error("the proxy did not deregister")
	}
}

// TestRegisteredAndNotStarted: a proxy that has registered but cannot be started is
// deregistered.
func TestRegisteredAndNotStarted(t *testing.T) {
	p := newJoinPlane(t)
	o, _ := p.options(t)
	a := newAgent(t, o)
	if err := os.RemoveAll(a.dir.path); err != nil {
		t.Fatal(err)
	}
	if err := a.Run(t.Context()); err == nil {
		t.Error("it began without a run directory")
	}
	close(p.log)
	var got []string
	for l := range p.log {
		got = append(got, l)
	}
	if diff := cmp.Diff([]string{"POST default.web-1 the dataplane", "DELETE default.web-1 "}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
