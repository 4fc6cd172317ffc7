//go:build !faultinjection

package main

// injectFault does nothing here; see fault_injection.go.
func injectFault([]byte) {}
