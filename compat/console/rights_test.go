package console_test

import (
	"fmt"
	"testing"
)

// own runs a command as the owner of the server's data.
func (s *server) own(t *testing.T, args ...string) {
	t.Helper()
	s.command(t, append(args, "--data-dir", s.Data)...)
}

// guarded starts a server on which rights count, with a path that bob may read, and what he may not see.
func guarded(t *testing.T) *server {
	t.Helper()
	s := startServer(t, "--auth", "required")
	for _, name := range []string{"anna", "bob", "carl"} {
		s.addUser(t, name, password)
	}
	s.own(t, "mkdir", "/local/team")
	s.own(t, "node", "create", "/local/team/app")
	s.own(t, "node", "create", "/local/secret")
	s.own(t, "config", "set", "/local/team/app", "settings", "a: 1")
	s.own(t, "config", "set", "/local/secret", "key", "hidden")
	s.own(t, "grant", "/local/team", "bob", "ydb.generic.read")
	s.own(t, "grant", "/local/team/app", "bob", "ydb.granular.erase_row")
	s.own(t, "grant", "/local/team", "all-users@well-known", "ydb.database.connect")
	s.own(t, "chown", "/local/team/app", "carl")
	return s
}

// The reasons of rights are shown: an own permission, an inherited one, the owner, an administrator.
func TestRights(t *testing.T) {
	t.Parallel()
	s := guarded(t)
	p := newPage(t)
	p.open(s.web)
	p.signIn("anna", password)
	p.awaitText("h1", "Locks")
	p.click("Rights")
	p.awaitText(".lede", "You may do everything")
	p.await("document.querySelectorAll('.tree .twist[aria-expanded]').length > 0")
	p.eval("document.querySelector('.tree .twist[aria-expanded]').click()", nil)
	p.click("app")
	p.awaitText("h1", "/local/team/app")
	row := func(who, text string) {
		t.Helper()
		p.await(fmt.Sprintf(`[...document.querySelectorAll('.rights tbody tr')].some((row) => row.cells[0].textContent.
			trim() === %s && row.textContent.replace(/\s+/g, ' ').includes(%s))`, jsString(who), jsString(text)))
	}
	row("carl", "owns it, and may do everything")
	row("bob", "see locks and data")
	row("bob", "ydb.granular.erase_row, given here")
	row("bob", "ydb.generic.read, inherited from /local/team")
	row("anna", "is an administrator of the cluster")
	p.setField("main input[type=search][placeholder=User]", "car")
	p.await("document.querySelectorAll('.rights tbody tr').length === 1")
}

// A user sees what the user may see, and nothing of others. Nothing that needs a right can be done without it.
func TestRightsOfAUser(t *testing.T) {
	t.Parallel()
	s := guarded(t)
	p := newPage(t)
	p.expect("404")
	p.expect("403")
	p.open(s.web)
	p.signIn("bob", password)
	p.awaitText("h1", "Locks")
	p.visit("#/rights")
	p.awaitText(".problem", "There is no such path, or none that you may describe")
	p.awaitText(".tree", "/local/team/app")
	p.visit("#/rights/local/team/app")
	p.awaitText(".lede", "You may do 4 things here")
	p.awaitText(".rights", "administrators")
	p.await("!document.querySelector('.rights').textContent.includes('anna')")
	p.visit("#/config")
	p.click("/local/team/app")
	p.click("settings")
	p.awaitText("pre.data", "a: 1")
	p.await("![...document.querySelectorAll('button')].some((b) => b.textContent.includes('Edit'))")
	p.visit("#/config/local/secret/key")
	p.awaitText(".empty", "no such persistent semaphore")
	p.visit("#/limiters")
	p.awaitText(".empty", "There are no rate limiters.")
	p.visit("#/slow")
	p.awaitText(".empty", "Slow requests are for administrators.")
	p.await("!document.body.textContent.includes('hidden') && !document.body.textContent.includes('secret/')")
}
