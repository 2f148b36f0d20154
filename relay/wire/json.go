package wire

// unmarshal leaves *p as it is on an error.
func unmarshal[T any, P interface {
	*T
	record
}](data []byte, p P) error {
	v, err := parse(data, structure[T, P])
	if err == nil {
		*p = v
	}
	return err
}

func marshal[T any, P interface {
	*T
	record
}](p P) ([]byte, error) {
	return format(p, structure[T, P])
}

func (v Text) MarshalJSON() ([]byte, error)                            { return marshal(&v) }
func (v Service) MarshalJSON() ([]byte, error)                         { return marshal(&v) }
func (v ToolCallStart) MarshalJSON() ([]byte, error)                   { return marshal(&v) }
func (v ToolCallEnd) MarshalJSON() ([]byte, error)                     { return marshal(&v) }
func (v File) MarshalJSON() ([]byte, error)                            { return marshal(&v) }
func (v Image) MarshalJSON() ([]byte, error)                           { return marshal(&v) }
func (v TurnStart) MarshalJSON() ([]byte, error)                       { return marshal(&v) }
func (v TurnEnd) MarshalJSON() ([]byte, error)                         { return marshal(&v) }
func (v Start) MarshalJSON() ([]byte, error)                           { return marshal(&v) }
func (v Stop) MarshalJSON() ([]byte, error)                            { return marshal(&v) }
func (v Usage) MarshalJSON() ([]byte, error)                           { return marshal(&v) }
func (v Envelope) MarshalJSON() ([]byte, error)                        { return marshal(&v) }
func (v MessageMeta) MarshalJSON() ([]byte, error)                     { return marshal(&v) }
func (v UserMessage) MarshalJSON() ([]byte, error)                     { return marshal(&v) }
func (v AgentMessage) MarshalJSON() ([]byte, error)                    { return marshal(&v) }
func (v SessionProtocolMessage) MarshalJSON() ([]byte, error)          { return marshal(&v) }
func (v SessionMessage) MarshalJSON() ([]byte, error)                  { return marshal(&v) }
func (v VersionedEncryptedValue) MarshalJSON() ([]byte, error)         { return marshal(&v) }
func (v VersionedNullableEncryptedValue) MarshalJSON() ([]byte, error) { return marshal(&v) }
func (v UpdateNewMessageBody) MarshalJSON() ([]byte, error)            { return marshal(&v) }
func (v UpdateSessionBody) MarshalJSON() ([]byte, error)               { return marshal(&v) }
func (v UpdateMachineBody) MarshalJSON() ([]byte, error)               { return marshal(&v) }
func (v CoreUpdateContainer) MarshalJSON() ([]byte, error)             { return marshal(&v) }

func (v *Text) UnmarshalJSON(data []byte) error                            { return unmarshal(data, v) }
func (v *Service) UnmarshalJSON(data []byte) error                         { return unmarshal(data, v) }
func (v *ToolCallStart) UnmarshalJSON(data []byte) error                   { return unmarshal(data, v) }
func (v *ToolCallEnd) UnmarshalJSON(data []byte) error                     { return unmarshal(data, v) }
func (v *File) UnmarshalJSON(data []byte) error                            { return unmarshal(data, v) }
func (v *Image) UnmarshalJSON(data []byte) error                           { return unmarshal(data, v) }
func (v *TurnStart) UnmarshalJSON(data []byte) error                       { return unmarshal(data, v) }
func (v *TurnEnd) UnmarshalJSON(data []byte) error                         { return unmarshal(data, v) }
func (v *Start) UnmarshalJSON(data []byte) error                           { return unmarshal(data, v) }
func (v *Stop) UnmarshalJSON(data []byte) error                            { return unmarshal(data, v) }
func (v *Usage) UnmarshalJSON(data []byte) error                           { return unmarshal(data, v) }
func (v *Envelope) UnmarshalJSON(data []byte) error                        { return unmarshal(data, v) }
func (v *MessageMeta) UnmarshalJSON(data []byte) error                     { return unmarshal(data, v) }
func (v *UserMessage) UnmarshalJSON(data []byte) error                     { return unmarshal(data, v) }
func (v *AgentMessage) UnmarshalJSON(data []byte) error                    { return unmarshal(data, v) }
func (v *SessionProtocolMessage) UnmarshalJSON(data []byte) error          { return unmarshal(data, v) }
func (v *SessionMessage) UnmarshalJSON(data []byte) error                  { return unmarshal(data, v) }
func (v *VersionedEncryptedValue) UnmarshalJSON(data []byte) error         { return unmarshal(data, v) }
func (v *VersionedNullableEncryptedValue) UnmarshalJSON(data []byte) error { return unmarshal(data, v) }
func (v *UpdateNewMessageBody) UnmarshalJSON(data []byte) error            { return unmarshal(data, v) }
func (v *UpdateSessionBody) UnmarshalJSON(data []byte) error               { return unmarshal(data, v) }
func (v *UpdateMachineBody) UnmarshalJSON(data []byte) error               { return unmarshal(data, v) }
func (v *CoreUpdateContainer) UnmarshalJSON(data []byte) error             { return unmarshal(data, v) }
