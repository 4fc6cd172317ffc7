//go:build !faultinjection

package main

// collectionPercent is always the same here; see fault_injection.go.
func collectionPercent() int { return gcPercent }

// injectFault does nothing here; see fault_injection.go.
func injectFault([]byte) {}
