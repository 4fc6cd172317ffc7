package meshapi

import (
	"context"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// always allows every write.
func always(store.Reader, *model.Resource) error { return nil }

// ring is a keyring with two keys of node tokens, of which the second is needed.
type ring struct{ uses *identity.Uses }

func (ring) List(context.Context) ([]Key, error) {
	since, until := start, start.Add(24*time.Hour)
	return []Key{
		{Kind: "control-plane-ca", Name: "1f", Purpose: "signs", Algorithm: "ECDSA P-256", State: "active", Since: &since, Expires: &until, InUse: "2 nodes", Next: "by hand"},
		{Kind: "dataplane-tokens", Name: "1", Mesh: "m", Purpose: "signs tokens", Algorithm: "RS256", State: "accepted", Next: "by hand"},
	}, nil
}

func (ring) Rotate(_ context.Context, kind string, r KeyRotation) (string, error) {
	switch {
	case kind != "dataplane-tokens":
		return "", fault.New(fault.NotFound, "there is no kind of keys %q", kind)
	case r.Mesh == "":
		return "", fault.Violated([]fault.Violation{{Path: "mesh", Message: "is needed"}})
	}
	if r.Compromised {
		return "key 2 of mesh " + r.Mesh + " signs from now on, key 1 is withdrawn", nil
	}
	return "key 2 of mesh " + r.Mesh + " signs from now on", nil
}

func (ring) Delete(_ context.Context, _, name string, force bool) error {
	if name == "2" && !force {
		return fault.New(fault.Conflict, "key 2 is in use by the tokens of 1 node (cp/default/gw)")
	}
	return nil
}

func (r ring) MayRemove(reader store.Reader, stored *model.Resource) error {
	return r.uses.MayRemove(reader, stored)
}

// TestSigningKeysAreKept: the last signing key of a mesh, and one that is in use, can be
// deleted or replaced only with force.
func TestSigningKeysAreKept(t *testing.T) {
	now := start
	uses := identity.NewUses(func() time.Time { return now })
	now = now.Add(time.Minute)
	a := newAPI(t, func(o *Options) { o.Keys = ring{uses} })
	a.put(t, "/meshes/m", `{"type":"Mesh","name":"m"}`)
	path := func(serial string) string { return "/meshes/m/secrets/dataplane-token-signing-key-m-" + serial }
	doc := func(serial, data string) string {
		return `{"type":"Secret","mesh":"m","name":"dataplane-token-signing-key-m-` + serial + `","data":"` + base64.StdEncoding.EncodeToString([]byte(data)) + `"}`
	}
	a.put(t, path("1"), doc("1", "one"))
	expect := func(when, method, path, body string, status int, detail string) {
		t.Helper()
		rec := request(a.handler, method, path, body, "Content-Type", mediaJSON)
		if rec.Code != status || !strings.Contains(rec.Body.String(), detail) {
			t.Errorf("%s: %d %s", when, rec.Code, rec.Body)
		}
	}
	expect("the last one", http.MethodDelete, path("1"), "", 409, "signing key 1 of mesh m is the last one")
	expect("replacing it", http.MethodPut, path("1"), doc("1", "two"), 409, "?force=true")
	expect("the same again", http.MethodPut, path("1"), doc("1", "one"), 200, "")
	expect("a word", http.MethodDelete, path("1")+"?force=please", "", 400, "must be true or false")
	a.put(t, path("2"), doc("2", "two"))
	uses.Linked("m.web", "1", now.Add(time.Hour))
	expect("in use", http.MethodDelete, path("1"), "", 409, "in use by the tokens of 1 node (m.web)")
	expect("not in use", http.MethodDelete, path("2"), "", 200, "")
	a.put(t, path("2"), doc("2", "two"))
	expect("insisting", http.MethodDelete, path("1")+"?force=true", "", 200, "")
	a.put(t, "/meshes/m/secrets/other", strings.ReplaceAll(doc("", "x"), "dataplane-token-signing-key-m-", "other"))
	expect("another secret", http.MethodDelete, "/meshes/m/secrets/other", "", 200, "")
}
