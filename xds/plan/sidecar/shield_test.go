package sidecar_test

import (
	"strings"
	"testing"
)

// TestWorkloadsHearNoClaims: a caller cannot say to a workload what only proxies
// may, in any spelling. Asked of a real Envoy, at an inbound without policies.
func TestWorkloadsHearNoClaims(t *testing.T) {
	request := "GET / HTTP/1.1\r\nHost: a\r\nX-Other: kept\r\n"
	for _, name := range []string{
		"X-Envoy-External-Address", "x_envoy_external_address", "X-Envoy_External-Address", "X-Meshgate-Client", "x_meshgate_scheme", "X_Meshgate-OAuth",
	} {
		request += name + ": forged\r\n"
	}
	head := inbound(t, request+"\r\n")
	if strings.Contains(head, "forged") || !strings.Contains(head, "kept") {
		t.Errorf("the workload reads\n%s", head)
	}
}
