package insight_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/server"
)

const gateway = "cp/default/gw-1"

func of(node string, stream uint64) server.Event { return server.Event{Node: node, Stream: stream} }

// said is a node in one line.
func said(r *rig) (out []string) {
	for _, n := range r.Nodes() {
		text := fmt.Sprintf("%s %s %s %s %s", n.ID, n.Type, n.Scope, n.Name, n.State)
		if n.Refusal != nil {
			text += fmt.Sprintf(" (%s, %d times)", n.Refusal.Reason, n.Refusal.Count)
		}
		out = append(out, text)
	}
	return out
}

func (r *rig) lists(what string, want ...string) {
	r.t.Helper()
	if diff := cmp.Diff(want, said(r)); diff != "" {
		r.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// Whoever watches is told by type since when a node is away that is away the longest:
// one that returns does not count, nor one that never came.
func TestAwaySince(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		expect := func(what string, want map[string]time.Time) {
			t.Helper()
			if diff := cmp.Diff(want, r.AwaySince()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		r.Expect("default.never")
		r.Connected(event("a", 1))
		r.Connected(event("b", 2))
		r.Connected(of(gateway, 3))
		expect("all are there", map[string]time.Time{})
		pass(time.Minute)
		a := time.Now().UTC()
		r.Disconnected(event("a", 1))
		pass(time.Minute)
		b := time.Now().UTC()
		r.Disconnected(event("b", 2))
		r.Disconnected(of(gateway, 3))
		r.Refused(server.Event{Node: "default.a", Error: "its token was revoked"})
		pass(time.Minute)
		expect("three left", map[string]time.Time{"sidecar": a, "gateway": b})
		r.Connected(event("a", 4))
		expect("one is back", map[string]time.Time{"sidecar": b, "gateway": b})
	})
}

// Everybody who was there is listed, connected or away, sidecar or gateway, over
// restarts of the control plane, until it is removed.
func TestNodesStay(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.lists("nobody was there")
		web := event("web", 1)
		web.Until = time.Now().Add(time.Hour)
		r.Connected(web)
		r.Connected(of(gateway, 2))
		r.Certified(gateway, time.Now().Add(2*time.Hour))
		r.Expect("default.new")
		r.lists("they came", gateway+" gateway default gw-1 connected", "default.new sidecar default new away", "default.web sidecar default web connected")
		pass(time.Minute)
		r.Disconnected(event("web", 1))
		pass(time.Minute)
		r.close()
		pass(time.Minute)
		r.open()
		r.lists("after a restart", gateway+" gateway default gw-1 away", "default.web sidecar default web away")
		n, ok := r.Node("default.web")
		if start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC); !ok || !n.Since.Equal(start.Add(time.Minute)) || !n.TokenExpires.Equal(start.Add(time.Hour)) {
			t.Errorf("%+v", n)
		}
		gw, _ := r.Node(gateway)
		if gw.Ended != "the control plane was not running" || gw.CertificateExpires.IsZero() {
			t.Errorf("%+v", gw)
		}
		if !r.Remove(gateway) || r.Remove(gateway) {
			t.Error("removed other than once")
		}
		pass(insight.Interval)
		r.close()
		r.open()
		r.lists("removed", "default.web sidecar default web away")
	})
}

// A refusal is why a node is away only if it was refused after it was there; while it is
// connected, somebody else came with its name.
func TestRefusals(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.Connected(event("web", 1))
		r.TurnedAway("default.web", "the token is of another", true)
		r.lists("an impostor", "default.web sidecar default web connected (the token is of another, 1 times)")
		pass(time.Second)
		r.Disconnected(event("web", 1))
		r.lists("it leaves by itself", "default.web sidecar default web away (the token is of another, 1 times)")
		pass(time.Second)
		for range 3 {
			r.Refused(server.Event{Node: "default.web", Error: "signing key 3 is gone", Proved: true})
			pass(time.Second)
		}
		r.lists("it is refused", "default.web sidecar default web refused (signing key 3 is gone, 3 times)")
		if n, _ := r.Node("default.web"); !n.Refusal.Since.Equal(n.Since.Add(time.Second)) || !n.Refusal.Time.Equal(n.Since.Add(3*time.Second)) {
			t.Errorf("%+v of %+v", n.Refusal, n)
		}
		pass(insight.Interval)
		r.close()
		r.open()
		r.lists("after a restart", "default.web sidecar default web refused (signing key 3 is gone, 3 times)")
		want := map[string]map[string]int{"sidecar": {"connected": 0, "away": 0, "refused": 1}, "gateway": {"connected": 0, "away": 0, "refused": 0}, "ingress": {"connected": 0, "away": 0, "refused": 0}, "egress": {"connected": 0, "away": 0, "refused": 0}}
		if diff := cmp.Diff(want, r.Counts()); diff != "" {
			t.Error(diff)
		}
		r.Connected(event("web", 2))
		r.lists("it is let in", "default.web sidecar default web connected")
		r.Expect("default.never")
		r.TurnedAway("default.never", "expired", true)
		if n, _ := r.Node("default.never"); n.State != insight.Refused || !n.Since.IsZero() {
			t.Errorf("%+v", n)
		}
		pass(insight.Interval)
		if r.stored("never") == nil {
			t.Error("a refusal of one that never came is not stored")
		}
	})
}

