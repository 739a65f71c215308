package codec

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/coordd/coordd/coordination"
)

// caller is two fields, the first of which is given.
func (w *wire) caller(first protowire.Number, c *coordination.Caller) {
	w.text(first, &c.Subject)
	w.flag(first+1, &c.Enforced)
}

func (w *wire) addUser(c *coordination.AddUser) {
	number(w, 1, &c.Nonce)
	w.caller(3, &c.Caller)
	w.text(5, &c.Name)
	w.text(6, &c.PasswordHash)
	w.flag(7, &c.Administrator)
	w.flag(8, &c.OnlyFirst)
}

func (w *wire) setPassword(c *coordination.SetPassword) {
	number(w, 1, &c.Nonce)
	w.caller(3, &c.Caller)
	w.text(5, &c.Name)
	w.text(6, &c.PasswordHash)
}

func (w *wire) rotateSigningKey(c *coordination.RotateSigningKey) {
	number(w, 1, &c.Nonce)
	w.caller(3, &c.Caller)
	w.bytes(5, &c.Secret)
	number(w, 6, &c.StampMillis)
	number(w, 7, &c.DropBeforeMillis)
	number(w, 8, &c.After.Index)
	number(w, 9, &c.After.Place)
}

func (w *wire) userRow(r *coordination.UserRow) {
	w.text(1, &r.Name)
	w.text(2, &r.PasswordHash)
	w.flag(3, &r.Administrator)
	number(w, 4, &r.Version.Index)
	number(w, 5, &r.Version.Place)
}

func (w *wire) signingKeyRow(r *coordination.SigningKeyRow) {
	w.bytes(1, &r.Secret)
	number(w, 2, &r.CreatedMillis)
}
