// Command coordd-standin runs a server for other people's tests, on which things go wrong on demand, and gives it
// orders.
//
// standin.go runs a server of package server/standin as internal/serve does any; ctl.go gives orders to one that runs;
// recording.go makes recordings that are ordered; demo.go has the clients of --demo.
package main
