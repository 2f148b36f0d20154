package mode_test

import (
	"fmt"

	"teambridge/relay/mode"
)

func ExampleParse() {
	m, err := mode.Parse([]byte(`{"model": "sonnet", "permissionMode": "default"}`))
	fmt.Println(m.Hash(), err)
	_, err = mode.Parse([]byte(`{"permissionmode": "plan"}`))
	fmt.Println(err)
	// Output:
	// 55fa6c612ece7172d2be7af6db147db560c78c38f5a170f848adb1ea6fa449a3 <nil>
	// mode: "permissionmode": is no setting of a mode, must be one of allowedTools, appendSystemPrompt, customSystemPrompt, disallowedTools, fallbackModel, model, permissionMode
}
