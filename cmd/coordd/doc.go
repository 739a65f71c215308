// Command coordd serves YDB's coordination protocol.
//
// The package is the command line: internal/serve runs the server, internal/cmdline has what other programs
// share with it, and internal/exit the exit codes. It holds no rules of the protocol. The parts:
//
//   - main.go hands the process's streams, environment and signals to the command line as a cmdline.Env;
//   - commands.go makes the commands, each by a constructor that takes the Env, and runs one;
//   - health.go asks a server whether it serves; check.go examines the directory of
//     one that is stopped; cluster.go and user.go administer a running one;
//   - connection.go and endpoint.go find the server, caller.go is a client of it, and question.go makes
//     commands that ask it something; output.go is the form of results;
//   - lock.go, child.go and kept.go hold something, follow.go watches it, and elect.go has the idioms of both.
//
// A command takes everything from its Env, so tests run the same code as the
// binary, inside the test process, on port 0 and in a temporary directory.
package main
