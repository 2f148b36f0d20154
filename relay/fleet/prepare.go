package fleet

import (
	"context"

	"teambridge/relay"
	"teambridge/relay/mode"
	"teambridge/relay/runtimes"
)

// Prepare translates the settings in l into options of a relay: the member, as [Member] resolves it, the
// mode, and the runtime, whose agents ask p. opts provides the other options of l.
func Prepare(ctx context.Context, opts *relay.Options, l runtimes.Launch, p *PermissionPrompter) (err error) {
	r := l.Settings
	if opts.Member, err = Member(ctx, opts.Team, r.Member); err != nil {
		return err
	}
	policy, err := ParsePolicy(r.Permissions)
	if err != nil {
		return err
	}
	if len(r.Mode) > 0 {
		if opts.Mode, err = mode.Parse(r.Mode); err != nil {
			return err
		}
	}
	opts.OnCut, opts.IdleExit, opts.IdleReports = relay.OnCut(r.OnCut), r.IdleExit, relay.IdleReports(r.IdleReports)
	l.Team, l.Member, l.State, l.Permission = opts.Team, opts.Member, opts.State, policy.Permission(p)
	opts.Runtime, err = l.Runtime(ctx)
	return err
}
