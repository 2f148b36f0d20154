package acp

import (
	"encoding/json"
	"fmt"
)

// The methods in use. TestTypes compares this file with the published schema.
const (
	methodInitialize = "initialize"
	methodNew        = "session/new"
	methodLoad       = "session/load"
	methodPrompt     = "session/prompt"
	methodCancel     = "session/cancel"
	methodUpdate     = "session/update"
	methodPermission = "session/request_permission"
	methodSetMode    = "session/set_mode"
	methodSetOption  = "session/set_config_option"
	methodSetModel   = "session/set_model" // not published; Gemini has it instead of an option
)

// version is the version of the protocol.
const version = 1

// message is a line: a request, an answer or a notification.
type message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *CallError      `json:"error,omitempty"`
}

// CallError is an agent's refusal of a call.
type CallError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// The error codes in use.
const (
	codeNoMethod = -32601
	codeNoAuth   = -32000
	codeNotFound = -32002
)

func (e *CallError) Error() string {
	text := fmt.Sprintf("%.1000s (%d)", e.Message, e.Code)
	if len(e.Data) > 0 && string(e.Data) != "null" {
		text += fmt.Sprintf(": %.1000s", e.Data)
	}
	if e.Code == codeNoAuth {
		text += "; log in with the agent itself, or set its key in the environment"
	}
	return text
}

type initializeParams struct {
	ProtocolVersion    int            `json:"protocolVersion"`
	ClientCapabilities struct{}       `json:"clientCapabilities"` // none: an agent works on files and runs commands itself, by its own rules
	ClientInfo         implementation `json:"clientInfo"`
}

type implementation struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

type initialized struct {
	ProtocolVersion   int `json:"protocolVersion"`
	AgentCapabilities struct {
		LoadSession bool `json:"loadSession"`
	} `json:"agentCapabilities"`
	AgentInfo implementation `json:"agentInfo"`
}

// openParams are the parameters of session/new and session/load.
type openParams struct {
	SessionID  string     `json:"sessionId,omitempty"` // only for session/load
	Cwd        string     `json:"cwd"`
	MCPServers []struct{} `json:"mcpServers"`
}

// opened is the answer to both session/new and session/load.
type opened struct {
	SessionID string `json:"sessionId"` // only for session/new
	Modes     struct {
		Current   string `json:"currentModeId"`
		Available []struct {
			ID string `json:"id"`
		} `json:"availableModes"`
	} `json:"modes"`
	Models struct {
		Current   string `json:"currentModelId"`
		Available []struct {
			ID   string `json:"modelId"`
			Name string `json:"name"`
		} `json:"availableModels"`
	} `json:"models"`
	Options []configOption `json:"configOptions"`
}

type configOption struct {
	ID       string          `json:"id"`
	Category string          `json:"category"`
	Current  json.RawMessage `json:"currentValue"`
	Options  []configValue   `json:"options"`
}

// configValue is a value, or a group of values.
type configValue struct {
	Value   string        `json:"value"`
	Name    string        `json:"name"`
	Options []configValue `json:"options"`
}

type promptParams struct {
	SessionID string         `json:"sessionId"`
	Prompt    []contentBlock `json:"prompt"`
}

type contentBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type prompted struct {
	StopReason string `json:"stopReason"`
	Usage      *usage `json:"usage"` // not in any published version
}

type usage struct {
	Input       int64  `json:"inputTokens"`
	Output      int64  `json:"outputTokens"`
	CachedRead  *int64 `json:"cachedReadTokens"`
	CachedWrite *int64 `json:"cachedWriteTokens"`
}

// Reasons for the end of a turn.
const (
	stopEnd       = "end_turn"
	stopCancelled = "cancelled"
)

// sessionParams are the parameters of the other calls about a session.
type sessionParams struct {
	SessionID string `json:"sessionId"`
	ModeID    string `json:"modeId,omitempty"`   // for session/set_mode
	ModelID   string `json:"modelId,omitempty"`  // for session/set_model
	ConfigID  string `json:"configId,omitempty"` // for session/set_config_option
	Value     string `json:"value,omitempty"`    // for session/set_config_option
}

type notification struct {
	SessionID string          `json:"sessionId"`
	Update    json.RawMessage `json:"update"`
}

// Update is an agent's report on its work.
type Update struct {
	Kind string `json:"sessionUpdate"`

	// The content of a chunk is a block; the content of a tool call is a list of results.
	Content   json.RawMessage `json:"content"`
	MessageID string          `json:"messageId"`

	toolCall

	CurrentMode string `json:"currentModeId"`
}

// The kinds of updates in use.
const (
	userChunk    = "user_message_chunk"
	agentChunk   = "agent_message_chunk"
	thoughtChunk = "agent_thought_chunk"
	toolBegins   = "tool_call"
	toolChanges  = "tool_call_update"
	modeChanges  = "current_mode_update"
)

type toolCall struct {
	ID     string          `json:"toolCallId"`
	Title  string          `json:"title"`
	Name   string          `json:"name"`
	Tool   string          `json:"kind"` // the kind of the tool
	Status string          `json:"status"`
	Input  json.RawMessage `json:"rawInput"`
}

// The states of a tool call.
const (
	statusRuns      = "in_progress"
	statusCompleted = "completed"
	statusFailed    = "failed"
)

// text returns the text of a chunk, or "" for other content, such as a picture.
func (u *Update) text() string {
	var c contentBlock
	if json.Unmarshal(u.Content, &c) != nil || c.Type != "text" {
		return ""
	}
	return c.Text
}

// diff is a change of a file, in the content of a tool call.
type diff struct {
	Type    string `json:"type"`
	Path    string `json:"path"`
	OldText string `json:"oldText"`
	NewText string `json:"newText"`
}

type permissionParams struct {
	SessionID string `json:"sessionId"`
	ToolCall  struct {
		toolCall
		Content []diff `json:"content"`
	} `json:"toolCall"`
	Options []permissionOption `json:"options"`
}

type permissionOption struct {
	ID   string `json:"optionId"`
	Kind string `json:"kind"`
}

// The kinds of options in use. "Always" is never chosen, because agents keep such a choice for other
// sessions, too.
const (
	allowOnce  = "allow_once"
	rejectOnce = "reject_once"
)

type permissionAnswer struct {
	Outcome outcome `json:"outcome"`
}

type outcome struct {
	Outcome  string `json:"outcome"` // selected or cancelled
	OptionID string `json:"optionId,omitempty"`
}
