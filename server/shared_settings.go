package server

import (
	"cmp"

	"github.com/coordd/coordd/raftstore"
)

// sharedSettings are the settings that should be the same on all servers of a cluster, by the names of their
// flags: a client is sent to any of them.
func (s *Server) sharedSettings() []raftstore.Setting {
	return []raftstore.Setting{
		{Name: "database", Value: s.config.Database},
		{Name: "auth", Value: cmp.Or(s.config.Auth, AuthOff)},
		{Name: "login-lifetime", Value: s.auth.LoginLifetime.String()},
		{Name: "token-file", Value: s.auth.TokensText()},
	}
}
