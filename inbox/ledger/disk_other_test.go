//go:build !linux

package ledger

import "teambridge/relay/relaytest/killtest"

func diskChildren() killtest.Roles { return nil }
