package declare

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/client"
	"github.com/meshgate/meshgate/controlplane/dryrun"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/mesh"
)

// Failures are the operations that failed, each a line.
type Failures []string

// Error implements error.
func (f Failures) Error() string {
	lines := make([]string, 0, len(f)+1)
	lines = append(lines, fmt.Sprintf("%d errors occurred:", len(f)))
	for _, one := range f {
		lines = append(lines, "\t"+strings.ReplaceAll(one, "\n", "\n\t"))
	}
	return strings.Join(lines, "\n")
}

// textLeftOut is what becomes of an operation after the failure of another one.
const textLeftOut = ": left out, because something that it needs could not be written"

// runner carries out a plan.
type runner struct {
	api *API
	// begin is called with each operation before it is made, progress with the number of
	// those that are over. They are never called at the same time.
	begin    func(*Op)
	progress func(done, all int)

	mu       sync.Mutex
	begun    map[*Op]bool
	done     map[*Op]bool
	failures Failures
	// absent are the ids of what could not be written, with everything that needs it.
	absent map[string]bool
	// later are operations that may succeed when something is deleted.
	later []*Op
}

// run carries out a plan. Operations of one step run at the same time. After a failure, what
// needs the failed entity is left out, and nothing is deleted: what would be deleted may still
// be of use. The error is [Failures]; what succeeded stays.
func (r *runner) run(ctx context.Context, p *Plan) (done []*Op, err error) {
	r.begun, r.done, r.absent = map[*Op]bool{}, map[*Op]bool{}, map[string]bool{}
	var updates, writes, deletes []*Op
	for _, o := range p.Ops {
		switch o.Action {
		case Deleting:
			deletes = append(deletes, o)
		case Updating:
			updates = append(updates, o)
			fallthrough
		default:
			writes = append(writes, o)
		}
	}
	r.steps(ctx, writes, len(p.Ops), slices.Concat(updates, deletes))
	for over := -1; len(r.later) > 0 && len(r.done) > over && len(r.failures) == 0 && ctx.Err() == nil; {
		over = len(r.done) // each update may free what another one needs
		r.steps(ctx, r.postponed(), len(p.Ops), slices.Concat(updates, deletes))
	}
	if len(r.failures) == 0 {
		r.steps(ctx, r.postponed(), len(p.Ops), deletes)
	}
	if len(r.failures) == 0 && ctx.Err() == nil {
		r.steps(ctx, deletes, len(p.Ops), deletes)
		r.again(ctx, len(p.Ops))
		r.steps(ctx, r.postponed(), len(p.Ops), nil)
	}
	for _, o := range r.later {
		r.failures = append(r.failures, o.Action+" "+o.Label+textLeftOut)
	}
	slices.Sort(r.failures)
	for _, o := range p.Ops {
		if r.done[o] {
			done = append(done, o)
		}
	}
	if ctx.Err() != nil {
		return done, ctx.Err()
	}
	if len(r.failures) > 0 {
		return done, r.failures
	}
	return done, nil
}

// postponed returns the operations that may succeed now, and forgets that they have failed.
func (r *runner) postponed() (later []*Op) {
	later, r.later, r.absent = r.later, nil, map[string]bool{}
	return later
}

// again repeats deletions that were refused because of others of the same level.
func (r *runner) again(ctx context.Context, all int) {
	var refused, rest []*Op
	for _, o := range r.later {
		if o.Action == Deleting {
			refused = append(refused, o)
		} else {
			rest = append(rest, o)
		}
	}
	r.later = rest
	r.steps(ctx, refused, all, nil)
}

// steps carries out operations, which are in order. A conflict with one of those that are still
// to come is not yet a failure.
func (r *runner) steps(ctx context.Context, ops []*Op, all int, coming []*Op) {
	for len(ops) > 0 && ctx.Err() == nil {
		n := slices.IndexFunc(ops, func(o *Op) bool { return o.step() != ops[0].step() })
		if n < 0 {
			n = len(ops)
		}
		step := ops[:n]
		ops = ops[n:]
		err := parallel(ctx, r.api.Parallel, len(step), func(ctx context.Context, i int) error { // failures are kept
			r.one(ctx, step[i], all, coming)
			return nil
		})
		if err != nil && ctx.Err() == nil { // a panic
			r.failures = append(r.failures, err.Error())
			return
		}
	}
}

