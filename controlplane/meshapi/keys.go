package meshapi

import (
	"bytes"
	"context"
	"crypto/subtle"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// The names for administrators of the kinds of keys that can be rotated.
const (
	KeysNodeTokens      = "node-tokens"
	KeysDataplaneTokens = "dataplane-tokens"
	KeysUserTokens      = "user-tokens"
	KeysZoneTokens      = "zone-tokens"
	// KeysZoneIngressTokens are those of the older tokens of ingresses.
	KeysZoneIngressTokens = "zone-ingress-tokens"
	KeysEncryption        = "encryption"
	KeysAuthority         = "control-plane-ca"
	// KeysAudit are those that sign the audit log.
	KeysAudit = "audit-log"
)

// Rotatable are the kinds of keys that can be rotated.
var Rotatable = []string{KeysNodeTokens, KeysDataplaneTokens, KeysUserTokens, KeysZoneTokens, KeysZoneIngressTokens, KeysEncryption, KeysAuthority, KeysAudit}

// Withdrawable lists the kinds of keys that sign tokens or events: all of a kind can be withdrawn in
// one step.
var Withdrawable = []string{KeysNodeTokens, KeysDataplaneTokens, KeysUserTokens, KeysZoneTokens, KeysZoneIngressTokens, KeysAudit}

// Key describes a key for an administrator. It holds nothing secret.
type Key struct {
	// Kind is the kind that is given to rotate it; see [Keyring].
	Kind string `json:"kind"`
	// Name distinguishes it from others of its kind. Mesh is the mesh that it belongs to.
	Name string `json:"name"`
	Mesh string `json:"mesh,omitempty"`
	// ControlPlane is the name of the control plane that it belongs to, if there are several.
	ControlPlane string `json:"controlPlane,omitempty"`
	// Purpose and Algorithm describe its use.
	Purpose   string `json:"purpose"`
	Algorithm string `json:"algorithm"`
	// State is "active" for the key that is used from now on, "accepted" for one that is
	// still valid for what was made with it, "compromised" for one that is valid for nothing,
	// or another state.
	State string `json:"state"`
	// Since and Expires are absent if they are unknown, or if the key does not expire.
	Since   *time.Time `json:"since,omitempty"`
	Expires *time.Time `json:"expires,omitempty"`
	// InUse says how much still uses it, if that is known.
	InUse string `json:"inUse,omitempty"`
	// Next says when and how it is rotated.
	Next string `json:"next"`
}

// KeyRotation is the request for a rotation.
type KeyRotation struct {
	// Mesh is the mesh whose key is rotated, for keys of meshes.
	Mesh string `json:"mesh,omitempty"`
	// ForgetOld drops old encryption keys once nothing needs them. Backups that were made
	// before cannot be restored any more.
	ForgetOld bool `json:"forgetOld,omitempty"`
	// Compromised withdraws all keys of a kind that signs tokens or events. From then on their
	// tokens are neither accepted nor exchanged, and no key that verifies their events is
	// published.
	Compromised bool `json:"compromised,omitempty"`
	// Force takes a step in the replacement of the authority even if it cuts off nodes.
	Force bool `json:"force,omitempty"`
}

// Keyring manages the keys of the control plane.
type Keyring interface {
	// List lists all keys.
	List(ctx context.Context) ([]Key, error)
	// Rotate begins the rotation of a kind of keys and says what happens next. Its faults are
	// NotFound for an unknown kind or mesh, Invalid for options that do not belong to the
	// kind, and Conflict if the rotation cannot begin now.
	Rotate(ctx context.Context, kind string, r KeyRotation) (said string, err error)
	// Delete deletes a key of node tokens or of the audit log. The error is Conflict if it is
	// needed, unless force is set, and for the key that signs the audit log in any case; force is Invalid there.
	Delete(ctx context.Context, kind, name string, force bool) error
	// MayRemove returns a Conflict for a secret that holds a needed key.
	MayRemove(r store.Reader, stored *model.Resource) error
}

var opKey = operation{"Could not change a key", map[fault.Code]row{fault.NotFound: {status: http.StatusNotFound}}}

// keys returns the endpoints about keys, for administrators only.
func (a *API) keys() []httpkit.Endpoint {
	if a.Keys == nil {
		return nil
	}
	route := func(method, pattern, summary string, h http.HandlerFunc, c httpkit.Contract, failures ...int) httpkit.Endpoint {
		return about("keys", does(endpoint(method, pattern, httpkit.Administrator, summary, mediaJSON, h), c, failures...)).Closed()
	}
	return []httpkit.Endpoint{
		route(http.MethodGet, "/keys", "List every key, without anything secret", a.listKeys, shows(schemaKeys)),
		route(http.MethodPost, "/keys/{kind}/rotate", "Begin the rotation of a key", a.rotateKey, httpkit.Contract{
			Body: schemaRotation, Answers: map[int]string{http.StatusOK: schemaMessage},
		}, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusConflict),
		route(http.MethodDelete, "/keys/{kind}/{name}", "Delete a key that signed tokens or events", a.deleteKey, shows("", paramForce), http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusConflict),
	}
}

func (a *API) listKeys(w http.ResponseWriter, r *http.Request) {
	keys, err := a.Keys.List(r.Context())
	if err != nil {
		fail(w, r, opList, err)
		return
	}
	reply(w, r, http.StatusOK, struct {
		Total int   `json:"total"`
		Items []Key `json:"items"`
	}{len(keys), keys})
}

// rotateKey accepts an empty body. Keys that are documents are rotated where these can be written. They
// are withdrawn everywhere: tokens are issued everywhere, and a stolen key has to be ended where its
// tokens count.
func (a *API) rotateKey(w http.ResponseWriter, r *http.Request) {
	raw, err := body(w, r)
	if err != nil {
		fail(w, r, opDecode, err)
		return
	}
	var in KeyRotation
	if len(bytes.TrimSpace(raw)) > 0 {
		if err := httpkit.DecodeObject(raw, &in); err != nil {
			fail(w, r, opKey, fault.Wrap(fault.Invalid, err, "the request cannot be read: %s", err))
			return
		}
	}
	kind, said := r.PathValue("kind"), ""
	if !in.Compromised {
		err = a.Writes.check(heldBy(kind))
	}
	if err == nil {
		said, err = a.Keys.Rotate(r.Context(), kind, in)
	}
	if err != nil {
		fail(w, r, opKey, err)
		return
	}
	reply(w, r, http.StatusOK, map[string]string{"message": said})
}

func (a *API) deleteKey(w http.ResponseWriter, r *http.Request) {
	kind := r.PathValue("kind")
	force, err := forced(r)
	if err == nil {
		err = a.Writes.check(heldBy(kind))
	}
	if err == nil {
		err = a.Keys.Delete(r.Context(), kind, r.PathValue(pathName), force)
	}
	if err != nil {
		fail(w, r, opKey, err)
		return
	}
	empty(w, http.StatusOK)
}

// forced reads the parameter force.
func forced(r *http.Request) (bool, error) {
	text := r.URL.Query().Get("force")
	if text == "" {
		return false, nil
	}
	force, err := strconv.ParseBool(text)
	if err != nil {
		return false, fault.New(fault.Invalid, "the parameter force must be true or false")
	}
	return force, nil
}

// allowed returns a check that protects needed keys from being deleted or replaced by
// mistake. A document that refers to secrets is for those who may read them: its author decides
// where they are used.
func (c collection) allowed(r *http.Request, spec any) (admit.Allowed, error) {
	force, err := forced(r)
	if err != nil {
		return nil, err
	}
	if err := c.mayRefer(r, spec); err != nil {
		return nil, err
	}
	names := c.mayName(r, spec)
	return func(reader store.Reader, stored *model.Resource) error {
		if err := names(stored); err != nil {
			return err
		}
		if force || stored == nil || c.kind != mesh.Secrets && c.kind != mesh.GlobalSecrets || c.api.Keys == nil {
			return nil
		}
		have, readable := stored.Spec.(*mesh.Secret)
		if s, ok := spec.(*mesh.Secret); ok && readable && subtle.ConstantTimeCompare(s.Data, have.Data) == 1 {
			return nil
		}
		return c.api.Keys.MayRemove(reader, stored)
	}, nil
}

// mayName returns a check that returns Forbidden for a document that brings a host name to all meshes
// whose author may not write in all of them. A name that it brought before may stay.
func (c collection) mayName(r *http.Request, spec any) func(stored *model.Resource) error {
	type naming interface{ CrossHosts() []string }
	s, names := spec.(naming)
	if !names || c.api.may(r, access.Write, access.Scope{}) {
		return func(*model.Resource) error { return nil }
	}
	return func(stored *model.Resource) error {
		var had []string
		if stored != nil {
			if before, readable := stored.Spec.(naming); readable {
				had = before.CrossHosts()
			}
		}
		for _, host := range s.CrossHosts() {
			if !slices.Contains(had, host) {
				return fault.New(fault.Forbidden, "user %q cannot bring the name %s to all meshes (crossMesh): this is for those who may write in all of them; without a hostname the listener is called by tags", httpkit.CallerOf(r), host)
			}
		}
		return nil
	}
}

// mayRefer returns Forbidden for a document that refers to what its author may not read: to
// secrets of its mesh, or to files of the control plane, which belong to no mesh.
func (c collection) mayRefer(r *http.Request, spec any) error {
	who := httpkit.CallerOf(r)
	if s, refers := spec.(interface{ SecretNames() []string }); refers && len(s.SecretNames()) > 0 && !c.api.may(r, access.AdminResources, c.scope(r)) {
		return fault.New(fault.Forbidden, "user %q cannot refer to secrets", who)
	}
	s, refers := spec.(interface{ FileMembers() []string })
	if !refers || c.api.may(r, access.Administrator, access.Scope{}) {
		return nil
	}
	if files := s.FileMembers(); len(files) > 0 {
		return fault.New(fault.Forbidden, "user %q cannot have a file of the control plane read (%s): this is for administrators of everything; a secret can hold the same", who, files[0])
	}
	return nil
}
