// Package adminpb is the messages of coordd's own services for users and for the servers of a cluster,
// generated from admin.proto and cluster.proto.
package adminpb
