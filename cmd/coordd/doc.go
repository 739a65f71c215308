// Command coordd serves YDB's coordination protocol.
//
// The package is the command line: internal/serve runs the server, internal/cmdline has what other programs
// share with it, and internal/exit the exit codes. It holds no rules of the protocol. The parts:
//
//   - main.go hands the process's streams, environment and signals to the command line as a cmdline.Env;
//   - commands.go makes the commands, each by a constructor that takes the Env, and runs one;
//   - health.go asks a server whether it serves; check.go examines the directory of
//     one that is stopped; cluster.go and user.go administer a running one;
//   - caller.go and caller_command.go are what the commands have in common that are
//     clients of the coordination protocol, by package client; lock.go and child.go
//     hold something while another program runs; output.go is the form of results;
//   - conformance.go replays the conformance suite on a server.
//
// A command takes everything from its Env, so tests run the same code as the
// binary, inside the test process, on port 0 and in a temporary directory.
package main
