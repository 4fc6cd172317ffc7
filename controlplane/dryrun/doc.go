// Package dryrun says what a write would do, without doing it: which nodes would get another
// configuration, what would differ in it, and what could not be made.
//
// The write runs like any other up to its commit, in the store's own transaction, and is undone
// there; see [admit.Rehearse]. So it is validated by the same code, and its errors are the same.
// While it is in the transaction, the views of what it concerns take it as they would take the
// commit. Only this happens under the writer's lock. Everything else follows when the lock is
// free: the planner makes the configuration before and after, for connected nodes.
package dryrun
