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

// Ended forgets the filters of a node whose processes run no more: nobody waits
// for what they confirm. It returns when that would survive a restart.
func (r *Revoker) Ended(node Node, processes []string) error {
	of := func(name string) bool {
		instance, id, _ := strings.Cut(name, others)
		p, _, named := strings.Cut(instance, ".")
		return named && id == node.ID && slices.Contains(processes, p)
	}
	r.mu.Lock()
	for l := range r.links {
		if of(l.called()) {
			l.lease = time.Time{} // nobody is there to answer
			l.acknowledge(r.history.at)
			l.end()
		}
	}
	for name := range r.known {
		if of(name) {
			r.leave(name)
		}
	}
	r.mu.Unlock()
	if err := r.persistKnown(false); err != nil {
		return fmt.Errorf("forget filters that have ended: %w", err)
	}
	return nil
}

// ServeEnded answers a POST of [contract.Ended] with the token of the node: 204
// when its filters are forgotten.
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
	if err := r.Ended(node, ended.Processes); err != nil {
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
