package scheme

import "testing"

func TestRefuseConfigPath(t *testing.T) {
	if got := RefuseConfigPath().String(); got != "BAD_REQUEST [0/1] Setting path is not allowed" {
		t.Errorf("RefuseConfigPath() = %s", got)
	}
}
