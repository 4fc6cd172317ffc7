// Package policytest has what the tests of every policy share: sample drafts that
// policies edit, golden files of the result, and the checks of a folder.
package policytest
