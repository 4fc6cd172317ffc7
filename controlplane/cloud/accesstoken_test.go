package cloud_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

// TestNamesOfStoredTokens: a token whose name is none any more does not count, however it came to be stored. Its
// holder would be somebody whom others name, too, such as a service account of Kubernetes.
func TestNamesOfStoredTokens(t *testing.T) {
	s := memstore.New()
	defer func() { _ = s.Close() }()
	for _, c := range []struct {
		spec cloud.AccessToken
		want string
	}{
		{cloud.AccessToken{Name: "ci", Role: "admin"}, "token:ci"},
		{cloud.AccessToken{Name: "ci of the shop", Role: "admin", System: true}, "system:ci of the shop"},
		{cloud.AccessToken{Name: "serviceaccount:shop:deployer", Role: "viewer", System: true}, ""},
		{cloud.AccessToken{Name: "a:b", Role: "admin"}, ""},
		{cloud.AccessToken{Name: ":", Role: "admin"}, ""},
		{cloud.AccessToken{Name: " ", Role: "admin"}, ""},
	} {
		token, digest := cloud.IssueToken()
		c.spec.Digest = digest
		if _, err := s.Update(t.Context(), model.Config, func(tx store.Tx) error {
			_, err := tx.Create(&model.Resource{Kind: cloud.AccessTokens, Name: uuid.NewString(), Spec: &c.spec})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		var who model.Actor
		err := s.View(t.Context(), func(r store.Reader) (err error) {
			who, err = cloud.TokenHolder(r, token, time.Now())
			return err
		})
		if who.Name != c.want || (c.want == "") != fault.Is(err, fault.Denied) || c.want == "" && !strings.Contains(err.Error(), "name") {
			t.Errorf("%q: %q, %v, want %q", c.spec.Name, who.Name, err, c.want)
		}
	}
}
