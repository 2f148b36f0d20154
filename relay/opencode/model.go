package opencode

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"teambridge/relay/agent"
	"teambridge/relay/mode"
)

// model finds the model of a mode. The mode names it by PROVIDER/MODEL, or by an id that only one provider
// has; the default is the configured one. The result is empty if OpenCode should choose.
func (o Options) model(ctx context.Context, c *client, m mode.Mode) (modelRef, error) {
	name, asked := m.Model.Value()
	if _, _, ok := o.profile.ProviderModel(); ok && !asked {
		name, asked = o.profile.Model, true
	}
	if !asked {
		var err error
		if name, err = c.configModel(ctx, o.Dir); hasStatus(err, http.StatusNotFound) || hasStatus(err, http.StatusBadRequest) {
			return modelRef{}, nil // a server without a configured model chooses one
		} else if err != nil || name == "" {
			return modelRef{}, err
		}
	}
	all, err := c.models(ctx, o.Dir)
	if err != nil {
		return modelRef{}, err
	}
	if i := slices.IndexFunc(all, func(m modelRef) bool { return m.String() == name }); i >= 0 {
		return all[i], nil
	}
	found := slices.DeleteFunc(all, func(m modelRef) bool { return m.ID != name })
	switch {
	case len(found) == 1:
		return found[0], nil
	case !asked:
		return modelRef{}, nil
	case len(found) > 1:
		return modelRef{}, fmt.Errorf("opencode: several providers have a model %.80q: write %s or another: %w", name, found[0], agent.ErrRefused)
	}
	return modelRef{}, fmt.Errorf("opencode: OpenCode has no model %.80q; `opencode models` lists them: %w", name, agent.ErrRefused)
}