// one carries out one operation.
func (r *runner) one(ctx context.Context, o *Op, all int, coming []*Op) {
	if !r.ready(o, len(coming) > 0) {
		return
	}
	err := r.write(ctx, o)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.done[o] = true
		r.progress(len(r.done), all)
	case conflicts(o, err, coming):
		r.absent[o.ID] = true
		r.later = append(r.later, o)
	default:
		r.absent[o.ID] = true
		r.failures = append(r.failures, fmt.Sprintf("%s %s: %s", o.Action, o.Label, problem(err, o.secrets)))
	}
}

// ready announces an operation, unless something that it needs is absent. That may come later
// if something else is still to come.
func (r *runner) ready(o *Op, coming bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	missing := slices.ContainsFunc(o.Needs, func(id string) bool { return r.absent[id] })
	if missing {
		r.absent[o.ID] = true
		if coming {
			r.later = append(r.later, o)
		} else {
			r.failures = append(r.failures, o.Action+" "+o.Label+textLeftOut)
		}
	} else if !r.begun[o] {
		r.begun[o] = true
		r.begin(o)
	}
	return !missing
}

// conflicts reports whether an operation was refused because of something that another one,
// which is still to come, deletes or changes. A value that a stranger has stays his.
func conflicts(o *Op, err error, coming []*Op) bool {
	refusal, ok := errors.AsType[*client.Refusal](err)
	if !ok || len(coming) == 0 {
		return false
	}
	_, referenced := refusal.Fields[fieldReferenced]
	switch {
	case o.Action == Deleting:
		return refusal.Status == http.StatusConflict || refusal.Status == http.StatusBadRequest
	case refusal.Status == http.StatusBadRequest && referenced:
		return o.Action == Updating
	case refusal.Status != http.StatusConflict:
		return false
	case o.kind == nil: // a document of the mesh API, which does not say what is in its way
		return true
	}
	return slices.ContainsFunc(coming, func(other *Op) bool {
		if other == o || other.kind != o.kind || other.is == nil || len(refusal.Fields) == 0 {
			return false
		}
		for name := range refusal.Fields {
			if !(field{}).equal(o.wants[name], other.is[name]) {
				return false
			}
		}
		return true
	})
}

// fieldReferenced is in refusals of writes that something else refers to.
const fieldReferenced = "@referenced_by"

// problem returns what is wrong, in the words of the API if it has said something, but without
// secrets.
func problem(err error, secrets []string) string {
	if refusal, ok := errors.AsType[*client.Refusal](err); ok && refusal.Said != "" {
		return fmt.Sprintf("HTTP status %d (message: %q)", refusal.Status, hide(refusal.Said, secrets))
	}
	return hide(err.Error(), secrets)
}

func (r *runner) write(ctx context.Context, o *Op) error {
	if o.Action == Deleting {
		return r.api.call(ctx, http.MethodDelete, o.Path, nil, nil, nil)
	}
	return r.api.call(ctx, http.MethodPut, o.Path, nil, o.Body, nil)
}

// Tried is what a write would do.
type Tried struct {
	Op *Op
	// Answer is nil if the write can only be checked, because what it refers to is not there
	// yet, or if nothing is known of it.
	Answer *dryrun.Answer
	// Refused, if set, says why the write would fail.
	Refused string
	// Untried, if set, says why nobody knows what the write would do, or whether it would fail.
	Untried string
	// Busy is whether that is because the API had no time.
	Busy bool
}

