// Package adminpb is the messages of coordd's own service for users, generated from admin.proto.
package adminpb
