// Package selection says which policies are chosen for which places of a proxy: the proxy
// itself, its inbounds, its outbounds, and the services that these lead to (mesh policy
// selection). It is pure: it reads a view, locks nothing and keeps nothing.
//
// The planner, the inspection of a proxy and the explanation of the policies in force all call
// it, so that what is shown is what runs.
package selection