// Whoever only knows the name of a node changes no state of it, hides no refusal that was
// its own, and has no node listed again that was removed.
func TestRefusalsThatProveNothing(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		anybody := func(node, reason string) {
			before, _ := r.Moves()
			r.TurnedAway(node, reason, false)
			r.TurnedAway(node, reason+" again", false)
			if after, _ := r.Moves(); after > before+1 {
				t.Errorf("whoever watches was woken %d times by nobody", after-before)
			}
			pass(time.Second)
		}
		r.Connected(event("web", 1))
		r.Disconnected(event("web", 1))
		pass(insight.Interval)
		stored := string(r.stored("web"))
		anybody("default.web", "an unknown key")
		r.lists("it is away, and that is all", "default.web sidecar default web away (an unknown key, 2 times)")
		pass(insight.Interval)
		if diff := cmp.Diff(stored, string(r.stored("web"))); diff != "" {
			t.Errorf("anybody has its row written: %s", diff)
		}
		r.TurnedAway("default.web", "revoked", true)
		anybody("default.web", "an unknown key")
		r.lists("it is refused", "default.web sidecar default web refused (revoked, 1 times)")
		if known, strangers := r.Refusals(); known != 5 || strangers != 0 {
			t.Errorf("%d and %d are counted", known, strangers)
		}
		r.Forget("default", "web")
		anybody("default.web", "an unknown key")
		r.lists("it was removed")
		if _, strangers := r.Refusals(); strangers != 2 {
			t.Errorf("%d strangers are counted", strangers)
		}
		// What is written for another reason does not hold it either.
		r.Connected(event("api", 2))
		anybody("default.api", "an unknown key")
		r.Disconnected(event("api", 2))
		pass(insight.Interval)
		if row := string(r.stored("api")); row == "" || strings.Contains(row, "an unknown key") {
			t.Errorf("stored: %s", row)
		}
	})
}

// The word of an agent on its Envoy is shown while the node is connected, wakes whoever
// watches when it changes, and is of no node that is not known.
func TestTroubled(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		trouble := func() string {
			n, _ := r.Node("default.web")
			if n.Trouble == nil {
				return "none"
			}
			return n.Trouble.Reason + " for " + time.Since(n.Trouble.Since).String()
		}
		say := func(text, want string, woken bool) {
			t.Helper()
			before, _ := r.Moves()
			r.Told("default.web", text, "", nil)
			if after, _ := r.Moves(); (after != before) != woken || trouble() != want {
				t.Errorf("%q: woken %v, %s, want %s", text, after != before, trouble(), want)
			}
			pass(time.Second)
		}
		say("it hangs", "none", false)
		r.Connected(event("web", 1))
		say("", "none", false)
		say("it hangs", "it hangs for 0s", true)
		say("it hangs", "it hangs for 1s", false)
		say("it is not there", "it is not there for 2s", true)
		if n := r.Silent(); n[insight.Sidecar] != 1 || n[insight.Gateway] != 0 {
			t.Errorf("counted: %v", n)
		}
		r.Disconnected(event("web", 1))
		if n := r.Silent(); n[insight.Sidecar] != 0 || trouble() != "none" {
			t.Errorf("of one that is away: %v %s", n, trouble())
		}
		r.Connected(event("web", 2))
		say("", "none", true)
	})
}

