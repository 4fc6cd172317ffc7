package publish

import (
	"errors"
	"maps"
	"time"

	"github.com/meshgate/meshgate/xds/plan"
)

// attempt plans all connected proxies, or those alone of which making the set panicked, and notes the
// result.
func (p *zonePlane) attempt(all bool, now time.Time) (out batch) {
	var refused map[string]error
	if err := guard(func() { out, refused = p.plan(all) }); err != nil {
		p.planners, p.again = p.fresh(), retry{} // one may have stopped half-way; all proxies are planned again
		p.retry.failed(err, now)
		p.log.Error("planning the zone failed", "error", err.Error(), "again_in", p.retry.pause.String())
		return nil
	}
	p.retry, p.refused = retry{}, refused
	p.date(out)
	maps.Copy(p.joined, out)
	for _, err := range refused {
		if failed := panicOf(err); failed != nil {
			p.again.failed(failed, now)
			return out
		}
	}
	p.again = retry{}
	return out
}

// date notes since when those who keep their last set lack something, and dates back what the others get after they
// have: until a proxy has confirmed that, it has none of the revisions between. Each has its own date, because the
// scope that tells rotations of them is mended only with the last one.
func (p *zonePlane) date(out batch) {
	for id := range p.refused {
		if _, already := p.overdue[id]; !already {
			p.overdue[id] = p.revision + 1
		}
	}
	for id, lacks := range p.overdue {
		if p.refused[id] != nil {
			continue
		}
		delete(p.overdue, id)
		if out[id] != nil {
			p.standing.date(lacks)
		}
	}
}

// plan plans all connected proxies, or those alone of which making the set panicked. It returns the sets
// that differ, and who keeps its last one: one of which the set cannot be made stops nobody else. One that
// was deleted keeps what it has until it is turned away. The caller notes the result: after a panic, a set
// that was noted and not published would count as what its proxy has.
func (p *zonePlane) plan(all bool) (out batch, refused map[string]error) {
	out, refused = batch{}, map[string]error{}
	if all {
		p.planners.update(p.state)
	}
	for id, before := range p.joined {
		set, err := before, p.refused[id]
		if all || panicOf(err) != nil {
			set, err = p.planners.set(p.state, id)
		}
		if err != nil {
			refused[id] = err
			continue
		}
		if !set.Equal(before) {
			out[id] = set
		}
	}
	p.tell(refused)
	return out, refused
}

// panicOf returns the panic that an error is about, or nil.
func panicOf(err error) *plan.Failed {
	failed, _ := errors.AsType[*plan.Failed](err)
	return failed
}

// tell logs once what panicked. It is a mistake of this program, even where it is contained so that the
// rest of the zone is planned. A proxy of which the set panics again is not told of again, whatever the
// text: attempts go on for as long as the mistake is there.
func (p *zonePlane) tell(refused map[string]error) {
	for id, err := range refused {
		if failed := panicOf(err); failed != nil && panicOf(p.refused[id]) == nil {
			p.log.Error("planning a proxy of the zone failed; it keeps what it has and is planned again after pauses", "node", id, "error", failed.Error())
		}
	}
	before := p.panics
	p.panics = nil
	for _, planner := range p.planners {
		for _, f := range planner.Failures() {
			if panicOf(f.Err) != nil {
				p.panics = append(p.panics, f)
			}
		}
	}
	for _, f := range unheardOf(before, p.panics) {
		p.log.Error("planning a part of the zone failed", "part", f.Cell, "kept_last_good", f.Kept, "error", f.Err.Error())
	}
}
