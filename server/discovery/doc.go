// Package discovery lists the servers of the cluster for clients, by the addresses at which they reach them.
package discovery
