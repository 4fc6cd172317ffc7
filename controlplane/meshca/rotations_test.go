package meshca

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/identity/identitytest"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/seal"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
	"github.com/meshgate/meshgate/xds/pemtext"
)

func TestRotationThreeTimes(t *testing.T) {
	rotationBubble(t, func(rt *rotationTest) {
		old := rt.pair()
		rt.builtin("m", "a", "b")
		rt.ask("m", old)
		rt.expect("m", old, old)
		rt.confirmAll("m", "a", "b")
		for range 3 {
			next := rt.pair()
			rt.ask("m", next)
			rt.expect("m", old, old, next)
			rt.confirmAll("m", "a")
			rt.expect("m", old, old, next)
			rt.confirmAll("m", "b")
			rt.expect("m", next, old, next)
			rt.confirmAll("m", "a")
			rt.expect("m", next, old, next)
			rt.confirmAll("m", "b")
			rt.expect("m", next, next)
			old = next
		}
		steps := rt.history.all()
		if n := len(steps); n != 10 {
			rt.t.Errorf("%d steps were taken, not 10", n)
		}
		// The first trust, then three steps for each of three rotations, the last of which
		// removes a root.
		for i, step := range steps {
			if step.Withdrawn != uint64(i/3) {
				rt.t.Errorf("at step %d roots were withdrawn %d times", i, step.Withdrawn)
			}
		}
		rt.noGap()
		if n := rt.log.count(); n != 0 {
			rt.t.Errorf("%d warnings: %q", n, rt.log.texts)
		}
	})
}

