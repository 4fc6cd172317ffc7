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

// process is the form of a name that an agent gives an Envoy.
var process = regexp.MustCompile(`^[A-Za-z0-9]{26}$`)

// errNoSuccessor says that a filter which runs no more may have left to another one
// what it believed.
var errNoSuccessor = errors.New("no other filter of the node is linked")

// Ended forgets the filters of a node whose processes run no more: nobody waits
// for what they confirm. It returns when that would survive a restart.
//
// What such a filter believed of Redis is in a file, with which the next one of its
// run directory starts. So unless the file is gone, a filter is forgotten only once
// another one of the node is linked, which stands for what the file said.
func (r *Revoker) Ended(node Node, processes []string, gone bool) error {
	of := func(name string) bool {
		instance, id, _ := strings.Cut(name, others)
		p, _, named := strings.Cut(instance, ".")
		return named && id == node.ID && slices.Contains(processes, p)
	}
	r.mu.Lock()
	for l := range r.links {
		if of(l.called()) {
			l.lease = time.Time{}  // nobody is there to answer
			l.settle(r.history.at) // what it believed is on its disk all the same
			l.end()
		}
	}
	gone = gone || r.succeeded(node, of)
	for name := range r.known {
		if of(name) && gone {
			r.leave(name)
		}
	}
	r.mu.Unlock()
	if !gone {
		return errNoSuccessor
	}
	if err := r.persistKnown(false); err != nil {
		return fmt.Errorf("forget filters that have ended: %w", err)
	}
	return nil
}

// succeeded reports whether another filter of a node than these is linked. mu is held.
func (r *Revoker) succeeded(node Node, of func(name string) bool) bool {
	for l := range r.links {
		if l.node.ID == node.ID && !of(l.called()) {
			return true
		}
	}
	return false
}

// ServeEnded answers a POST of [contract.Ended] with the token of the node: 204
// when its filters are forgotten, 425 when that is too early.
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
	switch err := r.Ended(node, ended.Processes, ended.Gone); {
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
	for _, p := range m.Processes {
		if !process.MatchString(p) {
			return nil, errors.New("a process has a name of 26 letters and digits")
		}
	}
	return &m, nil
}
