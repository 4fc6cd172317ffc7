// Package keys_test replaces the keys of a control plane under load, with real
// Envoys: no request may be refused meanwhile.
package keys_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// patience bounds what has no bound of its own.
const patience = 60 * time.Second

func TestKeys(t *testing.T) {
	RegisterFailHandler(Fail)
	framework.RunSuite(t, "keys")
}

var _ = AfterEach(framework.ExpectSound)

// key is a row of `meshgate keys list -o json`.
type key struct {
	Kind, Name, Mesh, State, InUse, Next string
}

// asking are the arguments of a command that asks a control plane.
func asking(c *framework.ControlPlane, args ...string) []string {
	return append(args, "--address", fmt.Sprintf("http://127.0.0.1:%d", c.Mesh))
}

// command runs meshgate, which asks a control plane.
func command(c *framework.ControlPlane, args ...string) (output string, exit int) {
	p := framework.Start(nil, framework.Binary(), asking(c, args...)...)
	exit = p.Exit(patience)
	return p.Output(), exit
}

// run is command that must succeed.
func run(c *framework.ControlPlane, args ...string) string {
	out, exit := command(c, args...)
	ExpectWithOffset(1, exit).To(Equal(0), out)
	return out
}

// listed are the keys of a kind.
func listed(c *framework.ControlPlane, kind string) (out []key) {
	var list struct{ Items []key }
	ExpectWithOffset(1, json.Unmarshal([]byte(run(c, "keys", "list", "-o", "json")), &list)).To(Succeed())
	for _, k := range list.Items {
		if k.Kind == kind {
			out = append(out, k)
		}
	}
	return out
}

// use is how much a key of a kind is in use; empty if there is none.
func use(c *framework.ControlPlane, kind, mesh, name string) func() string {
	return func() string {
		for _, k := range listed(c, kind) {
			if k.Name == name && k.Mesh == mesh {
				return k.InUse
			}
		}
		return ""
	}
}

// served demands that every request of a load was answered with 200, and that there were some.
func served(loads ...*framework.Load) {
	for _, l := range loads {
		EventuallyWithOffset(1, l.Total, patience).Should(BeNumerically(">", 100))
		total, failures := l.Stop()
		ExpectWithOffset(1, failures).To(BeEmpty(), "of %d requests", total)
		AddReportEntry("requests, none refused", total)
	}
}

// fresh asks by a token that nobody has seen before, so that no memory answers.
func fresh(f *framework.Fixture, g *framework.Gateway) string {
	token, err := f.Mint(g.HTTPS)
	if err != nil {
		return err.Error()
	}
	r, err := f.Call(g.HTTP, token)
	switch {
	case err != nil:
		return err.Error()
	case r.Status != http.StatusOK:
		return strings.TrimSpace(r.Body)
	}
	return ""
}
