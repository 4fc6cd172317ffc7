// Package portal lets developers log in to portals: passwords, sessions, locks, and the audit event
// that each attempt is.
//
// A login tells nothing to whoever does not know the password: unknown addresses, wrong passwords,
// locked and disabled accounts have the same answer and take the same time. What really happened is
// in the event.
package portal
