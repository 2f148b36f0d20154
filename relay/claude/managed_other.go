//go:build !darwin && !windows

package claude

// managedSettings is the directory of the settings of an organization.
const managedSettings = "/etc/claude-code"
