package plugin

// CookieForTest is the variable by which a program knows that a host started it.
const CookieForTest = cookieKey + "=" + cookieValue
