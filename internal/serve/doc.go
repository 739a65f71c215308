// Package serve runs a server as a process.
//
//   - options.go, resolve.go and configfile.go find the value of every setting
//     (flag, then environment, then config file, then default) and remember
//     where it came from, so that an error can say it;
//   - together.go checks the settings against each other and against the machine;
//   - wiring.go makes the configuration of a server of them, and gives its errors their exit codes;
//   - serve.go runs a server from its start to its stop.
package serve
