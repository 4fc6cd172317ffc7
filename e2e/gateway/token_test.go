package gateway_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// tokenClaims are what these specs read of a node token.
type tokenClaims struct {
	ID      string `json:"jti"`
	Issued  int64  `json:"iat"`
	Expires int64  `json:"exp"`
}

func claimsOf(token string) (c tokenClaims) {
	parts := strings.Split(strings.TrimSpace(token), ".")
	ExpectWithOffset(1, parts).To(HaveLen(3))
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	ExpectWithOffset(1, json.Unmarshal(payload, &c)).To(Succeed())
	return c
}

var _ = Describe("the token of a gateway", func() {
	const patience = 30 * time.Second

	It("ends everything at once when it is revoked; a new file brings the gateway back", func() {
		c := framework.NewControlPlane("run").Start()
		g := framework.StartGateway(c, "g")
		f := framework.NewFixture(c)
		token := f.MustMint(g.HTTPS)
		Expect(f.Status(g.HTTP, token)).To(Equal(200))
		file := filepath.Join(g.StateDir, "token")
		raw, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		r := c.API().Mesh(http.MethodPut, "/global-secrets/gateway-token-revocations", map[string]any{
			"type": "GlobalSecret", "name": "gateway-token-revocations",
			"data": base64.StdEncoding.EncodeToString([]byte("some-other-id," + claimsOf(string(raw)).ID + "\n")),
		})
		Expect(r.Status).To(BeNumerically("<", 300), r.Body)
		Eventually(g.Output, patience, 10*time.Millisecond).Should(And(ContainSubstring("condition=control_plane state=degraded reason=turned_down"), ContainSubstring("the node token was revoked")))
		Eventually(c.Output, patience, 10*time.Millisecond).Should(And(ContainSubstring("stream_revoked"), ContainSubstring("link revoked")))

		before := strings.Count(g.Output(), "control_plane_connected")
		c.API().WriteGatewayToken("g", file)
		Eventually(func() int { return strings.Count(g.Output(), "control_plane_connected") }, patience).Should(BeNumerically(">", before))
		Eventually(func() int { return f.Status(g.HTTP, token) }, patience).Should(Equal(200))
	})

	It("is renewed by its agent before it ends, and no request fails", func() {
		c := framework.NewControlPlane("run").Start()
		g := framework.StartGateway(c, "g")
		f := framework.NewFixture(c)
		token := f.MustMint(g.HTTPS)
		file := filepath.Join(g.StateDir, "token")
		var short tokenClaims
		// A busy machine may not have started the gateway before a short token ends.
		for life := 9 * time.Second; ; life *= 2 {
			Expect(life).To(BeNumerically("<", 2*time.Minute), "the gateway does not start in time")
			g.Stop()
			r := c.API().Mesh(http.MethodPost, "/tokens/gateway", map[string]any{"name": "g", "validFor": life.String()})
			Expect(r.Status).To(Equal(200), r.Body)
			short = claimsOf(r.Body)
			Expect(os.WriteFile(file, []byte(r.Body), 0o600)).To(Succeed())
			g.Restart()
			Eventually(g.Output, patience, 10*time.Millisecond).Should(Or(ContainSubstring("control_plane_connected"), ContainSubstring("condition=control_plane")))
			if strings.Contains(g.Output(), "control_plane_connected") && time.Until(time.Unix(short.Expires, 0)) > life/3 {
				break // it is there before the renewal is due
			}
		}
		for time.Now().Before(time.Unix(short.Expires+3, 0)) {
			Expect(f.Status(g.HTTP, token)).To(Equal(200))
		}
		raw, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		now := claimsOf(string(raw))
		Expect(now.ID).To(Equal(short.ID), "a renewal keeps the id, by which it is revoked")
		Expect(now.Expires).To(BeNumerically(">", short.Expires))
	})
})
