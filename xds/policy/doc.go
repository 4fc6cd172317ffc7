// Package policy says what a policy is: how resources of its kind are chosen for a place of a
// proxy, and what the chosen ones change there. Each policy has a folder below this one with
// its spec, defaults, validation and edits; policy/all lists them all. A new policy needs one
// folder and one line there.
//
// The same [Selection] drives edits and explanations, so that what is explained is what runs.
package policy
