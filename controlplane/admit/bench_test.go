package admit_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

// BenchmarkWrite measures the write path without a disk: tokens as gateways request them,
// which are not recorded, and tokens that administrators create.
func BenchmarkWrite(b *testing.B) {
	for name, who := range map[string]model.Actor{"node": model.Node("cp/default/gateway-1"), "administrator": model.Administrator()} {
		b.Run(name, func(b *testing.B) {
			s := memstore.New()
			defer func() { _ = s.Close() }()
			gate := admit.New(s, &admittest.Revoker{}, gateway.Kinds(), time.Now)
			ctx := model.WithActor(b.Context(), who)
			write := func(kind *model.Kind, name string, spec any) {
				if _, err := gate.Write(ctx, model.Config, func(tx store.Tx) error {
					_, err := tx.Create(&model.Resource{Kind: kind, Scope: scope, Name: name, Spec: spec})
					return err
				}); err != nil {
					b.Fatal(err)
				}
			}
			write(gateway.Consumers, "c", &gateway.Consumer{Username: "bob"})
			write(gateway.Applications, "a", &gateway.Application{Consumer: "c", Name: "a", ClientID: "a", ClientSecret: "s"})
			b.ReportAllocs()
			for i := range b.N {
				token := fmt.Sprint("token-", i)
				write(gateway.Tokens, token, &gateway.Token{Credential: "a", TokenType: "bearer", AccessToken: token, ExpiresIn: 7200})
			}
		})
	}
}
