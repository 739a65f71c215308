package wal

import (
	"testing"

	"github.com/coordd/coordd/internal/testmode"
)

func TestMain(m *testing.M) { testmode.Pure(m, TestCutBesideAppend, TestCutBesideReset) }
