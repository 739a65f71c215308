// Package users serves logins and the management of users.
package users
