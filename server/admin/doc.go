// Package admin serves the administrators of a cluster: its members, its status, its backups, its limits and quotas
// (adminpb/cluster.proto). It also logs every administrative act, whichever service is asked for it.
package admin
