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

// processes remembers, in a file of the run directory, which Envoys the control
// plane may still count on: those that run, and those that have ended, also when it has
// heard of that (see process.Told). A filter that lies in none of them cannot
// accept anything, so a revocation need not wait for it. The file is written
// before an Envoy is started, so none is unknown to the next agent.
type processes struct {
	path string
	// ended is woken when there is something to tell.
	wake chan struct{}

	mu    sync.Mutex
	known []process
	// round counts how often everything was untold again. What was heard in an earlier one
	// was heard by another control plane.
	round uint64
}

// process is one Envoy.
type process struct {
	// Name is the value of [contract.ProcessEnv] in its environment.
	Name string `json:"name"`
	// Ended says that it runs no more.
	Ended bool `json:"ended,omitempty"`
	// Told says that the control plane has heard that. The name is kept: a control plane
	// that is restored from an older backup counts on the process again, and nobody else
	// could say that it has ended.
	Told bool `json:"told,omitempty"`
}

// openProcesses reads the file. Processes of an agent before this one have ended,
// unless one still runs: then it is left for the next start.
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

// readProcesses reads the file; nil where there is none.
func readProcesses(path string) (known []process, err error) {
	data, err := os.ReadFile(path) //nolint:gosec // below the state directory
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("run directory: %w", err)
	}
	if err := json.Unmarshal(data, &known); err != nil {
		return nil, nil // what it listed is forgotten by the control plane after a day
	}
	return known, nil
}

// running finds the Envoys that run on this machine: the names in their environments,
// and their process ids. What cannot be read belongs to somebody else.
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

// nameOf is the name in the environment of a process, "" if it has none.
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

// begin names an Envoy that is about to be started.
func (p *processes) begin() (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	name, before := rand.Text(), p.known
	p.known = append(slices.Clone(before), process{Name: name})
	p.forget()
	err := p.write()
	if err != nil {
		p.known = before // it is not started
	}
	return name, err
}

// forget bounds how many are remembered. First go those that were told, the oldest before
// the others. The control plane forgets those that have ended by itself after a day, and of
// Envoys that die one after another at their start it knows none but the one before them,
// the first. One that runs stays: nobody would find it at the next start, and it would count
// as followed by another one.
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
	drop(func(known process) bool { return known.Told })
	drop(func(process) bool {
		was := first
		first = false
		return !was
	})
}

// end notes that an Envoy runs no more.
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

// untold is what the control plane has to hear: which Envoys have ended, and which one
// was started after them. While two run, because one of an agent before could not be
// stopped, neither is named: each may believe what was left, and the control plane
// would wait for one of them only. gone says that no Envoy is started any more; it is
// not said while one runs.
func (p *processes) untold(gone bool) (e contract.Ended) {
	p.mu.Lock()
	defer p.mu.Unlock()
	running := 0
	for _, known := range p.known {
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

// rounds is what [processes.told] needs to know of the time before the telling.
func (p *processes) rounds() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.round
}

// told notes those that the control plane has heard of in a round. An answer that comes
// after the next one was reached is of no use there: it is told, too.
func (p *processes) told(names []string, round uint64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if round != p.round {
		return nil // again has woken whoever tells
	}
	for i := range p.known {
		if p.known[i].Ended && slices.Contains(names, p.known[i].Name) {
			p.known[i].Told = true
		}
	}
	return p.write()
}

// again has everything told once more: the control plane may be another one by now, or
// have been restored.
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
	default: // it is awake
	}
}
