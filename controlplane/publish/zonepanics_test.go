package publish

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/plan"
)

// lackingZone is a planner of which parts fail.
type lackingZone struct {
	zonePlanner
	fs []failure
}

func (*lackingZone) Update(*view.Zone)     {}
func (l *lackingZone) Failures() []failure { return l.fs }
func (*lackingZone) Behind() []string      { return nil }

// TestPanicInAPartOfTheZoneIsLogged: a panic that a planner contains is in the log, once, and other failures
// are not: they are about what is configured, and whoever asks for it learns them.
func TestPanicInAPartOfTheZoneIsLogged(t *testing.T) {
	var out bytes.Buffer
	panicked := failure{Cell: "mesh bank", Err: &plan.Failed{Value: "a mistake"}, Kept: true}
	l := &lackingZone{}
	p := &zonePlane{planners: zonePlanners{mesh.ProxyEgress: l}, log: slog.New(slog.NewTextHandler(&out, nil))}
	for _, step := range []struct {
		fs   []failure
		want int
	}{
		{[]failure{{Cell: "mesh shop", Err: errors.New("too many")}}, 0},
		{[]failure{panicked}, 1}, {[]failure{panicked}, 1}, {nil, 1}, {[]failure{panicked}, 2},
	} {
		l.fs = step.fs
		p.plan(true)
		if n := strings.Count(out.String(), "mesh bank"); n != step.want || strings.Contains(out.String(), "shop") {
			t.Errorf("after %v: %s", step.fs, &out)
		}
	}
}

// TestPanicOfAConnectedProxyIsLogged: so is one at making the set of one proxy, once and not with each
// attempt, whatever the text says. Why a proxy cannot listen is not.
func TestPanicOfAConnectedProxyIsLogged(t *testing.T) {
	var out bytes.Buffer
	p := &zonePlane{log: slog.New(slog.NewTextHandler(&out, nil))}
	for step, panics := range []bool{true, true, false, true} {
		refused := map[string]error{"zone/ingress/b": fault.New(fault.Unavailable, "it cannot listen there")}
		if panics {
			refused["zone/ingress/a"] = fault.Wrap(fault.Unavailable, &plan.Failed{Value: step}, "it cannot be made")
		}
		p.tell(refused)
		p.refused = refused
		if n, want := strings.Count(out.String(), "zone/ingress/a"), 1+step/3; n != want || strings.Contains(out.String(), "zone/ingress/b") {
			t.Errorf("after step %d, the log is %s", step, &out)
		}
	}
}
