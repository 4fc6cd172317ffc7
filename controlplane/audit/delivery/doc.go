// Package delivery brings audit events to the receivers of webhooks: in order, and each of them once
// unless a receiver's answer is lost.
package delivery
