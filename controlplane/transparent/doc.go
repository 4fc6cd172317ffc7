// Package transparent has the kernel lead a machine's connections through the proxy on it, so
// that workloads need not know the proxy: connections that they open go to the proxy's outbound
// port, connections to them go to its inbound port, and their questions for names may go to its
// DNS port (Dataplane.networking.transparentProxying says the same ports to the proxy).
//
// The rules are one table of nf_tables, written in one transaction over netlink. No program
// such as nft or iptables is needed. What is installed again replaces what was there, and
// removing the table removes exactly what was added. Rules of others are not touched.
//
// Three parts follow from each other. [Options] say what is wanted. [Options.Rules] decides
// which connections are redirected, in a form that prints as nft reads it. [Install] gives the
// same rules to the kernel.
package transparent
