package sidecar_test

import (
	"strings"
	"testing"
)

// TestWorkloadsHearNoClaims: a caller cannot send a workload the headers that only proxies may
// set, in any spelling. A real Envoy is asked, at an inbound without policies.
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
