package links

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"teambridge/inbox/ledger"
	"teambridge/relay/link/nats"
	"teambridge/relay/pane"
	"teambridge/status/api"
	"teambridge/status/ssh"
	"teambridge/status/view"
	"teambridge/teams"
)

// Links returns the links of this machine; see [api.Bridge].
func (l *Machines) Links(ctx context.Context) (shown api.Links, err error) {
	shown = api.Links{State: api.LinkOff, Machines: []api.Machine{}}
	lg, err := l.Ledger(ctx)
	if err != nil || lg == nil {
		return shown, err
	}
	self, found, err := lg.Links.Link(ctx)
	if err != nil || !found {
		return shown, err
	}
	shown.Machine, shown.Hub, shown.Trust = self.Name, self.Hub, self.Trust
	key, err := nats.ReadKey(filepath.Join(l.Opts.State, nats.KeyFile))
	if err != nil {
		return shown, err
	}
	shown.Card = key.Card(self.Name).String()
	switch {
	case self.Hub == "":
		shown.Reason = "no hub was chosen"
	case l.carrier == nil:
		shown.Reason = "no service runs"
	default:
		shown.State, shown.Reason = l.carrier.state(&shown)
	}
	list, err := l.Linked(ctx)
	for _, m := range list {
		one := view.Machine(m)
		if l.carrier != nil {
			one.Refused, one.RefusedWhy = l.carrier.refused(m.Name)
		}
		shown.Machines = append(shown.Machines, one)
	}
	return shown, err
}

// Linked returns the linked machines: none if there is no ledger.
func (l *Machines) Linked(ctx context.Context) ([]ledger.Machine, error) {
	lg, err := l.Ledger(ctx)
	if err != nil || lg == nil {
		return nil, err
	}
	root, err := l.Opts.Root()
	switch {
	case errors.Is(err, fs.ErrNotExist): // without a Claude directory, nothing is shared
		return lg.Links.Machines(ctx, "")
	case err != nil:
		return nil, err
	}
	return lg.Links.Machines(ctx, root.Path())
}

// SetLink sets this machine's name and hub; see [api.Bridge].
func (l *Machines) SetLink(ctx context.Context, n api.NewLink) (api.Links, error) {
	lg, err := l.Opts.Ledger(ctx)
	if err != nil {
		return api.Links{}, err
	}
	self, found, err := lg.Links.Link(ctx)
	if err != nil {
		return api.Links{}, err
	}
	switch name := cmp.Or(n.Machine, self.Name); {
	case name == "":
		return api.Links{}, api.Decide(api.CodeUsage, "name it, such as: teambridge link card --name laptop", "this machine has no name yet")
	case nats.CheckName(name) != nil:
		return api.Links{}, api.Decide(api.CodeInvalid, "", "%v", nats.CheckName(name))
	case found && name != self.Name:
		if list, err := l.Linked(ctx); err != nil || len(list) > 0 {
			return api.Links{}, cmp.Or(err, api.Decide(api.CodeConflict, "remove its links first: teambridge link remove", "this machine is %s for %s, which know it by no other name", self.Name, list[0].Name))
		}
	}
	self.Name = cmp.Or(n.Machine, self.Name)
	if n.Hub != "" {
		self.Hub, self.Trust = n.Hub, n.Trust
		if err := checkHub(&self); err != nil {
			return api.Links{}, err
		}
	}
	if err := l.ensureKey(n.NewKey); err != nil {
		return api.Links{}, err
	}
	if err := lg.Links.SetLink(ctx, self); err != nil {
		return api.Links{}, err
	}
	l.LinksChanged()
	return l.Links(ctx)
}

// ensureKey creates the key of this machine if there is none. With replace it always creates one, and keeps the
// old key in a file next to it. If it fails, the key is unchanged.
func (l *Machines) ensureKey(replace bool) error {
	path := filepath.Join(l.Opts.State, nats.KeyFile)
	target := path
	switch _, err := nats.ReadKey(path); {
	case err == nil && !replace:
		return nil
	case err == nil:
		old, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path+".old", old, 0o600)
		}
		if err != nil {
			return err
		}
		target = path + ".new"
		if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	key, err := nats.NewKey()
	if err == nil {
		err = nats.WriteKey(target, key)
	}
	switch {
	case target == path && errors.Is(err, fs.ErrExist): // another process has created it
		return nil
	case err != nil || target == path:
		return err
	}
	return os.Rename(target, path)
}

// checkHub returns an error if the address of the hub or its trust is invalid. It makes the path of a
// certificate absolute.
func checkHub(self *ledger.Link) error {
	o := nats.Options{Hub: self.Hub}.Trusting(self.Trust)
	if o.CA != "" { // the service runs in another directory
		path, err := filepath.Abs(o.CA)
		if err != nil {
			return err
		}
		self.Trust, o.CA = path, path
	}
	err := o.Check()
	if err == nil && strings.HasPrefix(self.Hub, "ssh:") {
		_, err = ssh.Parse(self.Hub)
	}
	if err != nil {
		return api.Decide(api.CodeInvalid, "", "%v", err)
	}
	return nil
}

