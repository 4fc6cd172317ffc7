package assembly

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/controlplane/nodes"
	"github.com/meshgate/meshgate/controlplane/store"
)

// The conditions of the control plane.
const (
	conditionStore        = "store"
	conditionRedis        = "redis"
	conditionClock        = "clock"
	conditionCertificates = "certificates"
	conditionRevocations  = "revocations_wait"
	conditionSigningKeys  = "signing_keys"
	conditionNodes        = nodes.Condition
	conditionBackups      = "backups"
	conditionUploaded     = "gateway_certificates"
	conditionRotations    = "rotations"
)

func newConditions(log *slog.Logger) *health.Board {
	return health.New(log, time.Now,
		health.Kind{Name: conditionStore, Bad: "nothing can be stored", Good: "what is written is stored again"},
		health.Kind{Name: conditionRedis, Bad: "redis cannot be used", Good: "redis is in order again"},
		health.Kind{Name: conditionClock, Bad: "the clocks differ", Good: "the clocks agree again"},
		health.Kind{Name: conditionCertificates, Bad: "a certificate ends", Good: "no certificate ends soon"},
		health.Kind{Name: conditionRevocations, Bad: "revocations wait for gateways", Good: "revocations wait for no gateway any more"},
		health.Kind{Name: conditionSigningKeys, Bad: "a signing key cannot be used", Good: "every signing key can be used"},
		health.Kind{Name: conditionNodes, Bad: "something is the matter with connected nodes", Good: "nothing is the matter with connected nodes"},
		health.Kind{Name: conditionBackups, Bad: "the backup failed", Good: "backups are written again"},
		health.Kind{Name: conditionUploaded, Bad: "a certificate of the administration API ends", Good: "no certificate of the administration API ends soon"},
		health.Kind{Name: conditionRotations, Bad: "connected proxies hold up the rotation of a root", Good: "no connected proxy holds up the rotation of a root any more"},
	)
}

// storeTroubles are the findings for what a store can tell.
var storeTroubles = map[store.Trouble]health.Finding{
	store.DiskFull: {State: health.Degraded, Text: "the disk of %s is full: writes answer 507 and no tokens are issued, while reads, token checks and the configuration of proxies go on. Free some space there (df -h %[1]s); nothing has to be restarted"},
	store.ReadOnly: {State: health.Degraded, Text: "the file system of %s is read-only: writes answer 507 and no tokens are issued, while reads, token checks and the configuration of proxies go on. Look into the kernel's log (dmesg) why it is, and mount it for writing again"},
	store.IOError:  {State: health.Degraded, Text: "the disk of %s reports an I/O error: writes answer 507 and no tokens are issued, while reads, token checks and the configuration of proxies go on. Look into the kernel's log (dmesg); if the disk is broken, restore a backup on another one"},
	store.Unknown:  {State: health.Failed, Text: "the database in %s cannot be read: it is not known whether the last change was made, and nothing is written until it is. Look at the disk (dmesg, df -h %[1]s)"},
}

// storeReport puts on a board what the store in a directory tells.
func storeReport(b *health.Board, path string) func(store.Trouble, error) {
	dir := filepath.Dir(path)
	return func(t store.Trouble, _ error) {
		f, bad := storeTroubles[t]
		if !bad {
			b.Good(conditionStore)
			return
		}
		b.Set(conditionStore, health.Finding{State: f.State, Reason: string(t), Text: fmt.Sprintf(f.Text, dir)})
	}
}

// storeProbe has a store that cannot write try again. One that waits for the outcome of
// a commit looks by itself, and whoever asked it would wait with it.
func storeProbe(b *health.Board, s store.Prober) func(context.Context) {
	return func(ctx context.Context) {
		if c := b.Get(conditionStore); c.State == health.Failed {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, probeTime)
		defer cancel()
		_ = s.Probe(ctx) // the store reports what comes of it
	}
}

// probeTime bounds how long an answer of /ready waits for a disk.
const probeTime = time.Second
