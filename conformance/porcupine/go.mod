module github.com/coordd/coordd/conformance/porcupine

go 1.26.0

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/coordd/coordd v0.0.0
)

require (
	github.com/ydb-platform/ydb-go-genproto v0.0.0-20260810122915-65bfd5c4b705 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260706201446-f0a921348800 // indirect
	google.golang.org/protobuf v1.36.11 // indirect
)

replace github.com/coordd/coordd => ../..