// What else an agent says is shown while its node is connected; a text that changes, as
// one with a time in it does, is shown and wakes nobody.
func TestTold(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		shown := func() string {
			n, _ := r.Node("default.web")
			return fmt.Sprintf("%s %v", n.NotReady, n.Conditions)
		}
		token := func(text string) []health.Condition {
			return []health.Condition{{Name: "token", State: health.Degraded, Reason: "ends_soon", Text: text}}
		}
		say := func(notReady string, conditions []health.Condition, woken bool) {
			t.Helper()
			before, _ := r.Moves()
			r.Told("default.web", "", notReady, conditions)
			want := fmt.Sprintf("%s %v", notReady, conditions)
			if after, _ := r.Moves(); (after != before) != woken || shown() != want {
				t.Errorf("woken %v, %s, want %s", after != before, shown(), want)
			}
		}
		r.Connected(event("web", 1))
		say("", nil, false)
		say("starting", nil, true)
		say("starting", token("in 5 days"), true)
		say("starting", token("in 4 days"), false)
		begin := time.Now()
		<-time.After(time.Minute) // in the time of the bubble
		say("envoy refused a listener", token("in 4 days"), true)
		if n, _ := r.Node("default.web"); !n.NotReadySince.Equal(begin) {
			t.Errorf("not ready since %s, and it began at %s", n.NotReadySince, begin)
		}
		say("", token("in 4 days"), true)
		if n, _ := r.Node("default.web"); !n.NotReadySince.IsZero() {
			t.Errorf("ready, and not ready since %s", n.NotReadySince)
		}
		say("starting", token("in 4 days"), true)
		if n, _ := r.Node("default.web"); !n.NotReadySince.Equal(time.Now()) {
			t.Errorf("not ready again since %s", n.NotReadySince)
		}
		if n := r.Troubled(); n[insight.Sidecar] != 1 || n[insight.Gateway] != 0 {
			t.Errorf("counted: %v", n)
		}
		r.Disconnected(event("web", 1))
		if n := r.Troubled(); n[insight.Sidecar] != 0 || shown() != " []" {
			t.Errorf("of one that is away: %v %s", n, shown())
		}
	})
}

// Who was sent off to come back with a newer token is awaited for a moment, of whose end
// whoever watches hears; who comes with a token that does not count is not awaited.
func TestReturning(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		returning := func() bool { n, _ := r.Node("default.web"); return n.Returning }
		leaves := event("web", 1)
		r.Connected(leaves)
		leaves.Renewed, leaves.Error = true, "the node has a newer token"
		r.Disconnected(leaves)
		if !returning() {
			t.Error("it is not awaited")
		}
		before, moved := r.Moves()
		pass(insight.ReturnTime)
		select {
		case <-moved:
		default:
			t.Errorf("nobody was woken after move %d", before)
		}
		if returning() {
			t.Error("it is awaited for ever")
		}
		for number, then := range []func(){
			func() { r.Connected(event("web", 3)) },
			func() { r.Refused(server.Event{Node: "default.web", Error: "revoked", Proved: true}) },
		} {
			again := event("web", uint64(10+number))
			r.Connected(again)
			again.Renewed = true
			r.Disconnected(again)
			if then(); returning() {
				t.Errorf("%d: it is awaited", number)
			}
		}
		r.Disconnected(event("web", 3))
		if returning() {
			t.Error("one that left by itself is awaited")
		}
	})
}

// Who is revoked is away first, and refused at the same moment.
func TestRevokedIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.Connected(event("web", 1))
		r.Disconnected(event("web", 1))
		r.Refused(server.Event{Node: "default.web", Error: "revoked", Proved: true})
		r.lists("at one moment", "default.web sidecar default web refused (revoked, 1 times)")
	})
}

// Strangers with invented names fill nothing, and flood no log.
func TestStrangersAreCounted(t *testing.T) {
	var log bytes.Buffer
	bubble(t, func(t *testing.T, r *rig) {
		r.Log = slog.New(slog.NewTextHandler(&log, nil))
		r.Connected(event("web", 1))
		r.Disconnected(event("web", 1))
		for i := range 1000 {
			r.TurnedAway(fmt.Sprintf("default.made-up-%d", i), strings.Repeat("x", 4096), false)
			r.TurnedAway("", "no token", false)
			r.TurnedAway("default.web", "expired", true)
			pass(10 * time.Millisecond)
		}
		r.lists("no more than were there", "default.web sidecar default web refused (expired, 1000 times)")
		if known, strangers := r.Refusals(); known != 1000 || strangers != 2000 {
			t.Errorf("%d and %d", known, strangers)
		}
		if n := strings.Count(log.String(), "\n"); n > 3 || !strings.Contains(log.String(), "made-up-0") || log.Len() > 2048 {
			t.Errorf("%d lines of log: %s", n, log.String())
		}
		pass(insight.Interval)
		if puts := r.store.taken(); len(puts) > 3 {
			t.Errorf("written in %v", puts)
		}
	})
}

