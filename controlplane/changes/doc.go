// Package changes says what a write has changed, in the form that people read: who
// wrote, by which way, which resource, and which of its members differ. The gate of
// the write path ([Records]) keeps that with the change itself; the APIs show it
// ([Parse], [Show]).
//
// No secret gets in here. A kind says which of its members are secret
// ([model.Kind].Secrets); of these only the path is kept. A kind that is encrypted at
// rest and says nothing has secret members only. Lengths and numbers are bounded, so
// that nobody fills the store by writing large resources.
//
// What is not recorded: rows that the control plane keeps for itself (credential kinds
// of which nothing is announced, but for its keys, which operators rotate), credentials that proxies write, which are the
// tokens and codes that clients obtain and give up by the thousand, and rows that go
// because they had expired.
package changes
