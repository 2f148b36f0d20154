package teams

// homeVariable holds the home directory.
const homeVariable = "USERPROFILE"
