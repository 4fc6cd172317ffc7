package server

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/meshgate/meshgate/xds/resource"
)

// maxSecretRetry is the longest pause between attempts to make a secret.
const maxSecretRetry = 30 * time.Second

// maxMaking is the number of secrets that are made at once for one stream, so that a maker
// that hangs does not hold up the other secrets.
const maxMaking = 4

// made is one secret, or the reason why there is none.
type made struct {
	name     string
	resource *resource.Resource
	// generation is the generation that the set wanted when the making began.
	generation string
	err        error
	// job is nil for a pushed secret.
	job *job
}

// job is a secret that is being made. Only the goroutine of the stream uses it.
type job struct {
	generation string
	cancel     context.CancelFunc
	stale      bool // the set has turned to another generation
}

// secretary makes secrets outside the goroutine of the stream, because signing may take long
// or wait for an authority. Only that goroutine uses the secretary, except for put, which any
// goroutine may call.
type secretary struct {
	ready chan struct{}
	mu    sync.Mutex
	done  []made

	ctx     context.Context // of all jobs
	cancel  context.CancelFunc
	jobs    map[string]*job // those for the generation of the set, by name
	running int             // jobs at work, including stale ones
	work    sync.WaitGroup

	failed  map[string]string // generation of each secret whose last attempt failed, by name
	pause   time.Duration
	timer   *time.Timer
	blocked bool // an attempt failed and its pause is not over
}

func (s *secretary) init(ctx context.Context) {
	s.ready = make(chan struct{}, 1)
	s.jobs, s.failed = map[string]*job{}, map[string]string{}
	s.ctx, s.cancel = context.WithCancel(ctx)
}

// put hands over a secret that was made or pushed. Of several secrets pushed under one name,
// only the last one is kept for a slow stream.
func (s *secretary) put(m made) {
	s.mu.Lock()
	if m.job == nil {
		s.done = slices.DeleteFunc(s.done, func(old made) bool { return old.job == nil && old.name == m.name })
	}
	s.done = append(s.done, m)
	s.mu.Unlock()
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// take returns the secrets that have arrived.
func (s *secretary) take() []made {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.done
	s.done = nil
	return out
}

// retry returns a channel that is readable when failed secrets may be tried again.
func (s *secretary) retry() <-chan time.Time {
	if s.timer == nil {
		return nil
	}
	return s.timer.C
}

func (s *secretary) due() {
	if s.timer != nil {
		s.timer.Stop()
	}
	s.blocked, s.timer = false, nil
}

// stop cancels the jobs and waits for them.
func (s *secretary) stop() {
	s.cancel()
	s.due()
	s.work.Wait()
}

// turn cancels the jobs whose generation the set no longer wants. It also ends a pause that
// such an attempt caused, because the new generation may come from another authority.
func (s *secretary) turn(set *resource.Set) {
	wanted := func(name, generation string) bool {
		now, ok := set.Generation(name)
		return ok && now == generation
	}
	for name, j := range s.jobs {
		if !wanted(name, j.generation) {
			j.stale = true
			j.cancel()
			delete(s.jobs, name)
		}
	}
	for name, generation := range s.failed {
		if !wanted(name, generation) {
			s.forgive(name)
			s.due()
		}
	}
}

// ended removes a job from the books and reports whether its failure matters.
func (s *secretary) ended(m made, first time.Duration) (failed bool) {
	s.running--
	if s.jobs[m.name] == m.job {
		delete(s.jobs, m.name)
	}
	switch {
	case m.job.stale:
		return false
	case m.err == nil:
		s.forgive(m.name)
		return false
	}
	s.failed[m.name] = m.generation
	if !s.blocked {
		s.pause = min(max(first, s.pause*2), maxSecretRetry)
		s.blocked, s.timer = true, time.NewTimer(s.pause)
	}
	return true
}

// forgive forgets a failure. When no failure is left, the next pause is short again.
func (s *secretary) forgive(name string) {
	delete(s.failed, name)
	if len(s.failed) == 0 {
		s.pause = 0
	}
}

// request starts the making of secrets. Their arrival is signalled on secrets.ready.
func (st *stream) request(names []string) {
	s := &st.secrets
	if st.srv.cfg.Secrets == nil || s.blocked {
		return
	}
	for _, name := range names {
		if s.running >= maxMaking {
			return
		}
		if s.jobs[name] != nil {
			continue
		}
		generation, _ := st.session.state.Set.Generation(name)
		ctx, cancel := context.WithTimeout(s.ctx, st.srv.cfg.Limits.SecretTimeout)
		j := &job{generation: generation, cancel: cancel}
		s.jobs[name] = j
		s.running++
		s.work.Go(func() {
			defer cancel()
			r, err := st.make(ctx, name, generation)
			s.put(made{name: name, resource: r, generation: generation, err: err, job: j})
		})
	}
}

// make asks for one secret and checks it. A panic of the maker counts as a failure.
func (st *stream) make(ctx context.Context, name, generation string) (r *resource.Resource, err error) {
	defer func() {
		if p := recover(); p != nil {
			st.log.Error("secret_panicked", "node", st.node, "secret", name, "stack", string(debug.Stack()))
			r, err = nil, errors.New("making the secret failed")
		}
	}()
	r, err = st.srv.cfg.Secrets.Secret(ctx, st.node, name, generation)
	if err != nil {
		return nil, err
	}
	return r, CheckSecret(r, name)
}

// collect processes the secrets that were made or pushed.
func (st *stream) collect() {
	for _, m := range st.secrets.take() {
		logged := true
		if m.job != nil {
			logged = st.secrets.ended(m, st.srv.cfg.Limits.SecretRetry)
		} else {
			m.err = CheckSecret(m.resource, m.name)
		}
		switch {
		case m.err == nil:
			if st.session.accept(m) && m.job == nil {
				st.secrets.forgive(m.name) // the push replaces whatever could not be made
			}
		case logged:
			st.log.Warn("secret_not_made", "node", st.node, "secret", m.name, "error", m.err)
		}
	}
	st.session.retry(st.session.types[resource.Secret])
}

// deliver hands a pushed secret to the stream. The caller may hold Server.mu.
func (st *stream) deliver(m made) { st.secrets.put(m) }
