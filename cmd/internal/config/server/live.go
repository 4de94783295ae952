package server

// LiveKeys are the keys whose change a reload applies while requests run. The
// others need a restart.
func LiveKeys() []string { return []string{"log.level", "models", "endpoints"} }

// WithLive returns c with the values of next under LiveKeys.
func (c Config) WithLive(next Config) Config {
	c.Log.Level = next.Log.Level
	c.Gateway.Models, c.Gateway.Endpoints = next.Gateway.Models, next.Gateway.Endpoints
	return c
}
