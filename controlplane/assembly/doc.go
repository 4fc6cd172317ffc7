// Package assembly makes a control plane of its parts: the store, the planes that plan and
// publish, the servers and their certificates, what is rotated, measured and looked after.
// It also knows how one gateway is run beside it, and what a backup of it and a restore
// are. It decides nothing that the parts could decide; programs and tests open the same.
package assembly