// AddMachine links a machine; see [api.Bridge].
func (l *Machines) AddMachine(ctx context.Context, n api.NewMachine) (api.Machine, error) {
	card, err := nats.ParseCard(n.Card)
	if err != nil {
		return api.Machine{}, api.Decide(api.CodeInvalid, "print the card on the other machine with: teambridge link card", "%v", err)
	}
	lg, err := l.Opts.Ledger(ctx)
	if err != nil {
		return api.Machine{}, err
	}
	self, found, err := lg.Links.Link(ctx)
	switch {
	case err != nil:
		return api.Machine{}, err
	case !found:
		return api.Machine{}, api.Decide(api.CodeUsage, "name it with: teambridge link card --name NAME", "this machine has no name yet")
	case card.Name == self.Name:
		return api.Machine{}, api.Decide(api.CodeInvalid, "give the card of the other machine", "%s is the name of this machine", card.Name)
	}
	for _, team := range n.Teams {
		if err := l.checkShare(team, false); err != nil {
			return api.Machine{}, err
		}
	}
	if err := lg.Links.AddMachine(ctx, card.Name, card.String(), n.Replace); errors.Is(err, ledger.ErrConflict) {
		return api.Machine{}, api.Decide(api.CodeConflict, "if it was installed anew, and its person told you the new card: --replace", "%s is linked with another card", card.Name)
	} else if err != nil {
		return api.Machine{}, err
	}
	return l.share(ctx, card.Name, false, n.Teams...)
}

// checkShare returns an error if a team cannot be shared.
func (l *Machines) checkShare(team string, stop bool) error {
	if err := teams.CheckName("team", team); err != nil {
		return api.Decide(api.CodeInvalid, "", "%v", err)
	}
	if stop {
		return nil
	}
	if panes, err := l.Reserved(team, pane.Team); err != nil || !panes {
		return err
	}
	return api.Decide(api.CodeInvalid, "share the sessions in them: teambridge link share MACHINE "+pane.SessionTeam,
		"registered panes are not shared: text typed there counts as your own words")
}

// ShareTeam lets a machine write to a team, or revokes that; see [api.Bridge]. After a revocation, the entries
// of the machine's members leave the team, since a member with an entry could still write to it.
func (l *Machines) ShareTeam(ctx context.Context, machine string, n api.NewShare) (api.Machine, error) {
	if err := l.checkShare(n.Team, n.Stop); err != nil {
		return api.Machine{}, err
	}
	m, err := l.share(ctx, machine, n.Stop, n.Team)
	if err != nil || !n.Stop {
		return m, err
	}
	lg, err := l.Opts.Ledger(ctx)
	if err == nil {
		err = l.endAccess(ctx, lg, machine, n.Team)
	}
	if err != nil {
		err = fmt.Errorf("%s is shared with %s no longer, but the entries of its members are still in it: %w", n.Team, machine, err)
	}
	return m, err
}

func (l *Machines) share(ctx context.Context, machine string, stop bool, shared ...string) (api.Machine, error) {
	lg, err := l.Opts.Ledger(ctx)
	if err != nil {
		return api.Machine{}, err
	}
	for _, team := range shared {
		root, err := l.Opts.Root()
		if err != nil {
			return api.Machine{}, err
		}
		if err := lg.Links.Share(ctx, machine, root.Path(), team, !stop); errors.Is(err, ledger.ErrUnknown) {
			return api.Machine{}, NoMachine(machine)
		} else if err != nil {
			return api.Machine{}, err
		}
	}
	l.LinksChanged()
	m, err := l.Machine(ctx, machine)
	return view.Machine(m), err
}

// Machine returns the linked machine with a name.
func (l *Machines) Machine(ctx context.Context, name string) (ledger.Machine, error) {
	list, err := l.Linked(ctx)
	if err != nil {
		return ledger.Machine{}, err
	}
	i := slices.IndexFunc(list, func(m ledger.Machine) bool { return m.Name == name })
	if i < 0 {
		return ledger.Machine{}, NoMachine(name)
	}
	return list[i], nil
}

func NoMachine(name string) error {
	return api.Decide(api.CodeNotFound, "see the links with: teambridge link list; make one with: teambridge link add CARD", "there is no link with a machine called %q", name)
}

// RemoveMachine ends the link with a machine; see [api.Bridge].
func (l *Machines) RemoveMachine(ctx context.Context, machine string) (api.Machine, error) {
	m, err := l.Machine(ctx, machine)
	if err != nil {
		return api.Machine{}, err
	}
	lg, err := l.Opts.Ledger(ctx)
	if err == nil {
		_, err = lg.Links.RemoveMachine(ctx, machine, "the link with "+machine+" was removed")
	}
	if err != nil {
		return api.Machine{}, err
	}
	if err = l.endAccess(ctx, lg, machine, ""); err != nil {
		err = fmt.Errorf("there is no link with %s any more, but the entries of its members are still in teams, until a service removes them: %w", machine, err)
	}
	l.LinksChanged()
	return view.Machine(m), err
}

// LinksChanged notifies the carrier, if any, of changed links.
func (l *Machines) LinksChanged() {
	if l.carrier != nil {
		l.carrier.Poke()
		l.carrier.opts.Changed()
	}
}
