package main

import (
	"io"

	"github.com/spf13/cobra"

	repository "github.com/coordd/coordd"
)

func (p *program) licensesCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "licenses",
		Short:   "Print the licences of everything that this program contains",
		Example: "  coordd licenses > licences.txt",
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(p.stdout, repository.ThirdPartyNotices)
			return err
		},
	}
}
