//go:build !faultinjection

package main

// injectFault does nothing in this build; see fault_injection.go.
func injectFault([]byte) {}
