// Package alone stands for a program that uses the SDK.
package alone

import _ "github.com/ydb-platform/ydb-go-sdk/v3" // the versions that it wants
