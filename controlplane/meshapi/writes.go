package meshapi

import (
	"net/http"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
)

// The texts of refused writes; a reader learns from them where the resource is written.
const (
	textReadOnly = "On zone control plane you can only modify zone resources with 'meshgate apply' or via the HTTP API. " +
		"You can still use 'meshgate' or the HTTP API to modify the rest of the resource on the global control plane.\n"
	textGlobal = "On global control plane you can not modify dataplane resources with 'meshgate apply' or via the HTTP API. " +
		"You can still use 'meshgate' or the HTTP API to modify them on the zone control plane.\n"
	textNative = "On Kubernetes you cannot modify resources with 'meshgate apply' or via the HTTP API. " +
		"This control plane does not read them from Kubernetes yet: start it with environment universal to modify them.\n"
)

// Writes says which documents can be written through the API. Tokens are issued in any case.
type Writes struct {
	// ReadOnly refuses every PUT and DELETE.
	ReadOnly bool
	// Native refuses them, too: documents are written through an orchestrator.
	Native bool
	// Global and Zone say that there are several zones, and that this is the control plane above
	// them or that of one of them. At most one of them is set.
	Global, Zone bool
}

// onlyRead is the text for what is never written.
func (w *Writes) onlyRead() string {
	if w.Global {
		return textGlobal
	}
	return textReadOnly
}

// closed returns why the documents of the kind cannot be written here, or nothing. A zone may
// have policies of its own if they choose proxies by a reference; the others come from above.
func (c collection) closed() string {
	w, by := &c.api.Writes, c.kind.Document.Written
	switch {
	case c.kind.ReadOnly, w.ReadOnly:
		return w.onlyRead()
	case w.Native:
		return textNative
	case w.Global && by == model.ByZones:
		return textGlobal
	case w.Zone && by == model.ByGlobal && !wrapped(c.kind):
		return textReadOnly
	}
	return ""
}

// refuse returns a handler that answers writes of what cannot be written here.
func refuse(why string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		fail(w, r, operation{}, fault.New(fault.Unsupported, "%s", why))
	}
}
