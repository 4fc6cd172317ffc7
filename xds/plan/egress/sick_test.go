package egress_test

import (
	"errors"
	"log/slog"
	"slices"
	"testing"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/plan/egress"
	"github.com/meshgate/meshgate/xds/resource"
)

// TestMeshThatCannotBePlanned: a mesh for which planning panics keeps what it has at egresses and is
// named, and the plan of other meshes goes on. Otherwise one mesh would hold up all that are left through
// egresses. It is tried again with the next change.
func TestMeshThatCannotBePlanned(t *testing.T) {
	z := outside(t)
	z.Put(mesh.Meshes, "", "bank", through())
	trusting(t, z, "bank", "two")
	z.Put(mesh.ExternalServices, "bank", "mail", external("mail.example:25", service("mail"), nil))
	p := fresh()
	p.Update(z.Write(mesh.ExternalServices, "shop", "mail", external("mail.example:25", service("mail"), nil)))
	has := func(when string, clusters map[string]bool, sick bool) {
		t.Helper()
		set, err := p.Set("127.0.0.1", 10002)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range clusters {
			if got := set.Get(resource.Cluster, name) != nil; got != want {
				t.Errorf("%s: %s is there: %t", when, name, got)
			}
		}
		if set.Get(resource.Secret, mesh.SecretCA("bank")) == nil {
			t.Errorf("%s: the roots of the mesh are not there", when)
		}
		fs := p.Failures()
		if !sick && len(fs) > 0 {
			t.Errorf("%s: failures are %v", when, fs)
		}
		if _, panicked := failedOf(fs); sick && (!panicked || len(fs) != 1 || fs[0].Cell != "mesh bank" || !fs[0].Kept) {
			t.Errorf("%s: failures are %v", when, fs)
		}
	}
	has("at the start", map[string]bool{"bank:mail": true, "bank:files": false, "shop:mail": true, "shop:files": false}, false)

	p.Spoil("bank")
	z.Write(mesh.ExternalServices, "bank", "files", external("files.example:21", service("files"), nil))
	p.Update(z.Write(mesh.ExternalServices, "shop", "files", external("files.example:21", service("files"), nil)))
	has("with a mesh that cannot be planned", map[string]bool{"bank:mail": true, "bank:files": false, "shop:mail": true, "shop:files": true}, true)

	p.Update(z.Write(mesh.ExternalServices, "shop", "more", external("more.example:21", service("more"), nil)))
	has("with the next change", map[string]bool{"bank:mail": true, "bank:files": true, "shop:files": true, "shop:more": true}, false)
}

// TestCopyTriesAMeshAgain: a copy of a planner in which a mesh could not be planned tries it, too.
func TestCopyTriesAMeshAgain(t *testing.T) {
	z := outside(t)
	p := fresh()
	p.Update(z.Write(mesh.ExternalServices, "shop", "mail", external("mail.example:25", service("mail"), nil)))
	p.Spoil("shop")
	p.Update(z.Write(mesh.ExternalServices, "shop", "files", external("files.example:21", service("files"), nil)))
	next := p.Copy()
	next.Update(z.Write(mesh.ExternalServices, "shop", "more", external("more.example:21", service("more"), nil)))
	for planner, want := range map[*egress.Planner]bool{p: false, next: true} {
		set, err := planner.Set("127.0.0.1", 10002)
		if err != nil {
			t.Fatal(err)
		}
		if got := set.Get(resource.Cluster, "shop:files") != nil; got != want {
			t.Errorf("the service is there: %t, want %t", got, want)
		}
		if _, panicked := failedOf(planner.Failures()); panicked == want {
			t.Errorf("failures are %v", planner.Failures())
		}
	}
}

func failedOf(fs []plan.Failure) (*plan.Failed, bool) {
	for _, f := range fs {
		if failed, ok := errors.AsType[*plan.Failed](f.Err); ok {
			return failed, true
		}
	}
	return nil, false
}

// TestBehind: it is known of which meshes egresses keep what they had, so that none of these withdraws a
// root by which egresses judge, or under which they prove who they are.
func TestBehind(t *testing.T) {
	z := outside(t)
	z.Put(mesh.Meshes, "", "bank", through())
	trusting(t, z, "bank", "two")
	p := fresh()
	behind := func(when string, zone *view.Zone, want ...string) {
		t.Helper()
		p.Update(zone)
		if got := p.Behind(); !slices.Equal(got, want) {
			t.Errorf("%s: %v are behind, not %v", when, got, want)
		}
	}
	behind("at the start", z.Write(mesh.ExternalServices, "shop", "mail", external("mail.example:25", service("mail"), nil)))
	p.Spoil("bank")
	trusting(t, z, "bank", "three")
	behind("with a mesh that cannot be planned", z.Write(mesh.ExternalServices, "shop", "files", external("files.example:21", service("files"), nil)), "bank")
	behind("with the next change", z.Write(mesh.ExternalServices, "shop", "more", external("more.example:21", service("more"), nil)))
}

// TestBehindWhatCannotBeRead: a mesh of which a row cannot be read shows an earlier state.
func TestBehindWhatCannotBeRead(t *testing.T) {
	db := &storetest.Unreadable{Store: memstore.New()}
	views := view.New(db, kinds, slog.New(slog.DiscardHandler)).InZone("west")
	t.Cleanup(func() {
		views.Close()
		_ = db.Close()
	})
	storetest.Put(t, db, mesh.ZoneEgresses, "", "out", own())
	storetest.Put(t, db, mesh.Meshes, "", "bank", through())
	trust := func(issuer string) uint64 {
		return storetest.Put(t, db, mesh.Trusts, "bank", "bank", &mesh.Trust{Backend: "ca", Issuer: issuer, Roots: []byte(roots(t))})
	}
	trust("one")
	scope, err := views.OwnZone(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer scope.Release()
	p := fresh()
	behind := func(when string, revision uint64, want ...string) {
		t.Helper()
		z, err := scope.Await(t.Context(), revision, nil)
		if err != nil {
			t.Fatal(err)
		}
		p.Update(z)
		if got := p.Behind(); !slices.Equal(got, want) {
			t.Errorf("%s: %v are behind, not %v", when, got, want)
		}
	}
	behind("at the start", db.Revision())
	db.Spoil(mesh.Trusts, "bank", "bank", true)
	behind("when it cannot be read", trust("two"), "bank")
	db.Spoil(mesh.Trusts, "bank", "bank", false)
	behind("when it can be read again", trust("three"))
}
