package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// An SBOM, in the form of SPDX 2.3.
type bom struct {
	Version       string         `json:"spdxVersion"`
	License       string         `json:"dataLicense"`
	ID            string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	Creation      creation       `json:"creationInfo"`
	Packages      []bomPackage   `json:"packages"`
	Relationships []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type bomPackage struct {
	ID        string     `json:"SPDXID"`
	Name      string     `json:"name"`
	Version   string     `json:"versionInfo"`
	Location  string     `json:"downloadLocation"`
	Analyzed  bool       `json:"filesAnalyzed"`
	Concluded string     `json:"licenseConcluded"`
	Declared  string     `json:"licenseDeclared"`
	Copyright string     `json:"copyrightText"`
	Checksums []checksum `json:"checksums,omitempty"`
	Refs      []bomRef   `json:"externalRefs"`
}

type checksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type bomRef struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	From string `json:"spdxElementId"`
	Type string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

// boms writes an SBOM for each program and platform, from the build information in the built program.
func (r *release) boms() error {
	for _, p := range r.platforms {
		for _, program := range programs {
			text, err := r.bom(p, program)
			if err != nil {
				return err
			}
			if err := os.WriteFile(r.named(program, p.String()+".spdx.json"), text, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *release) bom(p platform, program string) ([]byte, error) {
	built, err := os.ReadFile(r.binary(p, program))
	if err != nil {
		return nil, err
	}
	info, err := buildinfo.ReadFile(r.binary(p, program))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(built)
	name := strings.TrimSuffix(r.named(program, p.String())[len(r.out)+1:], "/")
	const document, main = "SPDXRef-DOCUMENT", "SPDXRef-program"
	b := &bom{Version: "SPDX-2.3", License: "CC0-1.0", ID: document, Name: name,
		Namespace:     fmt.Sprintf("https://%s/releases/%s/%x", info.Main.Path, name, sum),
		Creation:      creation{r.time.Format(time.RFC3339), []string{"Tool: " + info.Main.Path + "/release"}},
		Relationships: []relationship{{document, "DESCRIBES", main}}}
	add := func(id, path, version string, sums ...checksum) {
		declared := "NOASSERTION" // THIRD-PARTY-NOTICES.txt has the texts
		if id == main {
			declared = "Apache-2.0"
		}
		b.Packages = append(b.Packages, bomPackage{ID: id, Name: path, Version: version, Location: "NOASSERTION",
			Concluded: "NOASSERTION", Declared: declared, Copyright: "NOASSERTION", Checksums: sums,
			Refs: []bomRef{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + path + "@" + version}}})
		if id != main {
			b.Relationships = append(b.Relationships, relationship{main, "CONTAINS", id})
		}
	}
	add(main, info.Main.Path, "v"+r.version, checksum{"SHA256", hex.EncodeToString(sum[:])})
	add("SPDXRef-go", "stdlib", strings.TrimPrefix(info.GoVersion, "go"))
	for i, m := range info.Deps {
		add(fmt.Sprintf("SPDXRef-module-%d", i+1), m.Path, m.Version)
	}
	text, err := json.MarshalIndent(b, "", "  ")
	return append(text, '\n'), err
}
