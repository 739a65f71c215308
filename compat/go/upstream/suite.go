//go:build integration

package upstream

// What the SDK's tests need, so that go.mod has it: they are compiled by their name, and nothing here imports
// them.
import (
	_ "github.com/rekby/fixenv"
	_ "github.com/stretchr/testify/require"
	_ "github.com/ydb-platform/ydb-go-sdk/v3"
	_ "go.uber.org/zap"
	_ "golang.org/x/xerrors"
)
