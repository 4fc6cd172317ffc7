// Package trail makes audit events of what happens to the control plane itself: of the changes of its
// resources, in the transaction of the change, and of refused calls of its APIs.
package trail
