// Command coordd serves YDB's coordination protocol.
//
// The package reads the configuration, starts the server, waits, and ends with
// an exit code that says why. It holds no rules of the protocol. The parts:
//
//   - main.go hands the process's streams, environment and signals to a program;
//   - program.go and commands.go are the command line;
//   - options.go, resolve.go and configfile.go find the value of every setting
//     (flag, then environment, then config file, then default) and remember
//     where it came from, so that an error can say it;
//   - serve.go runs a server from its start to its stop;
//   - health.go asks a server whether it serves;
//   - caller.go and caller_command.go are what the commands have in common that are
//     clients of the coordination protocol, by package client; lock.go and child.go
//     hold something while another program runs; output.go is the form of results;
//   - conformance.go replays the conformance suite on a server;
//   - wiring.go is the only file that knows the packages server and raftstore.
//
// A program takes everything from its fields, so tests run the same code as the
// binary, inside the test process, on port 0 and in a temporary directory.
package main
