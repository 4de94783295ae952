package portal

import "strings"

// browser shortens what a browser says of itself to what a person knows it by, such
// as "Firefox on Linux". What is of no known kind is shown as it is, up to 80 bytes.
func browser(agent string) string {
	name := firstIn(agent, [][2]string{
		{"Edg/", "Edge"},
		{"OPR/", "Opera"},
		{"Firefox/", "Firefox"},
		{"HeadlessChrome/", "Headless Chrome"},
		{"Chrome/", "Chrome"},
		{"CriOS/", "Chrome"},
		{"FxiOS/", "Firefox"},
		{"Safari/", "Safari"},
		{"curl/", "curl"},
	})
	system := firstIn(agent, [][2]string{
		{"iPhone", "iPhone"}, {"iPad", "iPad"}, {"Android", "Android"}, {"Windows", "Windows"}, {"Mac OS X", "macOS"}, {"CrOS", "ChromeOS"}, {"Linux", "Linux"},
	})
	switch {
	case name != "" && system != "":
		return name + " on " + system
	case name != "":
		return name
	case agent == "":
		return "unknown"
	}
	return strings.ToValidUTF8(agent[:min(len(agent), 80)], "")
}

func firstIn(text string, of [][2]string) string {
	for _, pair := range of {
		if strings.Contains(text, pair[0]) {
			return pair[1]
		}
	}
	return ""
}
