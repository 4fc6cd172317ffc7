package assembly

import (
	"context"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/nodes"
	"github.com/meshgate/meshgate/controlplane/publish"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// progress answers GET /revisions/{revision}.
type progress struct {
	loop      *publish.Loop
	snapshots *snapshot.Store
	nodes     *nodes.Registry
	// newest returns the newest revision of the store.
	newest func() uint64
}

// progressDocument covers only the scopes that the write concerned.
type progressDocument struct {
	Revision  uint64 `json:"revision"`
	Published uint64 `json:"published"`
	Proxies   struct {
		Acknowledged int                  `json:"acknowledged"`
		Waiting      []string             `json:"waiting"`
		Rejected     []snapshot.Rejection `json:"rejected"`
		// Away counts proxies that are not connected. Nobody waits for them: they get the
		// newest state when they return.
		Away awayDocument `json:"away"`
	} `json:"proxies"`
	// Failed lists what is not published as it is configured.
	Failed []failedDocument `json:"failed,omitempty"`
}

// awayDocument counts proxies and names the first [nodes.MaxAway] of them.
type awayDocument struct {
	Count int      `json:"count"`
	Names []string `json:"names"`
}

// failedDocument is one entry of failed.
type failedDocument struct {
	ControlPlane string `json:"controlPlane,omitempty"`
	Mesh         string `json:"mesh,omitempty"`
	Dataplane    string `json:"dataplane,omitempty"`
	// Resource is what failed: "plan" for a scope as a whole, "view" if its state cannot be
	// read.
	Resource string `json:"resource"`
	Error    string `json:"error"`
	// Kept reports whether the last good version is in use.
	Kept bool `json:"lastGoodKept"`
}

// maxFailed bounds the failures in one answer.
const maxFailed = 100

// textConcealed stands for what the caller may not see.
const textConcealed = "(not shown to you)"

// Wait implements gatewayapi.Progress.
func (p progress) Wait(ctx context.Context, revision uint64, sees func(mesh, controlPlane string) bool) (any, error) {
	scopes, err := p.loop.Concerned(ctx, revision)
	if newest := p.newest(); err != nil && revision > newest {
		// The revision has not been written in time, if it ever will be.
		return nil, fault.New(fault.NotFound, "Revision %d does not exist: the newest is %d", revision, newest)
	}
	if err != nil {
		return nil, err
	}
	concerns, err := p.loop.Concerns(ctx, revision)
	if err != nil {
		return nil, err
	}
	// Settled comes first: before a mesh has taken the state of another control plane, none
	// of its proxies waits for that state.
	unsettled := p.loop.Settled(ctx, revision)
	got := p.snapshots.Wait(ctx, revision, scopes...)
	if unsettled != nil && revision > 0 {
		got.Published = min(got.Published, revision-1)
	}
	doc := progressDocument{Failed: failed(p.loop.Failures(scopes...))}
	away := &doc.Proxies.Away
	if away.Count, away.Names = p.nodes.Away(concerns); away.Names == nil {
		away.Names = []string{}
	}
	doc.Revision, doc.Published = got.Revision, got.Published
	doc.Proxies.Acknowledged = len(got.Acknowledged)
	doc.Proxies.Waiting, doc.Proxies.Rejected = []string{}, []snapshot.Rejection{}
	doc.Proxies.Waiting = append(doc.Proxies.Waiting, got.Waiting...)
	doc.Proxies.Rejected = append(doc.Proxies.Rejected, got.Rejected...)
	doc.conceal(sees)
	return doc, nil
}

// conceal replaces what belongs to meshes and control planes that are not seen. All stays
// counted, so that nobody takes for done what is not.
func (d *progressDocument) conceal(sees func(mesh, controlPlane string) bool) {
	seen := func(node string) bool { return sees(nodes.ScopeOf(node)) }
	for i, node := range d.Proxies.Waiting {
		if !seen(node) {
			d.Proxies.Waiting[i] = textConcealed
		}
	}
	for i, r := range d.Proxies.Rejected {
		if !seen(r.Name) {
			d.Proxies.Rejected[i] = snapshot.Rejection{Name: textConcealed, Error: textConcealed}
		}
	}
	for i, node := range d.Proxies.Away.Names {
		if !seen(node) {
			d.Proxies.Away.Names[i] = textConcealed
		}
	}
	for i, f := range d.Failed {
		if !sees(f.Mesh, f.ControlPlane) {
			d.Failed[i] = failedDocument{Resource: textConcealed, Error: textConcealed, Kept: f.Kept}
		}
	}
}

func failed(fs []publish.Failure) (out []failedDocument) {
	for _, f := range fs[:min(len(fs), maxFailed)] {
		out = append(out, failedDocument{f.ControlPlane, f.Mesh, f.Dataplane, f.Cell, f.Err.Error(), f.Kept})
	}
	return out
}
