// Package view keeps the state that plans read: one immutable, indexed value per
// scope behind an atomic pointer. One goroutine per scope applies deltas of the
// store's change feed; readers take no lock and see whole store revisions only,
// never a mixture of two.
//
// A view holds services, routes and plugin instances, and of the consumers only
// those that the config.anonymous of a plugin names. Other credentials never
// enter it, so that issuing a million tokens costs a view nothing.
package view
