package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/devcert"
	"github.com/coordd/coordd/internal/exit"
)

const certText = `Create certificates for development: a CA (ca.pem, ca-key.pem) and a server certificate
signed by it (cert.pem, key.pem), in a directory that is created if it does not exist. An
existing CA is reused, so that clients need not trust a new one; the server certificate is
recreated each time, and a running server loads it. With --client a client certificate is
created instead, in NAME.pem and NAME-key.pem, for the user NAME@cert. With --peer it is
the certificate that a server of a cluster shows to the others, in NAME.pem and
NAME-key.pem; --host has to name the host of its peer address, or it is for servers
on one machine.`

func certCommand(env *cmdline.Env) *cobra.Command {
	var directory, hosts, client, peer string
	command := &cobra.Command{
		Use:   "cert",
		Short: "Create certificates for development",
		Long:  certText,
		Example: `  coordd cert --dir certs --host db.example.com
  coordd cert --dir certs --client reporter
  coordd cert --dir certs --peer a --host a.example.com`,
		Args: cmdline.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			if directory == "" {
				return exit.Usagef("flag --dir: no value given; want the path of a directory")
			}
			for flag, name := range map[string]string{"client": client, "peer": peer} {
				if strings.ContainsAny(name, "/\\") || strings.HasPrefix(name, ".") {
					return exit.Usagef("flag --%s: value %q is not allowed: want a name that can be that of a file",
						flag, name)
				}
			}
			if client != "" && peer != "" {
				return exit.Usagef("flag --peer: one certificate at a time, so not together with --client")
			}
			made := devcert.Wanted{Hosts: splitHosts(hosts), Client: client, Peer: peer}
			if err := devcert.Make(directory, made); err != nil {
				return err
			}
			printCertificate(env, directory, made)
			return nil
		},
	}
	command.Flags().StringVar(&directory, "dir", "", "directory to put the files into")
	command.Flags().StringVar(&hosts, "host", "",
		"names and addresses, by commas, that clients connect to besides localhost and this machine's name")
	command.Flags().StringVar(&client, "client", "", "make a client's certificate with this name")
	command.Flags().StringVar(&peer, "peer", "",
		"make the certificate of a server of this name for its peers")
	return command
}

// splitHosts takes a list apart.
func splitHosts(list string) []string {
	var hosts []string
	for _, host := range strings.Split(list, ",") {
		if host = strings.TrimSpace(host); host != "" {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// printCertificate says which files there are now, and who is to have them.
func printCertificate(env *cmdline.Env, directory string, w devcert.Wanted) {
	certificate, key := w.Files(directory)
	authority, authorityKey := filepath.Join(directory, "ca.pem"), filepath.Join(directory, "ca-key.pem")
	fmt.Fprintf(env.Stdout, "%s and its key %s, good until %s\n", certificate, key,
		time.Now().Add(devcert.Lifetime).Format(time.DateOnly))
	fmt.Fprintf(env.Stdout, "%s is for all who are to trust it; keep %s away from servers and clients\n",
		authority, authorityKey)
}
