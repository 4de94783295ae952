package server

// hints are what is said about keys that people write and this file does not
// have.
func hints() map[string]string {
	const secret = "a key does not stand in this file, which is shown, copied and committed; write key_file with the path of a file that holds it, or key_env with the name of a variable"
	return map[string]string{
		"endpoints[].key":     secret,
		"endpoints[].api_key": secret,
		"endpoints[].secret":  secret,
		"endpoints[].token":   secret,
	}
}

// numbers are what is meant by a port alone.
func numbers() map[string]string {
	return map[string]string{"listen": `":%s"`, "admin_listen": `"127.0.0.1:%s"`, "metrics_listen": `":%s"`, "agent_listen": `":%s"`}
}
