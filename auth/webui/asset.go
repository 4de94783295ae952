package webui

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed assets/*
var assetFiles embed.FS

// assets are the files that pages use. Their addresses have the hash of what is in
// them, so a browser may keep them for ever.
type assets struct {
	address map[string]string // by name: "style.css" to "/assets/style.0123456789abcdef.css"
	files   map[string]asset  // by address
}

type asset struct {
	kind    string
	content []byte
}

func newAssets(more fs.FS) (*assets, error) {
	a := &assets{address: make(map[string]string), files: make(map[string]asset)}
	own, err := fs.Sub(assetFiles, "assets")
	if err != nil {
		return nil, fmt.Errorf("webui: assets: %w", err)
	}
	for _, from := range []fs.FS{own, more} {
		if from == nil {
			continue
		}
		list, err := fs.ReadDir(from, ".")
		if err != nil {
			return nil, fmt.Errorf("webui: assets: %w", err)
		}
		for _, entry := range list {
			if err := a.add(from, entry.Name()); err != nil {
				return nil, err
			}
		}
	}
	return a, nil
}

func (a *assets) add(from fs.FS, name string) error {
	ext := path.Ext(name)
	kind := ""
	switch ext {
	case ".css":
		kind = "text/css; charset=utf-8"
	case ".js":
		kind = "text/javascript; charset=utf-8"
	case ".svg":
		kind = "image/svg+xml"
	default:
		return fmt.Errorf("webui: assets: %s; want .css, .js or .svg", name)
	}
	if a.address[name] != "" {
		return fmt.Errorf("webui: assets: %s is there already", name)
	}
	content, err := fs.ReadFile(from, name)
	if err != nil {
		return fmt.Errorf("webui: assets: %w", err)
	}
	sum := sha256.Sum256(content)
	address := assetsPath + strings.TrimSuffix(name, ext) + "." + hex.EncodeToString(sum[:8]) + ext
	a.address[name], a.files[address] = address, asset{kind, content}
	return nil
}

// Asset returns the address of a file of /assets/ by its name, such as style.css.
func (s *Site) Asset(name string) (string, error) {
	address, ok := s.assets.address[name]
	if !ok {
		return "", fmt.Errorf("webui: no asset is named %q", name)
	}
	return address, nil
}

// Assets serves /assets/ alone.
func (s *Site) Assets() http.Handler {
	missing := s.guarded(Route{Method: "*", Access: Open, Handler: func(http.ResponseWriter, *http.Request, Visit) error { return notFound() }})
	return s.byMethod(map[string]http.Handler{http.MethodGet: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		file, ok := s.assets.files[r.URL.Path]
		if !ok {
			missing.ServeHTTP(w, r)
			return
		}
		s.headers(w, r, false)
		bound(w, r, false)
		h := w.Header()
		h.Del("Vary")
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
		h.Set("Content-Type", file.kind)
		http.ServeContent(&answer{ResponseWriter: w, bounded: r.ProtoMajor != 1}, r, "", time.Time{}, bytes.NewReader(file.content))
	})})
}
