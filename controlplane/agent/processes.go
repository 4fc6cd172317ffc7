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
// plane may still count on: those that run, and those that have ended without the
// control plane having heard of it. A filter that lies in none of them cannot
// accept anything, so a revocation need not wait for it. The file is written
// before an Envoy is started, so none is unknown to the next agent.
type processes struct {
	path string
	// ended is woken when there is something to tell.
	wake chan struct{}

	mu    sync.Mutex
	known []process
}

// process is one Envoy.
type process struct {
	// Name is the value of [contract.ProcessEnv] in its environment.
	Name string `json:"name"`
	// Ended says that it runs no more.
	Ended bool `json:"ended,omitempty"`
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
		known[i].Ended = known[i].Ended || !runs
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

// forget bounds how many are remembered. The control plane forgets those that have
// ended by itself after a day, and of Envoys that die one after another at their start
// it knows none but the one before them, the first. One that runs stays: nobody would
// find it at the next start, and it would count as followed by another one.
func (p *processes) forget() {
	over, first := len(p.known)-contract.MaxEnded, true
	p.known = slices.DeleteFunc(p.known, func(known process) bool {
		if !known.Ended || over <= 0 {
			return false
		}
		if first {
			first = false
			return false
		}
		over--
		return true
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
			e.Processes = append(e.Processes, known.Name)
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

// told forgets those that the control plane has heard of.
func (p *processes) told(names []string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = slices.DeleteFunc(p.known, func(known process) bool { return known.Ended && slices.Contains(names, known.Name) })
	return p.write()
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
