package revoke

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// maxEndedBody bounds the body of a POST to [contract.EndedPath].
const maxEndedBody = 4 << 10

// process is the format of the names that agents give to Envoy processes.
var process = regexp.MustCompile(`^[A-Za-z0-9]{26}$`)

// errNoSuccessor says that the next filter process, which may have inherited what an ended
// filter believed, is not known yet.
var errNoSuccessor = errors.New("no filter of the process that follows is known")

// Ended forgets the filters of a node whose processes have ended, so that no revocation
// waits for their confirmation. It returns when this would survive a restart.
//
// What such a filter believed about Redis is in a file in its run directory, and the next
// filter of that directory starts with it. So unless the file is gone, a filter is
// forgotten only once a filter of the process that was started next is known. That filter
// then counts for what the file said. Another filter of the node is not enough: one node
// may have two run directories, on two hosts.
func (r *Revoker) Ended(node Node, ended contract.Ended) error {
	of := func(name string) bool {
		p, ok := processOf(name, node)
		return ok && slices.Contains(ended.Processes, p)
	}
	r.mu.Lock()
	for l := range r.links {
		if of(l.called()) {
			l.lease = time.Time{}  // no process is left to answer
			l.settle(r.history.at) // this is about its memory; what it believed is still on its disk
			l.end()
		}
	}
	early := false
	forget := ended.Gone || r.knows(node, ended.Successor)
	for name := range r.known {
		if of(name) {
			if early = !forget; forget {
				r.leave(name)
			}
		}
	}
	r.mu.Unlock()
	if early {
		return errNoSuccessor
	}
	if err := r.storeKnown(); err != nil {
		return fmt.Errorf("forget filters that have ended: %w", err)
	}
	return nil
}

// knows reports whether a filter of a process counts, that is, it was welcomed and is not
// forgotten. mu is held.
func (r *Revoker) knows(node Node, process string) bool {
	for name, k := range r.known {
		if p, ok := processOf(name, node); ok && p == process && k.welcomed {
			return true
		}
	}
	return false
}

// processOf returns the process of a known filter. ok is false unless the filter belongs to
// the node and its name contains a process that an agent has named.
func processOf(name string, node Node) (string, bool) {
	instance, id, _ := strings.Cut(name, others)
	p, _, named := strings.Cut(instance, ".")
	return p, named && p != "" && id == node.ID
}

// ServeEnded answers a POST of [contract.Ended] with the token of the node. It answers 204
// when the filters are forgotten, and 425 when that is too early.
func (r *Revoker) ServeEnded(w http.ResponseWriter, req *http.Request) {
	node, ok := r.authenticate(w, req)
	if !ok {
		return
	}
	if req.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "only POST is understood here", http.StatusMethodNotAllowed)
		return
	}
	ended, err := decodeEnded(http.MaxBytesReader(w, req.Body, maxEndedBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	switch err := r.Ended(node, *ended); {
	case errors.Is(err, errNoSuccessor):
		http.Error(w, err.Error(), http.StatusTooEarly)
		return
	case err != nil:
		r.log.Error("filters could not be forgotten", "node", node.ID, "error", err)
		http.Error(w, "it cannot be remembered now; try again", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func decodeEnded(body io.Reader) (*contract.Ended, error) {
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	var m contract.Ended
	if err := d.Decode(&m); err != nil {
		return nil, fmt.Errorf("the body is not understood: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("the body goes on after its end")
	}
	if len(m.Processes) > contract.MaxEnded {
		return nil, fmt.Errorf("more than %d processes", contract.MaxEnded)
	}
	named := m.Processes
	if m.Successor != "" {
		named = append(slices.Clone(named), m.Successor)
	}
	for _, p := range named {
		if !process.MatchString(p) {
			return nil, errors.New("a process has a name of 26 letters and digits")
		}
	}
	if slices.Contains(m.Processes, m.Successor) {
		return nil, errors.New("a process that has ended succeeds nobody")
	}
	return &m, nil
}
