//go:build upstream

package standin_test

// What the SDK's own tests import besides, so that it stays in go.mod. Nobody sets the tag.
import (
	_ "github.com/rekby/fixenv"
	_ "github.com/stretchr/testify/require"
	_ "go.uber.org/zap"
	_ "golang.org/x/xerrors"
)
