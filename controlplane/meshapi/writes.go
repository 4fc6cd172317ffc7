package meshapi

import (
	"net/http"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
)

// The texts of refused writes; a reader learns from them where the resource is written.
const (
	textReadOnly = "On zone control plane you can only modify zone resources with 'meshgate mesh sync' or via the HTTP API. " +
		"You can still use 'meshgate' or the HTTP API to modify the rest of the resource on the global control plane.\n"
	textGlobal = "On global control plane you can not modify dataplane resources with 'meshgate mesh sync' or via the HTTP API. " +
		"You can still use 'meshgate' or the HTTP API to modify them on the zone control plane.\n"
	textNative = "On Kubernetes you cannot modify resources with 'meshgate mesh sync' or via the HTTP API. " +
		"This control plane does not read them from Kubernetes yet: start it with environment universal to modify them.\n"
)

// Writes says which documents can be written through the API. Tokens are issued and ended in any case.
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

// closed returns why operators cannot write documents of a kind here, or nothing. A zone may have
// policies of its own if they choose proxies by a reference; the others come from above.
//
// This is the only place that decides it. Whatever writes a document for an operator asks here, also
// where its path does not name the kind: otherwise a resource that cannot be deleted at its own path
// is deleted at another one.
func (w *Writes) closed(k *model.Kind) string {
	switch by := k.Document.Written; {
	case k.ReadOnly, w.ReadOnly:
		return w.onlyRead()
	case w.Native:
		return textNative
	case w.Global && by == model.ByZones:
		return textGlobal
	case w.Zone && by == model.ByGlobal && !wrapped(k):
		return textReadOnly
	}
	return ""
}

// check returns closed as an Unsupported fault. Where there is no kind, or one that is not written as
// documents, there is nothing to refuse.
func (w *Writes) check(k *model.Kind) error {
	if k == nil || k.Document == nil {
		return nil
	}
	if why := w.closed(k); why != "" {
		return fault.New(fault.Unsupported, "%s", why)
	}
	return nil
}

// heldBy returns the kind of the documents that hold the keys of one of [Rotatable]. It is nil for keys
// that are no documents: they are this control plane's own.
func heldBy(keys string) *model.Kind {
	switch keys {
	case KeysDataplaneTokens:
		return mesh.Secrets
	case KeysUserTokens, KeysZoneTokens, KeysZoneIngressTokens:
		return mesh.GlobalSecrets
	}
	return nil
}

// refuse returns a handler that answers writes of what cannot be written here.
func refuse(why string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		fail(w, r, operation{}, fault.New(fault.Unsupported, "%s", why))
	}
}
