package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/internal/backend"
	"github.com/llmgw/llmgw/storage/internal/rows"
)

const (
	nodeColumns   = `id, instance, address, agent_version, boot, labels, registration, first_seen, last_seen`
	cordonColumns = `node, target, reason, at`
)

func scanNode(r scanner) (n storage.Node, err error) {
	var (
		parts       rows.NodeParts
		first, last int64
	)
	err = r.Scan(&n.ID, &n.Instance, &n.Address, &n.AgentVersion, &n.Boot, &parts.Labels, &parts.Registration, &first, &last)
	if err != nil {
		return n, err
	}
	if err := parts.Into(&n); err != nil {
		return n, backend.Damaged("node %s: %v", n.ID, err)
	}
	n.FirstSeen, n.LastSeen = rows.FromMicros(first), rows.FromMicros(last)
	return n, nil
}

func insertNode(ctx context.Context, tx *sql.Tx, n storage.Node) error {
	parts := rows.PartsOfNode(&n)
	_, err := tx.ExecContext(ctx, `INSERT INTO nodes (`+nodeColumns+`) VALUES (`+marks(9)+`)`, n.ID, n.Instance, n.Address, n.AgentVersion, n.Boot,
		parts.Labels, parts.Registration, n.FirstSeen.UnixMicro(), n.LastSeen.UnixMicro())
	return err
}

// nodeByID is nil for a node that is not there.
func nodeByID(ctx context.Context, q querier, id string) (*storage.Node, error) {
	n, err := scanNode(q.QueryRowContext(ctx, `SELECT `+nodeColumns+` FROM nodes WHERE id = ?`, id))
	if missing(err) {
		return nil, nil //nolint:nilnil // absent
	}
	return &n, err
}

// PutNodes implements [storage.Nodes].
func (s *Store) PutNodes(ctx context.Context, f storage.Fence, nodes []storage.Node) error {
	const op = "put nodes"
	for i := range nodes {
		if err := nodes[i].Validate(); err != nil {
			return fail(ctx, op, err)
		}
	}
	return s.fenced(ctx, op, f, func(tx *sql.Tx) error {
		for _, n := range nodes {
			old, err := nodeByID(ctx, tx, n.ID)
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, `DELETE FROM nodes WHERE id = ?`, n.ID); err != nil {
				return err
			}
			if err := insertNode(ctx, tx, rows.Node(n, old)); err != nil {
				return err
			}
		}
		return nil
	})
}

// Node implements [storage.Nodes].
func (s *Store) Node(ctx context.Context, id string) (n storage.Node, err error) {
	err = s.view(ctx, "node", func(q *sql.DB) error {
		there, err := nodeByID(ctx, q, id)
		if err != nil {
			return err
		}
		if there == nil {
			return fmt.Errorf("%w: node %q", storage.ErrNotFound, id)
		}
		n = *there
		return nil
	})
	return n, err
}

// ListNodes implements [storage.Nodes].
func (s *Store) ListNodes(ctx context.Context, p storage.Page) ([]storage.Node, string, error) {
	return list(ctx, s, "list nodes", p, place[storage.Node]{
		list: rows.Nodes, texts: 1, after: "(first_seen, id) > (?, ?)",
		cursor: func(n *storage.Node) (time.Time, []string) { return n.FirstSeen, []string{n.ID} },
	}, `SELECT `+nodeColumns+` FROM nodes`, where{}, `ORDER BY first_seen, id`, scanNode)
}

// RemoveNode implements [storage.Nodes].
func (s *Store) RemoveNode(ctx context.Context, f storage.Fence, id string, why storage.Audit) error {
	const op = "remove node"
	if err := why.Validate(); err != nil {
		return fail(ctx, op, err)
	}
	return s.fenced(ctx, op, f, func(tx *sql.Tx) error {
		if done, err := auditKept(ctx, tx, rows.Audit(why)); done || err != nil {
			return err
		}
		var replica string
		err := tx.QueryRowContext(ctx, `SELECT replicas.id FROM replicas, json_each(shards) WHERE json_each.value ->> 'node' = ? LIMIT 1`, id).Scan(&replica)
		if err == nil {
			return fmt.Errorf("%w: replica %q has a shard on node %q; stop it first", storage.ErrConflict, replica, id)
		}
		if !missing(err) {
			return err
		}
		gone, err := tx.ExecContext(ctx, `DELETE FROM nodes WHERE id = ?`, id)
		if err != nil {
			return err
		}
		if n, err := gone.RowsAffected(); err != nil || n == 0 {
			return orNotFound(err, "node %q", id)
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM cordons WHERE node = ?`, id); err != nil {
			return err
		}
		return appendAudit(ctx, tx, rows.Audit(why))
	})
}

// orNotFound is err or, where it is nil, that something is not there.
func orNotFound(err error, what string, args ...any) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: %s", storage.ErrNotFound, fmt.Sprintf(what, args...))
}

func scanCordon(r scanner) (c storage.Cordon, err error) {
	var target string
	var at int64
	if err := r.Scan(&c.Node, &target, &c.Reason, &at); err != nil {
		return c, err
	}
	if err := c.Target.UnmarshalText([]byte(target)); err != nil {
		return c, backend.Damaged("cordon of node %s: %v", c.Node, err)
	}
	c.At = rows.FromMicros(at)
	return c, nil
}

func insertCordon(ctx context.Context, tx *sql.Tx, c storage.Cordon) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO cordons (`+cordonColumns+`) VALUES (`+marks(4)+`)`, c.Node, c.Target.String(), c.Reason, c.At.UnixMicro())
	return err
}

// SetCordon implements [storage.Nodes].
func (s *Store) SetCordon(ctx context.Context, c storage.Cordon, why storage.Audit) error {
	const op = "set cordon"
	if err := c.Validate(); err != nil {
		return fail(ctx, op, err)
	}
	if err := why.Validate(); err != nil {
		return fail(ctx, op, err)
	}
	return s.update(ctx, op, func(tx *sql.Tx) error {
		// A repeated call would undo what came in between.
		if done, err := auditKept(ctx, tx, rows.Audit(why)); done || err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM cordons WHERE node = ?`, c.Node); err != nil {
			return err
		}
		if err := insertCordon(ctx, tx, rows.Cordon(c)); err != nil {
			return err
		}
		return appendAudit(ctx, tx, rows.Audit(why))
	})
}

// ClearCordon implements [storage.Nodes].
func (s *Store) ClearCordon(ctx context.Context, node string, why storage.Audit) error {
	const op = "clear cordon"
	if err := why.Validate(); err != nil {
		return fail(ctx, op, err)
	}
	return s.update(ctx, op, func(tx *sql.Tx) error {
		if done, err := auditKept(ctx, tx, rows.Audit(why)); done || err != nil {
			return err
		}
		gone, err := tx.ExecContext(ctx, `DELETE FROM cordons WHERE node = ?`, node)
		if err != nil {
			return err
		}
		if n, err := gone.RowsAffected(); err != nil || n == 0 {
			return err
		}
		return appendAudit(ctx, tx, rows.Audit(why))
	})
}

// ListCordons implements [storage.Nodes].
func (s *Store) ListCordons(ctx context.Context) (out []storage.Cordon, err error) {
	err = s.view(ctx, "list cordons", func(q *sql.DB) error {
		out, err = all(ctx, q, scanCordon, `SELECT `+cordonColumns+` FROM cordons ORDER BY node`)
		return err
	})
	return out, err
}
