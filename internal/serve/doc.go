// Package serve runs a server as a process.
//
//   - settings.go lists the settings, as a struct with tags; option.go makes the flags of it and stores values in it,
//     which addresses.go, values.go and cluster.go check;
//   - resolve.go and configfile.go find the value of every setting (flag, then environment, then config file, then
//     default) and its origin, which errors name;
//   - together.go checks the settings against each other and against the machine;
//   - wiring.go makes the configuration of a server of them, and gives its errors their exit codes;
//   - serve.go runs a server from its start to its stop.
package serve
