// Package audit says in two formats what an audit log tells a SIEM, and signs it.
//
// Each event is one line: a JSON object, or a line of the Common Event Format. The line carries an
// Ed25519 signature of the rest of it, so that a receiver can check who said it whatever way it came.
package audit
