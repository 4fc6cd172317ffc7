// Package changes records what a write has changed, in a form for people: who wrote, in
// which way, which resource, and which of its members differ. The gate of the write path
// ([Records]) stores that with the change itself. The APIs show it ([Parse], [Show]).
//
// No secret is recorded. A kind declares which of its members are secret
// ([model.Kind].Secrets), and only their paths are recorded. If a kind is encrypted at rest
// and declares nothing, all of its members are secret. Lengths and numbers are bounded, so
// that nobody can fill the store by writing large resources.
//
// The following changes are not recorded: rows that the control plane keeps for itself
// (credential kinds that are not announced, except for its keys, which operators rotate);
// credentials that proxies write, which are the tokens and codes that clients obtain and
// give up by the thousand; and rows that are removed because they had expired.
package changes
