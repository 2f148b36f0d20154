package teams

// homeVariable is the variable with the home directory.
const homeVariable = "USERPROFILE"
