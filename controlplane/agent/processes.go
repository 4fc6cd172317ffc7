package agent

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"

	"github.com/meshgate/meshgate/filter/contract"
)

// processes remembers, in a file of the run directory, which Envoys the control plane may
// still count: those that run, and those that have ended, even after the control plane was
// told (see process.Told). No filter outside this list can accept anything, so a revocation
// need not wait for one. The file is written before an Envoy is started, so the next agent
// knows every Envoy.
type processes struct {
	path string
	// wake gets an entry when there is something to report.
	wake chan struct{}

	mu    sync.Mutex
	known []process
	// round counts how often everything was marked as not told again. A report of an
	// earlier round was received by another control plane.
	round uint64
}

// process is one Envoy, or the authorization service of an agent.
type process struct {
	// Name is the value of [contract.ProcessEnv] in its environment.
	Name string `json:"name"`
	// Ended says that the process has ended.
	Ended bool `json:"ended,omitempty"`
	// Told says that the control plane was told of the end. The name is kept all the same:
	// a control plane that is restored from an older backup counts the process again, and
	// only this agent can report its end.
	Told bool `json:"told,omitempty"`
	// Empty says that it is an Envoy that asks an authorization service. It has no filter, so
	// the control plane does not count it and need not hear of it.
	Empty bool `json:"empty,omitempty"`
}

// openProcesses reads the file. Processes of an earlier agent have ended, unless they still
// run. Those are left for the next start.
func openProcesses(path string) (*processes, error) {
	p := &processes{path: path, wake: make(chan struct{}, 1)}
	known, err := readProcesses(path)
	if err != nil || known == nil {
		return p, err
	}
	run, err := running()
	if err != nil {
		return nil, err
	}
	for i := range known {
		_, runs := run[known[i].Name]
		known[i].Ended, known[i].Told = known[i].Ended || !runs, false
	}
	p.known = known
	p.notify()
	return p, nil
}

// readProcesses reads the file. It returns nil if there is none.
func readProcesses(path string) (known []process, err error) {
	data, err := os.ReadFile(path) //nolint:gosec // below the state directory
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("run directory: %w", err)
	}
	if err := json.Unmarshal(data, &known); err != nil {
		return nil, nil // the control plane forgets those processes after a day
	}
	return known, nil
}

// running finds the Envoys that run on this machine, by the names in their environments,
// with their process ids. Processes whose environment cannot be read belong to other users.
func running() (map[string]int, error) {
	list, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("looking for envoys that run: %w", err)
	}
	found := map[string]int{}
	for _, e := range list {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if name, err := nameOf(pid); err == nil && name != "" {
			found[name] = pid
		}
	}
	return found, nil
}

// nameOf returns the name in the environment of a process, "" if it has none.
func nameOf(pid int) (string, error) {
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return "", err
	}
	for v := range bytes.SplitSeq(environment, []byte{0}) {
		if name, ok := bytes.CutPrefix(v, []byte(contract.ProcessEnv+"=")); ok {
			return string(name), nil
		}
	}
	return "", nil
}

// begin names an Envoy, or an authorization service, that is about to be started.
func (p *processes) begin() (string, error) { return p.name(false) }

// beginEmpty is begin for an Envoy without a filter.
func (p *processes) beginEmpty() (string, error) { return p.name(true) }

func (p *processes) name(empty bool) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	name, before := rand.Text(), p.known
	p.known = append(slices.Clone(before), process{Name: name, Empty: empty})
	p.forget()
	err := p.write()
	if err != nil {
		p.known = before // it is not started
	}
	return name, err
}

// forget bounds the number of remembered processes. It first drops processes whose end was
// told, the oldest first. Then it drops other ended processes except the first: the control
// plane forgets ended processes by itself after a day, and of Envoys that die one after
// another at their start it knows only the one before them, which is the first. A running
// process stays. Otherwise the next agent would not find it, and another process would
// count as its successor.
func (p *processes) forget() {
	over, first := len(p.known)-contract.MaxEnded, true
	drop := func(which func(process) bool) {
		p.known = slices.DeleteFunc(p.known, func(known process) bool {
			if !known.Ended || over <= 0 || !which(known) {
				return false
			}
			over--
			return true
		})
	}
	drop(func(known process) bool { return known.Told || known.Empty })
	drop(func(process) bool {
		was := first
		first = false
		return !was
	})
}

// end notes that an Envoy has ended.
func (p *processes) end(name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.known {
		if p.known[i].Name == name {
			p.known[i].Ended = true
		}
	}
	p.notify()
	return p.write()
}

// untold returns what the control plane has to be told: which Envoys have ended, and which
// one was started after them. Two may run at once if an Envoy of an earlier agent could not
// be stopped. Then no successor is named: each of them may believe what was left, and the
// control plane would wait for only one of them. gone says that no further Envoy is
// started. It is ignored while one runs.
func (p *processes) untold(gone bool) (e contract.Ended) {
	p.mu.Lock()
	defer p.mu.Unlock()
	running := 0
	for _, known := range p.known {
		if known.Empty {
			continue
		}
		if known.Ended {
			if !known.Told {
				e.Processes = append(e.Processes, known.Name)
			}
			continue
		}
		running++
		e.Successor = known.Name
	}
	if running > 1 {
		e.Successor = ""
	}
	e.Gone = gone && running == 0
	return e
}

// rounds returns the current round. The caller passes it to [processes.told] after the
// report.
func (p *processes) rounds() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.round
}

// told notes the ends that were reported in a round. If the round has changed since,
// another control plane may have been reached, which has to be told again.
func (p *processes) told(names []string, round uint64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if round != p.round {
		return nil // again has woken the reporting goroutine
	}
	for i := range p.known {
		if p.known[i].Ended && slices.Contains(names, p.known[i].Name) {
			p.known[i].Told = true
		}
	}
	return p.write()
}

// again marks everything as not told: the control plane may be another one now, or may have
// been restored.
func (p *processes) again() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.round++
	for i := range p.known {
		p.known[i].Told = false
	}
	p.notify()
}

// write replaces the file. mu is held.
func (p *processes) write() error {
	data, err := json.Marshal(p.known)
	if err != nil {
		return err
	}
	return replace(p.path, data)
}

func (p *processes) notify() {
	select {
	case p.wake <- struct{}{}:
	default: // it is awake already
	}
}
