package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/llmgw/llmgw/cmd/internal/bench/peer"
)

// service is a server that can be killed and started again, on the same address
// and with what it had on disk.
type service struct {
	command peer.Command
	kill    syscall.Signal
	answers func(context.Context) error
	process *peer.Process
}

// start starts it and waits until it answers.
func (s *service) start(ctx context.Context) error {
	p, err := peer.Start(s.command)
	if err != nil {
		return err
	}
	s.process = p
	for end := time.Now().Add(30 * time.Second); ; {
		err := s.answers(ctx)
		if err == nil {
			return nil
		}
		if p.Exited() || time.Now().After(end) || !pause(ctx, 20*time.Millisecond) {
			p.Stop()
			return fmt.Errorf("%s does not answer: %w; its output:\n%s", s.command.Name, err, p.Log())
		}
	}
}

// stop ends it as a crash does.
func (s *service) stop() {
	if s.process != nil {
		s.process.Signal(s.kill)
	}
}

// newRedis starts a Redis or Valkey that keeps nothing on disk.
func newRedis(ctx context.Context, program, dir string) (s *service, address string, err error) {
	path, err := found(program, "valkey-server", "redis-server")
	if err != nil {
		return nil, "", err
	}
	addrs, err := peer.FreeAddrs(ctx, 1)
	if err != nil {
		return nil, "", err
	}
	host, port, _ := net.SplitHostPort(addrs[0])
	client := redis.NewClient(&redis.Options{Addr: addrs[0], MaxRetries: -1})
	s = &service{
		command: peer.Command{Name: "redis", Path: path, Dir: dir, Args: []string{"--bind", host, "--port", port, "--save", "", "--appendonly", "no"}},
		kill:    syscall.SIGKILL,
		answers: func(ctx context.Context) error { return client.Ping(ctx).Err() },
	}
	return s, addrs[0], s.start(ctx)
}

// newPostgres starts a PostgreSQL on a new cluster, which no network reaches.
func newPostgres(ctx context.Context, bin, dir string) (s *service, dsn string, err error) {
	if bin == "" {
		bins, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
		slices.Sort(bins)
		bin = append([]string{""}, bins...)[len(bins)]
	}
	initdb, err1 := found(filepath.Join(bin, "initdb"))
	server, err2 := found(filepath.Join(bin, "postgres"))
	if err := errors.Join(err1, err2); err != nil {
		return nil, "", err
	}
	home, user := filepath.Join(dir, "postgres"), ""
	if err := os.Mkdir(home, 0o700); err != nil {
		return nil, "", err
	}
	if os.Getuid() == 0 {
		user = "postgres"                                                                                              // which refuses to run as root
		if err := errors.Join(os.Chmod(dir, 0o711), exec.CommandContext(ctx, "chown", user, home).Run()); err != nil { //nolint:gosec // a user must reach what is below
			return nil, "", err
		}
	}
	data := filepath.Join(home, "data")
	init, err := peer.Start(peer.Command{
		Name: "initdb", Path: initdb, Dir: dir, User: user,
		Args: []string{"-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"},
	})
	if err != nil {
		return nil, "", err
	}
	if !init.Wait() {
		return nil, "", fmt.Errorf("initdb failed:\n%s", init.Log())
	}
	dsn = "postgres://postgres@/postgres?host=" + url.QueryEscape(home)
	s = &service{
		// What a process has written survives its end without fsync, too; only
		// machines lose it.
		command: peer.Command{
			Name: "postgres", Path: server, Dir: dir, User: user,
			Args: []string{"-D", data, "-c", "listen_addresses=", "-c", "unix_socket_directories=" + home, "-c", "fsync=off"},
		},
		kill: syscall.SIGQUIT, // its word for an end without ado
		answers: func(ctx context.Context) error {
			conn, err := pgx.Connect(ctx, dsn)
			if err != nil {
				return err
			}
			return conn.Close(ctx)
		},
	}
	return s, dsn, s.start(ctx)
}

// found returns the path of the first program that there is.
func found(programs ...string) (string, error) {
	var errs []error
	for _, p := range programs {
		if p == "" {
			continue
		}
		path, err := exec.LookPath(p)
		if err == nil {
			return path, nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}
