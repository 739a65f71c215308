package main

import (
	"fmt"
	"sync"
)

// account is the thing the lock protects: a balance that is read, changed by the caller and written back.
// It stands for a database row or a file that several processes share.
//
// A lock service cannot stop a process that was paused, lost its lock meanwhile and wakes up in the middle of
// its work. The account can: it remembers the largest token it has seen and turns smaller ones away.
type account struct {
	mu      sync.Mutex
	newest  uint64
	balance int
}

// read returns the balance to the holder with this token and shuts out all earlier holders.
func (a *account) read(token uint64) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.admit(token); err != nil {
		return 0, err
	}
	return a.balance, nil
}

// write sets the balance, unless a later holder has been here already.
func (a *account) write(token uint64, balance int) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.admit(token); err != nil {
		return err
	}
	a.balance = balance
	return nil
}

func (a *account) admit(token uint64) error {
	if token < a.newest {
		return fmt.Errorf("token %d is too old, %d was here", token, a.newest)
	}
	a.newest = token
	return nil
}
