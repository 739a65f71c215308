package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// coverFolder makes an empty folder for what the processes have reached.
func coverFolder() (string, error) {
	dir, err := filepath.Abs(filepath.Join(folder, "cover"))
	if err != nil {
		return "", err
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o755)
}

// coverage prints the share of each package's statements that were reached, and writes the profile of go tool cover.
func coverage() error {
	dir, profile := filepath.Join(folder, "cover"), filepath.Join(folder, "cover.out")
	for _, args := range [][]string{{"textfmt", "-i", dir, "-o", profile}, {"percent", "-i", dir}} {
		output, err := exec.Command("go", append([]string{"tool", "covdata"}, args...)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("merge the coverage: %w\n%s", err, output)
		}
		fmt.Printf("%s", output)
	}
	fmt.Printf("sim: go tool cover -html %s shows the statements\n", profile)
	return nil
}
