package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"teambridge/status/api"
	"teambridge/teams"
	"teambridge/teams/atomicfile"
)

// maxMeasured limits the size of a version's file, which has about 300 bytes per point.
const maxMeasured = 256 << 10

// Measured returns the directory for the measurements of Claude Code versions, in a state directory.
func Measured(state string) string { return filepath.Join(state, "claude") }

func measuredPath(state string, version string) string {
	return filepath.Join(Measured(state), version+".json")
}

// Keep stores the results of "teambridge-probe" for a version in a state directory, where a [Checkup] finds them. It
// replaces earlier results.
func Keep(state string, p api.Probe) error {
	data, err := json.MarshalIndent(p, "", "  ")
	if err == nil {
		err = os.MkdirAll(Measured(state), 0o700)
	}
	if err == nil {
		err = atomicfile.Write(measuredPath(state, p.Version), append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("doctor: keep the measurements of Claude Code %s: %w", p.Version, err)
	}
	return nil
}

// measured returns the results that [Keep] stored for a version. The error is fs.ErrNotExist if there are none.
func measured(state string, v teams.Version) (p api.Probe, err error) {
	path := measuredPath(state, v.String())
	file, err := os.Open(path)
	if err != nil {
		return api.Probe{}, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxMeasured+1))
	switch {
	case err != nil:
	case len(data) > maxMeasured:
		err = fmt.Errorf("it is larger than %d bytes", maxMeasured)
	default:
		err = json.Unmarshal(data, &p)
	}
	if err == nil && (p.Version != v.String() || len(p.Points) == 0) {
		err = fmt.Errorf("it has %d points of version %.40q", len(p.Points), p.Version)
	}
	if err != nil {
		return api.Probe{}, fmt.Errorf("doctor: %s is not a file of the probe, and is ignored: %w; remove it, or probe again", path, err)
	}
	return p, nil
}
