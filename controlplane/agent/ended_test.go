package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/filter/contract"
)

// heard records the bodies of posts. The first ones, as many as refused says, are answered
// with 503.
func heard(t *testing.T, cp *controlPlane, refused int) <-chan contract.Ended {
	t.Helper()
	bodies := make(chan contract.Ended, 16)
	f := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != contract.EndedPath {
			http.NotFound(w, r)
			return
		}
		if refused > 0 {
			refused--
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		var e contract.Ended
		data, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(data, &e)
		}
		if err != nil || r.Header.Get("Authorization") == "" || r.Header.Get(contract.NodeHeader) != "cp/default/gw" {
			t.Errorf("%v, headers %v", err, r.Header)
		}
		bodies <- e
		w.WriteHeader(http.StatusNoContent)
	})
	cp.refuse.Store(&f)
	return bodies
}

// TestEndOfEnvoyIsTold: whatever ends an Envoy, the control plane is told as soon as it
// answers. It is also told of Envoys that a killed agent has left behind.
func TestEndOfEnvoyIsTold(t *testing.T) {
	cp := newControlPlane(t)
	bodies := heard(t, cp, 2)
	o, r := cp.options(t, "gw")
	left, err := openProcesses(newAgent(t, o).dir.processes)
	if err != nil {
		t.Fatal(err)
	}
	orphan, err := left.begin() // and the agent dies
	if err != nil {
		t.Fatal(err)
	}
	a := newAgent(t, o)
	a.Envoy.Path, a.Envoy.Env = os.Args[0], []string{roleEnv + "=crash"}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{}, 2)
	go func() { a.tellEnded(ctx); done <- struct{}{} }()
	if got := <-bodies; len(got.Processes) == 0 || got.Processes[0] != orphan {
		t.Errorf("told of %v, want %s first", got, orphan)
	}
	r.wait(t, "could not be told that an envoy has ended")
	go func() { _ = a.Envoy.Run(ctx); done <- struct{}{} }()
	r.wait(t, "envoy ended unexpectedly")
	if got := <-bodies; len(got.Processes) == 0 || len(got.Processes[0]) != 26 || got.Processes[0] == orphan {
		t.Errorf("told of %v, want the envoy that died", got)
	}
	cancel()
	<-done
	<-done
}

// TestEnvoysWithoutFilterAreNotTold: an Envoy that asks an authorization service has no filter.
// The control plane hears of the service and of its successor only.
func TestEnvoysWithoutFilterAreNotTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "processes.json")
	p, err := openProcesses(path)
	if err != nil {
		t.Fatal(err)
	}
	service, err := p.begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.beginEmpty(); err != nil {
		t.Fatal(err)
	}
	next, err := openProcesses(path) // the agent has died, with both
	if err != nil {
		t.Fatal(err)
	}
	successor, err := next.begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := next.beginEmpty(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(contract.Ended{Processes: []string{service}, Successor: successor}, next.untold(false)); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// TestProcessesThatRunAreNotEnded: an Envoy that a dead agent left behind is not reported
// as ended while it runs.
func TestProcessesThatRunAreNotEnded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "processes.json")
	p, err := openProcesses(path)
	if err != nil {
		t.Fatal(err)
	}
	name, err := p.begin()
	if err != nil {
		t.Fatal(err)
	}
	gone, err := p.begin()
	if err != nil {
		t.Fatal(err)
	}
	end := sleeper(t, name)
	next, err := openProcesses(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{gone}, next.untold(false).Processes); diff != "" {
		t.Errorf("while it runs (-want +got):\n%s", diff)
	}
	if err := next.told(next.untold(false).Processes, next.rounds()); err != nil {
		t.Fatal(err)
	}
	end()
	last, err := openProcesses(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{name, gone}, last.untold(false).Processes); diff != "" {
		t.Errorf("after it has ended (-want +got):\n%s", diff)
	}
	if m := mode(t, path); m != 0o600 {
		t.Errorf("the file has %o", m)
	}
}

// TestEndIsToldToARestoredControlPlane: a control plane that was restored from a backup
// counts Envoys whose end it had been told of. The agent reports the end again when it
// reaches the control plane anew, and at its own next start.
func TestEndIsToldToARestoredControlPlane(t *testing.T) {
	cp := newControlPlane(t)
	bodies := heard(t, cp, 0)
	o, _ := cp.options(t, "gw")
	a := newAgent(t, o)
	ended := begun(t, a.processes)
	ends(t, a.processes, ended)
	heir := begun(t, a.processes)
	want := contract.Ended{Processes: []string{ended}, Successor: heir}
	tell := func(when string, want *contract.Ended) {
		t.Helper()
		if err := a.tellNow(t.Context(), false); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		select {
		case got := <-bodies:
			if want == nil {
				t.Errorf("%s it is told of %+v", when, got)
			} else if diff := cmp.Diff(*want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", when, diff)
			}
		default:
			if want != nil {
				t.Errorf("%s nothing is told", when)
			}
		}
	}
	tell("first", &want)
	tell("while nothing has changed", nil)
	a.report(errors.New("it is away"))
	a.report(nil)
	tell("when it is reached again", &want)
	ends(t, a.processes, heir)
	if err := a.tellNow(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	<-bodies // whether the control plane answers
	<-bodies // what is removed now
	a = newAgent(t, o)
	next := begun(t, a.processes)
	tell("after a clean end", &contract.Ended{Processes: []string{ended, heir}, Successor: next})
}

// If one control plane answers a report after another one was reached, the other one still
// has to be told: an answer that is older than the present link does not count.
func TestAnswerFromBeforeTheNextControlPlane(t *testing.T) {
	cp := newControlPlane(t)
	o, _ := cp.options(t, "gw")
	a := newAgent(t, o)
	ended := begun(t, a.processes)
	ends(t, a.processes, ended)
	heir := begun(t, a.processes)
	between := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		a.report(nil)
		w.WriteHeader(http.StatusNoContent)
	})
	cp.refuse.Store(&between)
	if err := a.tellNow(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(contract.Ended{Processes: []string{ended}, Successor: heir}, a.processes.untold(false)); diff != "" {
		t.Errorf("what the next one has not heard (-want +got):\n%s", diff)
	}
}

// TestDamagedProcessesFile: an agent starts although the file is damaged.
func TestDamagedProcessesFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "processes.json")
	if err := os.WriteFile(path, []byte(`[{"name":`), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := openProcesses(path)
	if err != nil || len(p.untold(false).Processes) != 0 {
		t.Errorf("%v, %v", p, err)
	}
}
