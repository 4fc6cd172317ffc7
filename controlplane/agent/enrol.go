package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/meshgate/meshgate/controlplane/enrol"
)

// Back-off of enrolments while the control plane cannot be reached.
const (
	enrolFirst = 100 * time.Millisecond
	enrolMax   = 2 * time.Second
	// leaveTimeout bounds the deregistration at a stop, goneTimeout what is said of
	// Envoys before it: the next agent can say that, too.
	leaveTimeout = 5 * time.Second
	goneTimeout  = 2 * time.Second
	// withdrawTimeout bounds the wait for the other proxies before a drain.
	withdrawTimeout = 3 * time.Second
	// askControlPlane bounds one question.
	askControlPlane = 10 * time.Second
)

// enrolFirst enrols before the first start. A node that has settings from an
// earlier run starts with those when the control plane is away; enrolled is false
// then.
func (a *Agent) enrolFirst(ctx context.Context) (enrolled bool, err error) {
	pause := enrolFirst
	for {
		answer, err := a.enrol(ctx)
		if err == nil && answer.Unknown {
			// The control plane counts on nobody who read this, and no Envoy runs yet.
			err = a.dir.removeTrust()
		}
		if err == nil {
			a.report(nil)
			return true, a.dir.write(a, answer)
		}
		if final(err) {
			return false, a.tokenRead(err)
		}
		if a.report(err); a.dir.enrolled() {
			a.Log.Warn("starting with what the control plane said last")
			return false, nil
		}
		if err := rest(ctx, pause); err != nil {
			return false, err
		}
		pause = min(pause*2, enrolMax)
	}
}

// final reports whether asking again would not help.
func final(err error) bool {
	_, refused := errors.AsType[*enrol.Refused](err)
	_, unusable := errors.AsType[*tokenError](err)
	return refused || unusable
}

// tokenRead adds to a refusal which file the token came from, which may be what is wrong.
func (a *Agent) tokenRead(err error) error {
	if _, refused := errors.AsType[*enrol.Refused](err); !refused {
		return err
	}
	return fmt.Errorf("%w. The token is read from %s", err, a.TokenFile)
}

// enrolLater makes up for an enrolment that was not possible at the start, so
// that the control plane knows of this node. What it answers is for the next
// start.
func (a *Agent) enrolLater(ctx context.Context) {
	pause := enrolFirst
	for {
		answer, err := a.enrol(ctx)
		if err == nil {
			err = a.dir.write(a, answer)
			if err == nil {
				a.Log.Info("the node is enrolled", "node", a.NodeID())
				return
			}
		}
		if final(err) {
			a.Log.Error("the control plane does not take the node", "error", a.tokenRead(err))
			return
		}
		if rest(ctx, pause) != nil {
			return
		}
		pause = min(pause*2, enrolMax)
	}
}

// registerAgain brings a Dataplane back that the control plane has removed while
// this agent was cut off, or that another agent of this name took along; or the
// enrolment of a gateway that was removed, and is still there. What is answered is known
// already.
func (a *Agent) registerAgain(ctx context.Context) {
	if a.Sidecar != nil && a.Sidecar.Dataplane == "" || ctx.Err() != nil {
		return
	}
	if _, err := a.enrol(ctx); err != nil {
		a.Log.Warn("the control plane does not know the proxy, which could not register again", "node", a.NodeID(), "error", err)
		return
	}
	a.Log.Info("the proxy is registered again", "node", a.NodeID())
}

// rest waits for a pause, or returns the error of ctx.
func rest(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// enrol asks the control plane once.
func (a *Agent) enrol(ctx context.Context) (*enrol.Answer, error) {
	token, err := a.token()
	if err != nil {
		return nil, err
	}
	answer, err := a.proxy().enrol(ctx, a.client(), token)
	if err != nil {
		return nil, err
	}
	if want := a.NodeID(); answer.Node != want {
		return nil, &enrol.Refused{Status: http.StatusForbidden, Text: fmt.Sprintf("the node token is for %s, not for %s", answer.Node, want)}
	}
	return answer, nil
}

// withdraw has other proxies stop sending here, before Envoy is drained: they would go
// on until it refuses them. A control plane that is away is not waited for.
func (a *Agent) withdraw(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, withdrawTimeout)
	defer cancel()
	token, err := a.token()
	if err == nil {
		err = a.proxy().withdraw(ctx, a.client(), token)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		a.Log.Warn("the control plane could not be told that the proxy drains; others send until they are refused", "error", err)
	}
}

// leave takes away what the proxy has registered, after Envoy has been drained. An
// end that must come at once does not wait for it.
func (a *Agent) leave() {
	if a.aborted() {
		return
	}
	a.tellGone()
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	token, err := a.token()
	if err == nil {
		err = a.proxy().leave(ctx, a.client(), token)
	}
	if err != nil {
		a.Log.Warn("the proxy could not deregister", "error", err)
	}
}

func (a *Agent) aborted() bool {
	select {
	case <-a.Abort:
		return true
	default:
		return false
	}
}

// tellGone says that this agent starts no Envoy any more.
func (a *Agent) tellGone() {
	if a.aborted() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), goneTimeout)
	defer cancel()
	if err := a.tellNow(ctx, true); err != nil {
		a.Log.Info("the control plane hears at the next start that envoy has ended", "error", err)
	}
}
