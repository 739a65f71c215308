module github.com/coordd/coordd/compat/go

go 1.26.0

require (
	github.com/ydb-platform/ydb-go-genproto v0.0.0-20260810122915-65bfd5c4b705
	github.com/ydb-platform/ydb-go-sdk/v3 v3.156.1
	google.golang.org/grpc v1.78.0
)

require (
	github.com/golang-jwt/jwt/v4 v4.5.2 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/jonboulle/clockwork v0.5.0 // indirect
	golang.org/x/net v0.48.0 // indirect
	golang.org/x/sync v0.19.0 // indirect
	golang.org/x/sys v0.39.0 // indirect
	golang.org/x/text v0.32.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20251202230838-ff82c1b0f217 // indirect
	google.golang.org/protobuf v1.36.10 // indirect
)
