package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/meshgate/meshgate/controlplane/enrol"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/alarm"
)

// Limits of enrolments. The pause between two attempts starts with enrolFirst and grows to
// enrolMax.
const (
	enrolFirst = 100 * time.Millisecond
	enrolMax   = 2 * time.Second
	// leaveTimeout bounds the deregistration at a stop. goneTimeout bounds the report of
	// ended Envoys before it; the next agent can repeat that report.
	leaveTimeout = 5 * time.Second
	goneTimeout  = 2 * time.Second
	// withdrawTimeout bounds the wait for the other proxies before a drain.
	withdrawTimeout = 3 * time.Second
	// askControlPlane bounds one request to the control plane.
	askControlPlane = 10 * time.Second
)

// enrolFirst enrols before the first start of Envoy. If the control plane is away, a node
// that has settings from an earlier run starts with those, and enrolled is false.
func (a *Agent) enrolFirst(ctx context.Context) (enrolled bool, err error) {
	pause := enrolFirst
	for {
		answer, err := a.enrol(ctx)
		if err == nil && answer.Unknown {
			// The control plane counts no filter that has read the trust file, and no Envoy
			// runs yet.
			err = a.dir.removeTrust()
		}
		if err == nil {
			a.report(nil)
			return true, a.dir.write(a, answer)
		}
		if final(err) {
			return false, a.tokenRead(err)
		}
		if a.report(err); a.dir.enrolled() && (a.Certificate == nil || a.settled) {
			a.Log.Warn("starting with what the control plane said last")
			return false, a.dir.refresh(a)
		}
		if err := alarm.Rest(ctx, pause); err != nil {
			return false, err
		}
		pause = min(pause*2, enrolMax)
	}
}

// final reports whether another attempt would not help.
func final(err error) bool {
	_, refused := errors.AsType[*enrol.Refused](err)
	_, unusable := errors.AsType[*tokenError](err)
	return refused || unusable
}

// tokenRead adds the name of the file to a refusal, because the file may be the wrong one.
func (a *Agent) tokenRead(err error) error {
	if _, refused := errors.AsType[*enrol.Refused](err); !refused {
		return err
	}
	return fmt.Errorf("%w. %s", err, a.proof())
}

// enrolLater repeats an enrolment that was not possible at the start, so that the control
// plane knows the node. The answer is stored for the next start.
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
		if alarm.Rest(ctx, pause) != nil {
			return
		}
		pause = min(pause*2, enrolMax)
	}
}

// registerAgain registers the proxy again. It brings back a Dataplane that the control
// plane has removed while this agent was cut off, or that another agent of the same name
// has deregistered. It also brings back the enrolment of a gateway that was removed but
// still runs. Of the answer only what may have changed while Envoy runs is needed.
func (a *Agent) registerAgain(ctx context.Context) {
	if a.Sidecar != nil && a.Sidecar.Dataplane == "" || ctx.Err() != nil {
		return
	}
	answer, err := a.enrol(ctx)
	if err == nil {
		err = a.lend(answer.Trusting)
	}
	if err != nil {
		a.Log.Warn("the control plane does not know the proxy, which could not register again", "node", a.NodeID(), "error", err)
		return
	}
	a.Log.Info("the proxy is registered again", "node", a.NodeID())
}

// appear registers an egress that listens. Until then its callers do not know it: they would be refused,
// and those that have another egress would not call that.
func (a *Agent) appear(ctx context.Context) {
	if a.Sidecar == nil || a.Sidecar.ZoneType != mesh.ProxyEgress || a.Sidecar.Dataplane == "" {
		return
	}
	select {
	case <-a.ready:
	case <-ctx.Done():
		return
	}
	for pause := enrolFirst; ctx.Err() == nil; pause = min(pause*2, enrolMax) {
		// The request is not broken off: it would be unknown whether it comes after the withdrawal.
		_, err := a.enrol(context.WithoutCancel(ctx))
		switch {
		case err == nil:
			return
		case final(err):
			a.Log.Error("the control plane does not let the egress be called", "error", a.tokenRead(err))
			return
		}
		if alarm.Rest(ctx, pause) != nil {
			return
		}
	}
}

// listens reports whether Envoy has listened once with every listener.
func (a *Agent) listens() bool {
	select {
	case <-a.ready:
		return true
	default:
		return false
	}
}

// enrol sends one enrolment.
func (a *Agent) enrol(ctx context.Context) (*enrol.Answer, error) {
	if err := a.certify(ctx); err != nil {
		return nil, err
	}
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

// withdraw makes other proxies stop sending requests here before Envoy is drained.
// Otherwise they would continue until Envoy refuses them. It does not wait for a control
// plane that is away.
func (a *Agent) withdraw(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, withdrawTimeout)
	defer cancel()
	// A report on the way could say again that the proxy is to be called.
	select {
	case <-a.probed:
	case <-ctx.Done():
	}
	token, err := a.token()
	if err == nil {
		err = a.proxy().withdraw(ctx, a.client(), token)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		a.Log.Warn("the control plane could not be told that the proxy drains; others send until they are refused", "error", err)
	}
}

// leave removes the registration of the proxy after Envoy has been drained. It does nothing
// if the agent must end at once.
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

// tellGone reports that this agent starts no Envoy any more.
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
