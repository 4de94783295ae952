package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/internal/backend"
	"github.com/llmgw/llmgw/storage/internal/rows"
)

const (
	nodeColumns   = `id, instance, address, agent_version, boot, labels, registration, first_seen, last_seen`
	cordonColumns = `node, target, reason, at`
)

func scanNode(r scanner) (n storage.Node, err error) {
	var parts rows.NodeParts
	err = r.Scan(&n.ID, &n.Instance, &n.Address, &n.AgentVersion, &n.Boot, &parts.Labels, &parts.Registration, &n.FirstSeen, &n.LastSeen)
	if err != nil {
		return n, err
	}
	if err := parts.Into(&n); err != nil {
		return n, backend.Damaged("node %s: %v", n.ID, err)
	}
	n.FirstSeen, n.LastSeen = rows.Time(n.FirstSeen), rows.Time(n.LastSeen)
	return n, nil
}

func insertNode(ctx context.Context, tx pgx.Tx, n storage.Node) error {
	parts := rows.PartsOfNode(&n)
	_, err := tx.Exec(ctx, `INSERT INTO nodes (`+nodeColumns+`) VALUES (`+marks(9)+`)`, n.ID, n.Instance, n.Address, n.AgentVersion, n.Boot,
		parts.Labels, parts.Registration, n.FirstSeen, n.LastSeen)
	return err
}

// nodeByID is nil for a node that is not there. lock is empty or FOR UPDATE.
func nodeByID(ctx context.Context, q querier, id, lock string) (*storage.Node, error) {
	if !rows.Keepable(id) {
		return nil, nil //nolint:nilnil // absent
	}
	n, err := scanNode(q.QueryRow(ctx, `SELECT `+nodeColumns+` FROM nodes WHERE id = $1 `+lock, id))
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
	return s.fenced(ctx, op, f, func(ctx context.Context, tx pgx.Tx) error {
		for _, n := range nodes {
			old, err := nodeByID(ctx, tx, n.ID, "FOR UPDATE")
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, `DELETE FROM nodes WHERE id = $1`, n.ID); err != nil {
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
	err = s.view(ctx, "node", func(ctx context.Context, q querier) error {
		there, err := nodeByID(ctx, q, id, "")
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
	if !rows.Keepable(id) {
		return fail(ctx, op, orNotFound("node %q", id))
	}
	return s.fenced(ctx, op, f, func(ctx context.Context, tx pgx.Tx) error {
		if done, err := auditKept(ctx, tx, rows.Audit(why)); done || err != nil {
			return err
		}
		var replica string
		err := tx.QueryRow(ctx, `SELECT id FROM replicas, jsonb_array_elements(shards::jsonb) shard WHERE shard ->> 'node' = $1 LIMIT 1`, id).Scan(&replica)
		if err == nil {
			return fmt.Errorf("%w: replica %q has a shard on node %q; stop it first", storage.ErrConflict, replica, id)
		}
		if !missing(err) {
			return err
		}
		gone, err := tx.Exec(ctx, `DELETE FROM nodes WHERE id = $1`, id)
		if err != nil {
			return err
		}
		if gone.RowsAffected() == 0 {
			return orNotFound("node %q", id)
		}
		if _, err := tx.Exec(ctx, `DELETE FROM cordons WHERE node = $1`, id); err != nil {
			return err
		}
		return appendAudit(ctx, tx, rows.Audit(why))
	})
}

func orNotFound(what string, args ...any) error {
	return fmt.Errorf("%w: %s", storage.ErrNotFound, fmt.Sprintf(what, args...))
}

func scanCordon(r scanner) (c storage.Cordon, err error) {
	var target string
	if err := r.Scan(&c.Node, &target, &c.Reason, &c.At); err != nil {
		return c, err
	}
	if err := c.Target.UnmarshalText([]byte(target)); err != nil {
		return c, backend.Damaged("cordon of node %s: %v", c.Node, err)
	}
	return rows.Cordon(c), nil
}

func insertCordon(ctx context.Context, tx pgx.Tx, c storage.Cordon) error {
	return writeCordon(ctx, tx, c, "")
}

// writeCordon keeps a cordon. conflict says what becomes of one that is there.
func writeCordon(ctx context.Context, tx pgx.Tx, c storage.Cordon, conflict string) error {
	_, err := tx.Exec(ctx, `INSERT INTO cordons (`+cordonColumns+`) VALUES (`+marks(4)+`) `+conflict, c.Node, c.Target.String(), c.Reason, c.At)
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
	return s.update(ctx, op, func(ctx context.Context, tx pgx.Tx) error {
		// A repeated call would undo what came in between.
		if done, err := auditKept(ctx, tx, rows.Audit(why)); done || err != nil {
			return err
		}
		const replace = `ON CONFLICT (node) DO UPDATE SET (` + cordonColumns + `) = (excluded.node, excluded.target, excluded.reason, excluded.at)`
		if err := writeCordon(ctx, tx, rows.Cordon(c), replace); err != nil {
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
	if !rows.Keepable(node) {
		return nil // there is none
	}
	return s.update(ctx, op, func(ctx context.Context, tx pgx.Tx) error {
		if done, err := auditKept(ctx, tx, rows.Audit(why)); done || err != nil {
			return err
		}
		gone, err := tx.Exec(ctx, `DELETE FROM cordons WHERE node = $1`, node)
		if err != nil {
			return err
		}
		if gone.RowsAffected() == 0 {
			return nil
		}
		return appendAudit(ctx, tx, rows.Audit(why))
	})
}

// ListCordons implements [storage.Nodes].
func (s *Store) ListCordons(ctx context.Context) (out []storage.Cordon, err error) {
	err = s.view(ctx, "list cordons", func(ctx context.Context, q querier) error {
		out, err = all(ctx, q, scanCordon, `SELECT `+cordonColumns+` FROM cordons ORDER BY node`)
		return err
	})
	return out, err
}
