package main

import (
	"context"
	"errors"

	"github.com/meshgate/meshgate/controlplane/loop"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// progress answers GET /revisions/{revision}.
type progress struct {
	loop      *loop.Loop
	snapshots *snapshot.Store
}

// progressDocument is about the scopes that the write concerned, and no others.
type progressDocument struct {
	Revision  uint64 `json:"revision"`
	Published uint64 `json:"published"`
	Proxies   struct {
		Acknowledged int                  `json:"acknowledged"`
		Waiting      []string             `json:"waiting"`
		Rejected     []snapshot.Rejection `json:"rejected"`
	} `json:"proxies"`
	// Failed is what is not published as it is configured.
	Failed []failedDocument `json:"failed,omitempty"`
}

// failedDocument is one entry of failed.
type failedDocument struct {
	ControlPlane string `json:"controlPlane,omitempty"`
	Mesh         string `json:"mesh,omitempty"`
	Dataplane    string `json:"dataplane,omitempty"`
	// Resource is what failed: plan for a scope as a whole, view where its state
	// cannot be read.
	Resource string `json:"resource"`
	Error    string `json:"error"`
	// Kept says that the last good version is in use.
	Kept bool `json:"lastGoodKept"`
}

// maxFailed bounds the failures that one answer lists.
const maxFailed = 100

// Wait implements adminapi.Progress.
func (p progress) Wait(ctx context.Context, revision uint64) (any, error) {
	scopes, err := p.loop.Concerned(ctx, revision)
	if err != nil && (ctx.Err() == nil || !errors.Is(err, ctx.Err())) {
		return nil, err
	}
	got := snapshot.Progress{Revision: revision, Published: p.loop.Latest()}
	doc := progressDocument{}
	if err == nil { // else the revision does not exist yet
		got = p.snapshots.Wait(ctx, revision, scopes...)
		doc.Failed = failed(p.loop.Failures(scopes...))
	}
	doc.Revision, doc.Published = got.Revision, got.Published
	doc.Proxies.Acknowledged = len(got.Acknowledged)
	doc.Proxies.Waiting, doc.Proxies.Rejected = []string{}, []snapshot.Rejection{}
	doc.Proxies.Waiting = append(doc.Proxies.Waiting, got.Waiting...)
	doc.Proxies.Rejected = append(doc.Proxies.Rejected, got.Rejected...)
	return doc, nil
}

func failed(fs []loop.Failure) (out []failedDocument) {
	for _, f := range fs[:min(len(fs), maxFailed)] {
		out = append(out, failedDocument{f.ControlPlane, f.Mesh, f.Dataplane, f.Cell, f.Err.Error(), f.Kept})
	}
	return out
}
