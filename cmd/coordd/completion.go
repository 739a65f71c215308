package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Scheme"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/server/adminpb"
)

const (
	// completionMost bounds how long somebody who presses the tab key waits for a server.
	completionMost = 2 * time.Second
	// candidatesMost is how many words are offered.
	candidatesMost = 1000
)

// completeArguments has shells complete what a command's usage calls a node, a path, a name of a semaphore, a
// session and a resource.
func completeArguments(env *cmdline.Env, command *cobra.Command, f *callerFlags) {
	kinds := strings.Fields(command.Use)[1:]
	makes := command.Name() == "create" || command.Name() == "mkdir" // what is not there yet
	command.ValidArgsFunction = func(
		_ *cobra.Command,
		args []string,
		begun string,
	) ([]string, cobra.ShellCompDirective) {
		at := len(args)
		if last := len(kinds) - 1; last >= 0 && strings.HasSuffix(kinds[last], "...") {
			at = min(at, last)
		}
		if at >= len(kinds) || strings.Contains(kinds[at], "flags") {
			return nil, cobra.ShellCompDirectiveDefault
		}
		kind := strings.Trim(kinds[at], "[]")
		if makes && len(args) == len(kinds)-1 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return candidates(env, f, kind, args, begun), cobra.ShellCompDirectiveNoFileComp
	}
}

// candidates are words that may stand for an argument. Nobody is asked for a password, and what goes wrong is
// no candidate.
func candidates(env *cmdline.Env, f *callerFlags, kind string, args []string, begun string) []string {
	ctx, cancel := context.WithTimeout(context.Background(), completionMost)
	defer cancel()
	f.keepStdin = true
	c, err := f.open(ctx, env)
	if err != nil {
		return nil
	}
	defer c.Close()
	var words []string
	add := func(word, about string) bool {
		if strings.HasPrefix(word, begun) && len(words) < candidatesMost && word != "" &&
			!strings.ContainsFunc(word, breaksWords) {
			words = append(words, word+"\t"+about)
		}
		return len(words) < candidatesMost
	}
	switch kind {
	case "NODE", "PATH":
		c.completeNodes(ctx, begun, add)
	case "NAME", "PREFIX":
		c.completeSemaphores(ctx, c.path(args[0]), begun, add)
	case "USER":
		list := new(adminpb.ListResponse)
		_ = c.Invoke(ctx, adminpb.Users_List_FullMethodName, &adminpb.ListRequest{}, list) // of administrators only
		for _, user := range list.GetUsers() {
			add(user.GetName(), "user")
		}
		add("all-users@well-known", "every user that has logged in")
	case "PERMISSION...":
		for _, name := range permissionNames {
			add(name, "permission")
		}
	case "RESOURCE":
		c.completeResources(ctx, c.path(args[0]), add)
	case "SESSION":
		all := &adminpb.PageRequest{Path: c.path(args[0])}
		_ = c.sessions(ctx, all, func(_ *adminpb.Session, s *sessionShown) error {
			if !add(fmt.Sprint(s.ID), fmt.Sprintf("%q", s.Description)) {
				return errEnough
			}
			return nil
		})
	}
	return words
}

// breaksWords reports whether a shell would take a name apart, or more than that.
func breaksWords(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
		strings.ContainsRune("-_./@+,%", r))
}

func (c *caller) completeNodes(ctx context.Context, begun string, add func(word, about string) bool) {
	offer := func(path, about string) bool {
		if !strings.HasPrefix(begun, "/") {
			path = strings.TrimPrefix(path, strings.TrimSuffix(c.database, "/")+"/")
		}
		return add(path, about)
	}
	err := c.listNodes(ctx, "", func(n *adminpb.Node) error {
		if !offer(n.GetPath(), counted(int(n.GetSessions()), "session")+", "+
			counted(int(n.GetSemaphores()), "semaphore")) {
			return errEnough
		}
		return nil
	})
	if isNotOurs(err) {
		_ = c.walk(ctx, c.database, 0, func(path string, _ int, entry *Ydb_Scheme.Entry) error {
			if entry.GetType() == Ydb_Scheme.Entry_COORDINATION_NODE && !offer(path, "coordination node") {
				return errEnough
			}
			return nil
		})
	}
}

func (c *caller) completeSemaphores(ctx context.Context, node, begun string, add func(word, about string) bool) {
	_ = c.listSemaphores(ctx, node, begun, func(s *adminpb.Semaphore) error {
		if !add(string(s.GetName()), heldText(s.GetCount(), s.GetLimit(), s.GetEphemeral())) {
			return errEnough
		}
		return nil
	})
}
