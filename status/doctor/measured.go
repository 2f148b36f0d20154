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

// maxMeasured bounds the file of a version, which has about 300 bytes for each point.
const maxMeasured = 256 << 10

// Measured is the directory in a state directory for what was measured of versions of Claude Code.
func Measured(state string) string { return filepath.Join(state, "claude") }

func measuredPath(state string, version string) string {
	return filepath.Join(Measured(state), version+".json")
}

// Keep writes what "teambridge-probe" has found of a version into a state directory, where [Examine] finds it. It replaces what was
// found before.
func Keep(state string, p api.Probe) error {
	data, err := json.MarshalIndent(p, "", "  ")
	if err == nil {
		err = os.MkdirAll(Measured(state), 0o700)
	}
	if err == nil {
		err = atomicfile.Write(measuredPath(state, p.Version), append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("doctor: keep what was found out about Claude Code %s: %w", p.Version, err)
	}
	return nil
}

// measured returns what [Keep] wrote of a version. If it wrote nothing, the error is fs.ErrNotExist.
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
		return api.Probe{}, fmt.Errorf("doctor: %s is not what a probe writes, and is ignored: %w; remove it, or probe again", path, err)
	}
	return p, nil
}
