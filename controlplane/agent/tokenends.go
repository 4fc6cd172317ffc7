package agent

import (
	"context"
	"time"

	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/xds/alarm"
)

// watchToken reports when the node token nears its end without a successor, until ctx ends.
// Replacing the file causes no event, so the file is read again at intervals.
func (a *Agent) watchToken(ctx context.Context) {
	a.conditions.Probe(conditionToken, func(context.Context) { a.judgeToken(time.Now()) })
	for ctx.Err() == nil {
		now := time.Now()
		next, again := a.judgeToken(now), now.Add(renewMax)
		if next.IsZero() || again.Before(next) {
			next = again
		}
		_ = alarm.Wait(ctx, time.Now, next) // the loop checks ctx
	}
}

// judgeToken sets the condition of the node token, and returns when to check again. It
// warns in the last sixth of the token's life, at most 30 days, as for certificates. The
// agent of a gateway renews the token when a third is left, so a warning says that this
// does not work.
func (a *Agent) judgeToken(now time.Time) (next time.Time) {
	token, err := a.token()
	if err != nil {
		return time.Time{} // the next connection reports the error
	}
	life, err := lifeOf(token)
	if err != nil {
		a.conditions.Good(conditionToken) // a token without an end does not expire
		return time.Time{}
	}
	f, next := health.Certificates(now, []health.Certificate{{
		What: "the node token in " + a.TokenFile, Do: a.successor(),
		NotBefore: time.Unix(int64(life.Issued), 0), NotAfter: time.Unix(int64(life.Expires), 0),
	}})
	a.conditions.Set(conditionToken, f)
	return next
}

// successor says where the next token comes from, and why it has not come.
func (a *Agent) successor() string {
	if a.Certificate != nil {
		return "its agent gets a new one by the client certificate in " + a.Certificate.CertFile + ", which it tries since two thirds of the life of this one are over" + a.why() +
			". After the end the control plane lets this gateway in no more"
	}
	if a.Sidecar != nil && a.Sidecar.ZoneType != "" {
		return "tokens of zones are not renewed by themselves. Put a new one there (POST /tokens/zone of the mesh API): nothing needs a restart. After the end the control plane lets this proxy in no more"
	}
	if a.Sidecar != nil {
		return "tokens of sidecars are not renewed by themselves. Put a new one there (POST /tokens/dataplane of the mesh API): nothing needs a restart. After the end the control plane lets this proxy in no more"
	}
	return "its agent could not take a successor, which it tries since two thirds of its life are over" + a.why() +
		". Mend that, or put a new one there (POST /tokens/gateway of the mesh API): nothing needs a restart. After the end the control plane lets this proxy in no more"
}

// why says why the token could not be renewed, if that was tried.
func (a *Agent) why() string {
	if e := a.unrenewed.Load(); e != nil {
		return " (" + *e + ")"
	}
	return ""
}
