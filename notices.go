// Package coordd holds what is said of the whole of this repository.
package coordd

import _ "embed"

// ThirdPartyNotices are the licences of everything that is linked into the program, made by
// .ci/tools/notices.
//
//go:embed THIRD-PARTY-NOTICES.txt
var ThirdPartyNotices string
