// Package compat holds tests that run the built coordd server and drive it with the unmodified Go SDK,
// through the SDK's public API only. It is a module of its own, so that the SDK never reaches the server's
// dependencies.
//
// The SDK returns no error for a request the server refused (a create, update, delete or release reports
// success, a refused acquire reports a timeout, a refused describe an empty description). The tests therefore
// look at effects through DescribeSemaphore.
package compat
