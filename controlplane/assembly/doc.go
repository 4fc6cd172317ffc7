// Package assembly builds a control plane from its parts: the store, the planes that plan and
// publish, the servers and their certificates, key rotation, metrics and conditions. It also
// knows how one gateway runs beside the control plane, and how a control plane is backed up
// and restored. It decides nothing that a part could decide, so that programs and tests open
// the same control plane.
package assembly