// TestRotationResumes ends the process in each state and starts another one on the same
// file.
func TestRotationResumes(t *testing.T) {
	for crash := range 4 {
		dir := t.TempDir()
		keys, err := seal.Make(filepath.Join(dir, "encryption.key"), "")
		if err != nil {
			t.Fatal(err)
		}
		open := func() store.Store {
			s, err := sqlstore.Open(context.Background(), sqlstore.Options{
				Path: filepath.Join(dir, "meshgate.db"), Kinds: append(Kinds(), mesh.Kinds()...), Sealer: keys, Log: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		synctest.Test(t, func(t *testing.T) {
			rt := newRotationTest(t, open())
			defer func() { rt.close() }()
			rt.resume(crash, func() {
				rt.close()
				rt.open(open())
			})
		})
	}
}

// resume rotates once. In the state with number crash it calls restart.
func (rt *rotationTest) resume(crash int, restart func()) {
	old, next := rt.pair(), rt.pair()
	step := 0
	done := func() {
		if step == crash {
			restart()
		}
		step++
	}
	rt.builtin("m", "a")
	rt.ask("m", old)
	done()
	rt.confirmAll("m", "a")
	rt.ask("m", next)
	done()
	rt.expect("m", old, old, next)
	rt.confirmAll("m", "a")
	done()
	rt.expect("m", next, old, next)
	rt.confirmAll("m", "a")
	done()
	rt.expect("m", next, next)
	if n := len(rt.history.all()); n != 4 {
		rt.t.Errorf("crash at %d: %d steps were taken, not 4", crash, n)
	}
	rt.noGap()
}

// TestRotationByTwo runs two processes on one store: a step that one has taken is not taken
// again.
func TestRotationByTwo(t *testing.T) {
	rotationBubble(t, func(rt *rotationTest) {
		old, next := rt.pair(), rt.pair()
		rt.builtin("m", "a")
		rt.ask("m", old)
		rt.confirmAll("m", "a")
		first := rt.stop
		rt.ask("m", next)
		rt.start()
		rt.expect("m", old, old, next)
		rt.confirmAll("m", "a")
		rt.expect("m", next, old, next)
		rt.confirmAll("m", "a")
		rt.expect("m", next, next)
		first()
	})
}

// TestRotationMissesNothing changes the pair while the mesh is being read.
func TestRotationMissesNothing(t *testing.T) {
	rotationBubble(t, func(rt *rotationTest) {
		old, next := rt.pair(), rt.pair()
		var once sync.Once
		rt.now = func() time.Time {
			once.Do(func() {
				rt.set(mesh.Secrets, "m", mesh.BuiltinCert("m", "ca"), &mesh.Secret{Data: next.Certificate})
				rt.set(mesh.Secrets, "m", mesh.BuiltinKey("m", "ca"), &mesh.Secret{Data: next.Key})
				rt.r.Changed("m")
			})
			return time.Now()
		}
		rt.builtin("m", "a")
		rt.progress.confirm("m", "a", 0)
		rt.ask("m", old)
		rt.expect("m", old, old, next)
	})
}

// TestRotationWhileDown changes the pair, and lets the proxies confirm, while no control
// plane runs.
func TestRotationWhileDown(t *testing.T) {
	rotationBubble(t, func(rt *rotationTest) {
		old, next := rt.pair(), rt.pair()
		rt.builtin("m", "a")
		rt.ask("m", old)
		rt.confirmAll("m", "a")
		rt.stop()
		rt.ask("m", next)
		rt.expect("m", old, old)
		rt.start()
		rt.expect("m", old, old, next)
		rt.stop()
		rt.confirmAll("m", "a")
		rt.expect("m", old, old, next)
		rt.start()
		rt.expect("m", next, old, next)
	})
}

func TestRotationOfMismatchedPair(t *testing.T) {
	rotationBubble(t, func(rt *rotationTest) {
		old, next := rt.pair(), rt.pair()
		rt.builtin("m", "a")
		rt.set(mesh.Secrets, "m", mesh.BuiltinCert("m", "ca"), &mesh.Secret{Data: old.Certificate})
		rt.changed("m")
		if tr, _ := rt.trust("m"); tr != nil {
			rt.t.Fatal("an authority without a key is trusted")
		}
		rt.ask("m", old)
		rt.confirmAll("m", "a")
		before := rt.log.count()
		rt.set(mesh.Secrets, "m", mesh.BuiltinCert("m", "ca"), &mesh.Secret{Data: next.Certificate})
		rt.changed("m")
		rt.changed("m")
		rt.expect("m", old, old)
		if n := rt.log.count() - before; n != 1 {
			rt.t.Errorf("%d warnings, not 1", n)
		}
		rt.ask("m", next)
		rt.expect("m", old, old, next)
	})
}

func TestRotationRefusesCertificatesOutOfTime(t *testing.T) {
	rotationBubble(t, func(rt *rotationTest) {
		old, short := rt.pair(), func() *identity.KeyPair {
			cert, key, err := GenerateRoot("m", "ca", &mesh.AuthorityConf{CACert: &mesh.CACert{Expiration: "1h"}})
			rt.must(err)
			return &identity.KeyPair{Certificate: cert, Key: key}
		}()
		rt.builtin("m")
		rt.ask("m", old)
		time.Sleep(2 * time.Hour)
		rt.ask("m", short)
		rt.expect("m", old, old)

		parent, signer := rt.parsed(old)
		parent.NotBefore = time.Now().Add(time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, parent, parent, signer.Public(), signer)
		rt.must(err)
		later := &identity.KeyPair{Certificate: pemtext.Certificate(der), Key: old.Key}
		rt.ask("m", later)
		rt.expect("m", old, old)
		time.Sleep(time.Hour)
		synctest.Wait()
		if got, _ := rt.trust("m"); got.Issuer != identity.Issuer(later.Certificate) {
			rt.t.Error("a certificate that became valid was not taken")
		}
	})
}

// TestRotationRefusesChainsOutOfTime: an intermediate after the certificate that signs ends or
// begins at another time than that certificate. With every pair that is taken, a certificate
// can be signed.
func TestRotationRefusesChainsOutOfTime(t *testing.T) {
	rotationBubble(t, func(rt *rotationTest) {
		time.Sleep(time.Until(identitytest.Epoch))
		root := newCA(t, "root", 1000*time.Hour, nil)
		lower := func(parent *ca) identity.KeyPair {
			return newCA(t, "lower", 1000*time.Hour, parent).pair(t, parent, root)
		}
		old := rt.pair()
		rt.builtin("m", "a")
		rt.ask("m", old)
		rt.confirmAll("m", "a")

		ended := lower(newCA(t, "ended", -time.Minute, root))
		rt.ask("m", &ended)
		rt.expect("m", old, old)

		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		rt.must(err)
		early := lower(newCAFrom(t, "early", time.Now().Add(time.Hour), 1000*time.Hour, root, key))
		rt.ask("m", &early)
		rt.expect("m", old, old)
		if n := rt.log.count(); n != 2 {
			rt.t.Errorf("%d warnings: %q", n, rt.log.texts)
		}

		time.Sleep(time.Hour)
		synctest.Wait()
		rt.expect("m", old, old, &early)
		rt.confirmAll("m", "a")
		rt.expect("m", &early, old, &early)
		p, err := parseAuthority(&early)
		rt.must(err)
		rt.must(p.valid(time.Now()))
	})
}

func TestRotationBack(t *testing.T) {
	for _, signs := range []bool{false, true} {
		rotationBubble(t, func(rt *rotationTest) {
			old, next := rt.pair(), rt.pair()
			rt.builtin("m", "a")
			rt.ask("m", old)
			rt.confirmAll("m", "a")
			rt.ask("m", next)
			if signs {
				rt.confirmAll("m", "a")
				rt.expect("m", next, old, next)
				rt.ask("m", old)
				rt.expect("m", next, old, next)
				rt.confirmAll("m", "a")
			} else {
				rt.expect("m", old, old, next)
				rt.ask("m", old)
			}
			rt.confirmAll("m", "a")
			rt.expect("m", old, old)
			if a := rt.state("m"); a.Phase != "" || a.Pending != nil || len(a.Previous) > 0 {
				rt.t.Errorf("rotation is still in phase %q", a.Phase)
			}
			rt.noGap()
		})
	}
}

// TestRotationLatestWins asks for a third authority in each phase of the rotation to the
// second.
func TestRotationLatestWins(t *testing.T) {
	rotationBubble(t, func(rt *rotationTest) {
		a, b, c := rt.pair(), rt.pair(), rt.pair()
		rt.builtin("m", "x")
		rt.ask("m", a)
		rt.confirmAll("m", "x")
		rt.ask("m", b)
		rt.ask("m", c)
		rt.expect("m", a, a, c)
		rt.confirmAll("m", "x")
		rt.expect("m", c, a, c)
		rt.ask("m", b)
		rt.expect("m", c, a, b, c)
		rt.confirmAll("m", "x")
		rt.expect("m", b, a, b, c)
		rt.ask("m", a)
		rt.ask("m", b)
		rt.expect("m", b, a, b, c)
		rt.confirmAll("m", "x")
		rt.expect("m", b, b)
		rt.noGap()
	})
}

func TestRotationDoesNotHoldUpOthers(t *testing.T) {
	rotationBubble(t, func(rt *rotationTest) {
		a, b := rt.pair(), rt.pair()
		for _, m := range []string{"m", "n"} {
			rt.builtin(m, "x")
			rt.ask(m, a)
			rt.confirmAll(m, "x")
			rt.ask(m, b)
		}
		rt.confirmAll("n", "x")
		rt.confirmAll("n", "x")
		rt.expect("n", b, b)
		rt.expect("m", a, a, b)
	})
}

// TestRotationWaitsForAbsent: the old root stays for a dataplane that is away.
func TestRotationWaitsForAbsent(t *testing.T) {
	for name, end := range map[string]func(rt *rotationTest){
		"returns": func(rt *rotationTest) {
			_, rev := rt.trust("m")
			rt.progress.confirm("m", "away", rev)
			rt.r.ProxiesChanged("m")
		},
		"is deleted": func(rt *rotationTest) {
			rt.set(mesh.Dataplanes, "m", "away", nil)
			rt.r.ProxiesChanged("m")
		},
		"is deleted, seen as a change": func(rt *rotationTest) {
			rt.set(mesh.Dataplanes, "m", "away", nil)
			rt.r.Changed("m")
		},
		"lets its certificate expire": func(*rotationTest) { time.Sleep(identity.Backdate) },
	} {
		t.Run(name, func(t *testing.T) {
			rotationBubble(t, func(rt *rotationTest) {
				a, b := rt.pair(), rt.pair()
				rt.builtin("m", "here", "away")
				rt.ask("m", a)
				rt.confirmAll("m", "here")
				rt.ask("m", b)
				rt.confirmAll("m", "here")
				rt.confirmAll("m", "here")
				time.Sleep(WorkloadLife - time.Minute)
				rt.r.ProxiesChanged("m")
				rt.changed("m")
				rt.expect("m", b, a, b)
				time.Sleep(time.Minute)
				end(rt)
				synctest.Wait()
				rt.expect("m", b, b)
			})
		})
	}
}

// TestRotationWaitsForLatecomer: the last dataplane comes and goes while the others have
// confirmed. It counts once it has confirmed as well.
func TestRotationWaitsForLatecomer(t *testing.T) {
	connect := func(rt *rotationTest) { rt.progress.confirm("m", "late", 0) }
	leave := func(rt *rotationTest) { rt.progress.disconnect("m", "late") }
	pass := func(rt *rotationTest) {
		connect(rt)
		go leave(rt)
	}
	for name, hooks := range map[string]struct{ confirmed, settled func(*rotationTest) }{
		"before the second wait":          {connect, func(*rotationTest) {}},
		"after the second wait":           {func(*rotationTest) {}, connect},
		"and leaves":                      {pass, func(*rotationTest) {}},
		"and its stream breaks meanwhile": {pass, connect},
	} {
		t.Run(name, func(t *testing.T) {
			rotationBubble(t, func(rt *rotationTest) {
				a, b := rt.pair(), rt.pair()
				rt.builtin("m", "here", "late")
				rt.ask("m", a)
				rt.confirmAll("m", "here")
				rt.ask("m", b)
				rt.confirmAll("m", "here")
				rt.progress.onConfirmed = []func(){func() { hooks.confirmed(rt) }}
				rt.progress.onSettled = []func(){func() { hooks.settled(rt) }}
				rt.confirmAll("m", "here")
				rt.expect("m", b, a, b)
				rt.r.ProxiesChanged("m")
				synctest.Wait()
				rt.expect("m", b, a, b)
				rt.confirmAll("m", "late")
				rt.r.ProxiesChanged("m")
				synctest.Wait()
				rt.expect("m", b, b)
			})
		})
	}
}

// TestRotationWithoutAnswer: the old root is dropped in time even though a connected proxy
// never confirms, because the certificate that the proxy may hold has expired.
func TestRotationWithoutAnswer(t *testing.T) {
	rotationBubble(t, func(rt *rotationTest) {
		a, b := rt.pair(), rt.pair()
		rt.builtin("m", "x")
		rt.ask("m", a)
		rt.confirmAll("m", "x")
		rt.ask("m", b)
		rt.confirmAll("m", "x")
		time.Sleep(WorkloadLife + identity.Backdate)
		synctest.Wait()
		rt.expect("m", b, b)
		if a := rt.state("m"); a.Phase != "" {
			rt.t.Errorf("the rotation is still in phase %q", a.Phase)
		}
	})
}

func TestRotationWithTLSOff(t *testing.T) {
	rotationBubble(t, func(rt *rotationTest) {
		a, b := rt.pair(), rt.pair()
		rt.builtin("m", "x")
		rt.ask("m", a)
		rt.confirmAll("m", "x")
		rt.ask("m", b)
		rt.set(mesh.Meshes, "", "m", &mesh.Mesh{})
		rt.changed("m")
		rt.confirmAll("m", "x")
		rt.changed("m")
		rt.expect("m", a, a, b)

		cert, key := string(a.Certificate), string(a.Key)
		rt.set(mesh.Meshes, "", "m", &mesh.Mesh{MTLS: &mesh.MTLS{EnabledBackend: "own", Backends: []mesh.Authority{{
			Name: "own", Type: mesh.AuthorityProvided,
			Conf: &mesh.AuthorityConf{Cert: &mesh.DataSource{InlineString: &cert}, Key: &mesh.DataSource{InlineString: &key}},
		}}}})
		rt.changed("m")
		got, _ := rt.trust("m")
		want := (&Authority{Backend: "own", Current: *a}).trust()
		want.Withdrawn = 1 // b, which has signed nothing
		if diff := cmp.Diff(want, got); diff != "" {
			rt.t.Error(diff)
		}
	})
}

func TestRotationOfDeletedMesh(t *testing.T) {
	rotationBubble(t, func(rt *rotationTest) {
		rt.builtin("m", "x")
		rt.ask("m", rt.pair())
		rt.confirmAll("m", "x")
		rt.ask("m", rt.pair())
		rt.set(mesh.Meshes, "", "m", nil)
		rt.set(mesh.Trusts, "m", "m", nil)
		rt.set(Authorities, "m", "m", nil)
		rt.changed("m")
		if tr, _ := rt.trust("m"); tr != nil {
			rt.t.Error("a mesh that is gone is trusted again")
		}
	})
}

// TestRotationRetries: the progress fails.
func TestRotationRetries(t *testing.T) {
	rotationBubble(t, func(rt *rotationTest) {
		a, b := rt.pair(), rt.pair()
		rt.builtin("m", "x")
		rt.ask("m", a)
		rt.confirmAll("m", "x")
		rt.progress.change(func() { rt.progress.fail = errors.New("away") })
		rt.ask("m", b)
		time.Sleep(2*firstRetry + firstRetry/2)
		synctest.Wait()
		if n := rt.log.count(); n != 2 {
			rt.t.Errorf("%d errors are logged in 2.5 s, not 2", n)
		}
		rt.expect("m", a, a, b)
		rt.progress.change(func() { rt.progress.fail = nil })
		rt.confirmAll("m", "x")
		time.Sleep(lastRetry)
		synctest.Wait()
		rt.expect("m", b, a, b)
	})
}

// TestRotationUnderConstantChange changes the mesh without a pause. Steps must still be
// taken.
func TestRotationUnderConstantChange(t *testing.T) {
	rotationBubble(t, func(rt *rotationTest) {
		a, b := rt.pair(), rt.pair()
		rt.builtin("m", "x")
		rt.ask("m", a)
		rt.confirmAll("m", "x")
		rt.ask("m", b)
		for range 100 {
			rt.r.Changed("m")
			rt.r.ProxiesChanged("m")
		}
		rt.confirmAll("m", "x")
		rt.confirmAll("m", "x")
		rt.expect("m", b, b)
		if a := rt.state("m"); !bytes.Equal(a.Current.Key, b.Key) {
			rt.t.Error("the key is not that of the certificate")
		}
	})
}

// TestRotationOverRestart: a process that has just started has no streams. It must not treat
// this as consent of all proxies to a root that they may not trust yet.
func TestRotationOverRestart(t *testing.T) {
	rotationBubble(t, func(rt *rotationTest) {
		old, next := rt.pair(), rt.pair()
		rt.builtin("m", "a", "b")
		rt.ask("m", old)
		rt.confirmAll("m", "a", "b")
		rt.grace = 30 * time.Second
		rt.stop()
		rt.start()
		rt.ask("m", next)
		rt.expect("m", old, old, next)
		rt.stop()
		rt.progress.disconnect("m", "a")
		rt.progress.disconnect("m", "b")
		rt.start()
		rt.expect("m", old, old, next)
		time.Sleep(20 * time.Second)
		rt.confirmAll("m", "a")
		rt.r.ProxiesChanged("m")
		synctest.Wait()
		rt.expect("m", old, old, next)
		rt.confirmAll("m", "b")
		rt.r.ProxiesChanged("m")
		synctest.Wait()
		rt.expect("m", next, old, next) // "a" and "b" have yet to confirm this
		rt.noGap()
	})
}

// TestRotationGrace: a proxy that does not return delays a rotation only for the grace. One
// that returns without having confirmed delays it further.
func TestRotationGrace(t *testing.T) {
	rotationBubble(t, func(rt *rotationTest) {
		rt.grace = 30 * time.Second
		rt.stop()
		rt.start()
		old, next := rt.pair(), rt.pair()
		rt.builtin("m", "a", "b", "gone")
		rt.ask("m", old)
		rt.confirmAll("m", "a", "b")
		rt.ask("m", next)
		rt.confirmAll("m", "a")
		time.Sleep(time.Hour)
		synctest.Wait()
		rt.expect("m", old, old, next) // "b" is connected but has not confirmed
		rt.confirmAll("m", "b")
		rt.expect("m", next, old, next)
	})
}
