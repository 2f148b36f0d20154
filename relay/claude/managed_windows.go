package claude

// managedSettings is the directory of the settings of an organization.
const managedSettings = `C:\Program Files\ClaudeCode`