// try asks the API what each operation would do. Nothing is written.
func (r *runner) try(ctx context.Context, p *Plan) ([]Tried, error) {
	made := map[string]bool{}
	var before []*Op // what may be in the way of others
	for _, o := range p.Ops {
		if o.Action == Creating {
			made[o.ID] = true
		} else {
			before = append(before, o)
		}
	}
	tried := make([]Tried, len(p.Ops))
	var mu sync.Mutex
	done := 0
	if len(p.Ops) == 0 {
		return tried, nil
	}
	if err := r.api.knowsDryRuns(ctx, p.Ops[0].Path); errors.Is(err, errNoDryRuns) {
		return tried, fmt.Errorf("--dry-run: %w", err)
	} else if err != nil {
		return tried, err
	}
	err := r.api.dryRuns(ctx, len(p.Ops), func(ctx context.Context, i int) (bool, error) {
		o := p.Ops[i]
		answer, err := r.tryOne(ctx, o, slices.ContainsFunc(o.Needs, func(id string) bool { return made[id] }))
		if err == nil && answer != nil && answer.Verdict == "" {
			return false, fmt.Errorf("%s %s: the answer to a dry run says nothing of it, so that it may be written: nothing more is tried", o.Action, o.Label)
		}
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() != nil {
			return false, ctx.Err() // nobody knows
		}
		tried[i] = triedAs(o, answer, err, before)
		if tried[i].Refused != "" {
			r.failures = append(r.failures, fmt.Sprintf("%s %s: %s", o.Action, o.Label, tried[i].Refused))
		}
		if !tried[i].Busy {
			done++
			r.progress(done, len(p.Ops))
		}
		return tried[i].Busy, nil
	})
	if err == nil && len(r.failures) > 0 {
		slices.Sort(r.failures)
		err = r.failures
	}
	return tried, err
}

// errNoDryRuns says that an API knows no dry runs.
var errNoDryRuns = errors.New("what answers there knows no dry run, and would write: nothing was tried")

// knowsDryRuns asks for evidence that the API knows dry runs: whoever does not would write. It tries to
// delete something beside the path of a write that is not there, and gives the parameter a value that it
// cannot have.
func (a *API) knowsDryRuns(ctx context.Context, write string) error {
	nothing := path.Join(path.Dir(write), uuid.NewString())
	if path.Dir(write) == "/"+mesh.Meshes.Path { // whoever may write one mesh has no right to others
		nothing = path.Join(write, mesh.MeshGatewayRoutes.Path, uuid.NewString())
	}
	err := a.call(ctx, http.MethodDelete, nothing, url.Values{httpkit.ArgDryRun: {"known"}}, nil, nil)
	refusal, ok := errors.AsType[*client.Refusal](err)
	switch {
	case ok && refusal.Status == http.StatusBadRequest && strings.Contains(refusal.Said, httpkit.ArgDryRun):
		return nil
	case err == nil, ok && (refusal.Status == http.StatusNotFound || refusal.Status == http.StatusBadRequest):
		return errNoDryRuns
	}
	return err
}

// errEarly says that a write cannot even be checked yet.
var errEarly = errors.New("it can be tried when what it refers to is there")

// tryOne asks the API about one operation. Without an error and an answer it was only checked.
func (r *runner) tryOne(ctx context.Context, o *Op, early bool) (*dryrun.Answer, error) {
	query := url.Values{httpkit.ArgDryRun: {"true"}}
	answer := new(dryrun.Answer)
	switch {
	case early && o.check != "":
		return nil, r.api.call(ctx, http.MethodPost, o.check, nil, o.Body, nil)
	case early:
		return nil, errEarly
	case o.Action == Deleting:
		return answer, r.api.call(ctx, http.MethodDelete, o.Path, query, nil, answer)
	}
	return answer, r.api.call(ctx, http.MethodPut, o.Path, query, o.Body, answer)
}

// pacer calls tell at most once in a while, and not before a while has passed.
type pacer struct {
	every time.Duration
	now   func() time.Time
	last  time.Time
	tell  func(done, all int)
}

func newPacer(now func() time.Time, every time.Duration, tell func(done, all int)) *pacer {
	return &pacer{every: every, now: now, last: now(), tell: tell}
}

func (p *pacer) progress(done, all int) {
	if at := p.now(); at.Sub(p.last) >= p.every && done < all {
		p.last = at
		p.tell(done, all)
	}
}
