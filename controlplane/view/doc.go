// Package view keeps the state that plans read: one immutable, indexed value per
// scope behind an atomic pointer. One goroutine per scope applies deltas of the
// store's change feed; readers take no lock and see whole store revisions only,
// never a mixture of two.
//
// The view of a control plane holds services, routes and plugin instances, and of
// the consumers only those that the config.anonymous of a plugin names. Other
// credentials never enter it, so that issuing a million tokens costs a view
// nothing.
//
// The view of a group of control planes holds the entities of all members. What an entity
// names is looked up among those of its own member, see [Gateway.Of]; of two that have one id
// the younger is left out, see [Gateway.LeftOut].
//
// The view of a mesh holds the mesh, what it trusts, its dataplanes with the
// services they serve, and its policies with an index by destination. Secrets and
// insights never enter it. A change costs what it touches: a dataplane the
// endpoints of its services, a policy the policies of its kind.
package view