// A proxy whose Dataplane was removed, because it is refused and so counts as gone, is
// still there and goes on asking.
func TestRemovedAndStillAsking(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.Connected(event("web", 1))
		r.Disconnected(event("web", 1))
		since := time.Now()
		pass(30 * time.Second)
		r.Forget("default", "web")
		r.lists("its Dataplane is removed")
		r.TurnedAway("default.web", "no such proxy", true)
		r.lists("it asks", "default.web sidecar default web refused (no such proxy, 1 times)")
		if n, _ := r.Node("default.web"); !n.Since.Equal(since) {
			t.Errorf("away since %s, not %s", n.Since, since)
		}
		pass(25 * time.Hour)
		r.lists("it asks no more")
		r.Connected(event("api", 2))
		r.Forget("default", "api")
		r.Disconnected(event("api", 2))
		r.lists("deleted while connected")
		r.TurnedAway("default.api", "no such proxy", true)
		r.Expect("default.api")
		pass(25 * time.Hour)
		r.lists("there again", "default.api sidecar default api refused (no such proxy, 1 times)")
	})
}

// The number of those that go on asking is bounded.
func TestRemovedAndStillAskingIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for round := range 3 {
			for i := range 700 {
				name := fmt.Sprintf("p-%d-%d", round, i)
				r.Connected(event(name, uint64(i)))
				r.Disconnected(event(name, uint64(i)))
				r.Forget("default", name)
				r.TurnedAway("default."+name, "no such proxy", true)
			}
		}
		if n := len(r.Nodes()); n != 1024 {
			t.Errorf("%d are listed", n)
		}
	})
}

// The number of those that are gone, and would be listed again if they asked, is bounded as well.
func TestRemovedAreRememberedWithinBounds(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		name := func(i int) string { return fmt.Sprintf("p-%d", i) }
		for i := range 2100 {
			r.Connected(event(name(i), uint64(i)))
			r.Disconnected(event(name(i), uint64(i)))
			r.Forget("default", name(i))
		}
		remembered := 0
		for i := range 2100 {
			node := "default." + name(i)
			r.TurnedAway(node, "no such proxy", true)
			if r.Remove(node) { // so that it takes no place of another
				remembered++
			}
		}
		if remembered != 1024 {
			t.Errorf("%d are remembered", remembered)
		}
	})
}

// How far a node was is remembered when it leaves, and over a crash of the control plane.
func TestLastAccount(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		far := insight.Last{Acknowledged: 7}
		r.Account = func(node string) (insight.Last, bool) { return far, node == "default.web" }
		r.Connected(event("web", 1))
		sent := typed("web", 1, resource.Cluster)
		sent.Revision = 9
		r.Sent(sent)
		pass(insight.Interval)
		if !strings.Contains(string(r.stored("web")), `"acknowledged":7`) {
			t.Errorf("stored: %s", r.stored("web"))
		}
		far = insight.Last{Acknowledged: 8, Rejected: []insight.Rejected{{Type: "cds", Resources: []string{"a"}, Error: strings.Repeat("n", 5000)}}}
		r.Disconnected(event("web", 1))
		n, _ := r.Node("default.web")
		if n.Sent != 9 || n.Last.Acknowledged != 8 || len(n.Last.Rejected) != 1 || len(n.Last.Rejected[0].Error) != 1024 {
			t.Errorf("%+v", n)
		}
	})
}

// Whoever watches is woken by what is shown, and by nothing else.
func TestMoves(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		moved := func(what string, want bool, do func()) {
			t.Helper()
			before, c := r.Moves()
			do()
			after, _ := r.Moves()
			select {
			case <-c:
			default:
				if want {
					t.Errorf("%s wakes nobody", what)
				}
			}
			if (before != after) != want {
				t.Errorf("%s counts: %v", what, before != after)
			}
		}
		moved("a connection", true, func() { r.Connected(event("web", 1)) })
		moved("a response", false, func() { r.Sent(typed("web", 1, resource.Cluster)) })
		moved("an end", true, func() { r.Disconnected(event("web", 1)) })
		moved("a refusal", true, func() { r.TurnedAway("default.web", "no", true) })
		moved("the same again", false, func() { r.TurnedAway("default.web", "no", true) })
		moved("another one", true, func() { r.TurnedAway("default.web", "expired", true) })
		moved("a stranger", false, func() { r.TurnedAway("default.x", "expired", true) })
		moved("a removal", true, func() { r.Remove("default.web") })
	})
}
