// Package policytest contains what the tests of every policy share: sample drafts that
// policies edit, golden files of the results, and the checks of a folder.
package policytest
