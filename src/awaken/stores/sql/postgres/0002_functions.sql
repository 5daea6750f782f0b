-- The functions that nodes call. A name carries a version: an older node goes on to call the older one.
-- Each finds its tables in the schema in which it was made.

-- Whether the owner of a thread is alive.
CREATE FUNCTION is_alive_v1(node int) RETURNS bool LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT AS $$
BEGIN
    RETURN node IS NOT NULL
        AND EXISTS (SELECT 1 FROM nodes WHERE id = node AND lease_until > clock_timestamp());
END $$;

-- The owners of threads that are not alive. There are few owners, and an index has them in order.
CREATE FUNCTION dead_owners_v1() RETURNS SETOF int LANGUAGE plpgsql STABLE ROWS 1
SET search_path FROM CURRENT AS $$
DECLARE
    node int := -1;
BEGIN
    LOOP
        SELECT min(t.owner) INTO node FROM threads AS t WHERE t.owner > node;
        EXIT WHEN node IS NULL;
        IF NOT is_alive_v1(node) THEN
            RETURN NEXT node;
        END IF;
    END LOOP;
END $$;

-- Whether a node may take threads from dead owners: only after it has held its lease for as long as a
-- lease lasts. After an outage of the database, owners get that long to renew theirs.
CREATE FUNCTION may_take_v1(node int) RETURNS bool LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT AS $$
BEGIN
    RETURN EXISTS (
        SELECT 1 FROM nodes WHERE id = node
            AND lease_until > clock_timestamp() AND held_since + ttl <= clock_timestamp());
END $$;

-- Claims a thread. `outcome` is 'claimed' or 'owned'; `before` is the owner that has it, or that died.
CREATE FUNCTION claim_v1(
    thread_id text, node int, at_ms bigint, OUT outcome text, OUT new_epoch bigint, OUT before int
) LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    head record;
BEGIN
    LOOP
        SELECT t.pk, t.owner, t.epoch INTO head FROM threads AS t WHERE t.id = thread_id FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO threads (id, created_at, updated_at, epoch)
        SELECT thread_id, at_ms, at_ms, floor FROM epochs
        ON CONFLICT (id) DO NOTHING;
    END LOOP;
    before := head.owner;
    new_epoch := head.epoch + 1;
    IF head.owner IS NOT NULL AND (is_alive_v1(head.owner) OR NOT may_take_v1(node)) THEN
        outcome := 'owned';
        RETURN;
    END IF;
    outcome := 'claimed';
    UPDATE threads SET owner = node, epoch = new_epoch WHERE pk = head.pk;
END $$;

-- The position of the last commit, of the first `last` ones, whose first message has at most the number
-- `seq`: of the commit that holds this message. The numbers never decrease along a thread.
CREATE FUNCTION commit_of_seq_v1(of bigint, last int, seq int) RETURNS int LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT AS $$
DECLARE
    low int := 0;
    high int := last;
    middle int;
    first int;
BEGIN
    WHILE low < high LOOP
        middle := (low + high + 1) / 2;
        SELECT first_seq INTO first FROM commits WHERE thread = of AND position = middle;
        IF first <= seq THEN low := middle; ELSE high := middle - 1; END IF;
    END LOOP;
    RETURN low;
END $$;

-- The same for events.
CREATE FUNCTION commit_of_event_v1(of bigint, last int, seq int) RETURNS int LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT AS $$
DECLARE
    low int := 0;
    high int := last;
    middle int;
    first int;
BEGIN
    WHILE low < high LOOP
        middle := (low + high + 1) / 2;
        SELECT first_event INTO first FROM commits WHERE thread = of AND position = middle;
        IF first <= seq THEN low := middle; ELSE high := middle - 1; END IF;
    END LOOP;
    RETURN low;
END $$;

-- Stores a command and returns its id. If its key was used before, nothing is stored: returns the id of
-- that command if it is still pending, else 0.
CREATE FUNCTION add_command_v1(
    of bigint, run text, what text, who text, due bigint, once text, content bytea
) RETURNS bigint LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    number bigint;
BEGIN
    IF once IS NOT NULL THEN
        SELECT coalesce(c.id, 0) INTO number
        FROM command_keys AS k LEFT JOIN commands AS c ON c.id = k.command
        WHERE k.thread = of AND k.key = once;
        IF FOUND THEN
            RETURN number;
        END IF;
    END IF;
    INSERT INTO commands (thread, run_id, kind, sent_by, not_before, body)
    VALUES (of, run, what, who, due, content) RETURNING id INTO number;
    IF once IS NOT NULL THEN
        INSERT INTO command_keys (thread, key, command) VALUES (of, once, number);
    END IF;
    RETURN number;
END $$;

-- Keeps a text and notes that a commit uses it. The lock keeps a deletion from taking the text away.
CREATE FUNCTION keep_text_v1(of bigint, at int, name bytea, content bytea) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    LOOP
        PERFORM 1 FROM texts WHERE digest = name FOR KEY SHARE;
        EXIT WHEN FOUND;
        INSERT INTO texts (digest, body) VALUES (name, content) ON CONFLICT DO NOTHING;
    END LOOP;
    INSERT INTO text_uses (thread, digest, position) VALUES (of, name, at) ON CONFLICT DO NOTHING;
END $$;

-- The rare parts of a commit: tickets, acknowledged and sent commands, blobs, texts, metadata, outbox.
CREATE FUNCTION write_extras_v1(of bigint, of_scope text, at int, extras jsonb) RETURNS bool
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    part jsonb;
    target bigint;
    has_sent bool := false;
BEGIN
    IF extras ? 'metadata' AND at = 1 THEN
        part := extras -> 'metadata';
        INSERT INTO thread_metadata (thread, user_id, labels, record)
        VALUES (of, decode(part ->> 'user', 'base64'),
                (SELECT array_agg(decode(label, 'base64'))
                 FROM jsonb_array_elements_text(part -> 'labels') AS label),
                convert_to(part ->> 'record', 'UTF8'));
    END IF;
    FOR part IN SELECT jsonb_array_elements(extras -> 'tickets') LOOP
        INSERT INTO tickets AS t (thread, scope, key, ticket_id, call_id, run_id, status, asked_at,
                                  expires_at, record)
        VALUES (of, of_scope, part ->> 'key', part ->> 'ticket_id', part ->> 'call_id',
                part ->> 'run_id', part ->> 'status', (part ->> 'asked_at')::bigint,
                (part ->> 'expires_at')::bigint, convert_to(part ->> 'record', 'UTF8'))
        ON CONFLICT (thread, key) DO UPDATE
        SET ticket_id = excluded.ticket_id, call_id = excluded.call_id, run_id = excluded.run_id,
            status = excluded.status, asked_at = excluded.asked_at, expires_at = excluded.expires_at,
            record = excluded.record
        WHERE t.status <> 'answered'; -- a commit never undoes an answer
    END LOOP;
    IF extras ? 'acks' THEN
        DELETE FROM commands WHERE thread = of
        AND id IN (SELECT jsonb_array_elements_text(extras -> 'acks')::bigint);
    END IF;
    FOR part IN SELECT jsonb_array_elements(extras -> 'sends') LOOP
        SELECT pk INTO target FROM threads WHERE id = part ->> 'thread' AND position > 0;
        IF FOUND THEN
            PERFORM add_command_v1(target, part ->> 'run_id', part ->> 'kind', part ->> 'by', NULL,
                                   part ->> 'key', convert_to(part ->> 'body', 'UTF8'));
            has_sent := true;
        END IF;
    END LOOP;
    IF extras ? 'blobs' THEN
        INSERT INTO blob_uses (thread, blob, position)
        SELECT of, jsonb_array_elements_text(extras -> 'blobs'), at ON CONFLICT DO NOTHING;
    END IF;
    FOR part IN SELECT jsonb_array_elements(extras -> 'texts') LOOP
        PERFORM keep_text_v1(of, at, decode(part ->> 0, 'hex'), decode(part ->> 1, 'base64'));
    END LOOP;
    IF extras ? 'outbox' THEN
        IF (extras ->> 'outbox')::bool THEN
            INSERT INTO outboxes (thread) VALUES (of) ON CONFLICT DO NOTHING;
        ELSE
            DELETE FROM outboxes WHERE thread = of;
        END IF;
    END IF;
    RETURN has_sent;
END $$;

-- Why a thread cannot get this parent: 'no parent', or 'circle', with the name of the thread at fault.
CREATE FUNCTION refused_parent_v1(thread_id text, wanted text, OUT why text, OUT who text)
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
DECLARE
    passed text[] := ARRAY[thread_id];
    above text;
BEGIN
    who := wanted;
    WHILE who IS NOT NULL LOOP
        IF who = ANY (passed) THEN
            why := 'circle';
            RETURN;
        END IF;
        passed := passed || who;
        SELECT parent INTO above FROM threads WHERE id = who AND position > 0;
        IF NOT FOUND AND who = wanted THEN
            why := 'no parent';
            RETURN;
        END IF;
        who := above;
        above := NULL;
    END LOOP;
END $$;

-- Writes a batch of commits to different threads, each or none of each. All refusals of a commit are
-- found before its first write, so one that is refused leaves the others of its batch in place.
--
-- `locked` are the names of all threads that the batch writes to, in order. `outcome` is 'written',
-- 'stale' (`number` is the epoch), 'length' (`number` is the length), 'thread' (the run belongs to
-- another thread), 'no parent' or 'circle' (`who` is the thread).
CREATE FUNCTION commit_v1(
    locked text[],
    thread_ids text[], owners int[], epochs bigint[], lengths int[], messages int[], event_counts int[],
    times bigint[], deltas bytea[], releases bool[], stream_ends bool[],
    run_ids text[], records bytea[], statuses text[], agents text[], run_parents text[], kinds text[],
    users bytea[], delegations bool[], suspicions bool[], updates bigint[], cancelled bool[],
    parents text[], scopes text[], families text[], extras jsonb[], rewinds_to int[]
) RETURNS TABLE (
    outcome text, number bigint, who text, first_event int, thread_pk bigint, at int, since_snapshot int,
    has_sent bool
) LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    head record;
    run_pk bigint;
    run_thread bigint;
    run_status text;
    adopted text;
    is_moved bool;
    new_open text;
    new_active text;
    my_scope text;
    my_family text;
    refused record;
BEGIN
    IF cardinality(locked) > 1 THEN
        PERFORM 1 FROM threads AS t WHERE t.id = ANY (locked) ORDER BY t.id FOR UPDATE;
    END IF;
    FOR i IN 1..cardinality(thread_ids) LOOP
        who := NULL;
        has_sent := false;
        LOOP
            SELECT t.pk, t.parent, t.created_at, t.length, t.events, t.position, t.snapshot, t.epoch,
                   t.owner, t.open_run, t.active_run, t.latest_run, t.scope
            INTO head FROM threads AS t WHERE t.id = thread_ids[i] FOR UPDATE;

            -- Refusals.
            IF head.owner IS DISTINCT FROM owners[i]
               OR (owners[i] IS NOT NULL AND head.epoch <> epochs[i]) THEN
                outcome := 'stale';
                number := coalesce(head.epoch, 0);
                EXIT;
            END IF;
            IF coalesce(head.length, 0) <> lengths[i] THEN
                outcome := 'length';
                number := coalesce(head.length, 0);
                EXIT;
            END IF;
            SELECT r.pk, r.thread, r.status INTO run_pk, run_thread, run_status
            FROM runs AS r WHERE r.id = run_ids[i];
            IF run_thread <> coalesce(head.pk, -1) THEN
                outcome := 'thread';
                EXIT;
            END IF;
            adopted := NULL;
            IF parents[i] IS NOT NULL AND head.parent IS NULL THEN
                adopted := parents[i];
                SELECT r.why, r.who INTO refused FROM refused_parent_v1(thread_ids[i], adopted) AS r;
                IF refused.why IS NOT NULL THEN
                    outcome := refused.why;
                    who := refused.who;
                    EXIT;
                END IF;
            END IF;

            -- The head.
            IF head.pk IS NULL THEN
                INSERT INTO threads AS t (id, created_at, updated_at, epoch)
                SELECT thread_ids[i], times[i], times[i], floor FROM epochs
                ON CONFLICT (id) DO NOTHING;
                CONTINUE; -- and look at it again, since another node may have been quicker
            END IF;
            outcome := 'written';
            at := head.position + 1;
            my_scope := head.scope;
            IF at = 1 THEN
                my_scope := scopes[i];
                my_family := families[i];
                IF parents[i] IS NOT NULL THEN
                    SELECT t.scope, t.family INTO my_scope, my_family
                    FROM threads AS t WHERE t.id = parents[i];
                END IF;
                UPDATE threads AS t SET parent = adopted, scope = my_scope, family = my_family
                WHERE t.pk = head.pk;
            ELSIF adopted IS NOT NULL THEN
                UPDATE threads AS t SET parent = adopted WHERE t.pk = head.pk;
            END IF;

            -- The run.
            new_open := head.open_run;
            new_active := head.active_run;
            is_moved := at = 1;
            IF run_ids[i] IS NOT NULL THEN
                is_moved := is_moved OR run_status IS DISTINCT FROM statuses[i];
                IF run_pk IS NULL THEN
                    INSERT INTO runs AS r (id, thread, scope, agent, parent, kind, status, user_id,
                                           delegated, suspect, first_position, last_position,
                                           updated_at_ms, changed_at, record)
                    VALUES (run_ids[i], head.pk, my_scope, agents[i], run_parents[i], kinds[i],
                            statuses[i], users[i], delegations[i], suspicions[i], at, at, updates[i],
                            updates[i], records[i])
                    RETURNING r.pk INTO run_pk;
                ELSE
                    UPDATE runs AS r
                    SET first_position = CASE r.first_position WHEN 0 THEN at ELSE r.first_position END,
                        last_position = at, record = records[i], updated_at_ms = updates[i],
                        changed_at = CASE WHEN r.status = statuses[i] AND r.status <> 'done'
                                          THEN r.changed_at ELSE updates[i] END,
                        status = statuses[i], agent = agents[i], parent = run_parents[i],
                        kind = kinds[i], delegated = delegations[i], suspect = suspicions[i],
                        cancelled_by = NULL
                    WHERE r.pk = run_pk;
                END IF;
                IF statuses[i] = 'running' THEN
                    new_open := run_ids[i];
                    new_active := run_ids[i];
                ELSIF statuses[i] = 'done' THEN
                    new_open := nullif(new_open, run_ids[i]);
                    new_active := nullif(new_active, run_ids[i]);
                ELSIF statuses[i] <> 'created' THEN
                    new_open := run_ids[i];
                    new_active := NULL;
                END IF;
            END IF;

            -- The commit, and the new head.
            INSERT INTO commits AS c (thread, position, first_seq, first_event, at_ms, run, delta)
            VALUES (head.pk, at, head.length + 1, head.events + 1, times[i], run_pk, deltas[i]);
            IF rewinds_to[i] IS NOT NULL THEN
                INSERT INTO rewinds AS r (thread, position, low, high)
                VALUES (head.pk, at, rewinds_to[i], head.length);
            END IF;
            UPDATE threads AS t
            SET created_at = CASE at WHEN 1 THEN times[i] ELSE t.created_at END, updated_at = times[i],
                length = t.length + messages[i], events = t.events + event_counts[i], position = at,
                owner = CASE WHEN releases[i] THEN NULL ELSE t.owner END,
                latest_run = coalesce(run_ids[i], t.latest_run),
                open_run = new_open, active_run = new_active,
                active_at = CASE WHEN is_moved THEN times[i] ELSE t.active_at END
            WHERE t.pk = head.pk;

            -- The rest.
            IF extras[i] IS NOT NULL THEN
                has_sent := write_extras_v1(head.pk, my_scope, at, extras[i]);
            END IF;
            IF statuses[i] = 'done' THEN
                IF cancelled[i] THEN
                    UPDATE runs AS r SET cancelled_by = (
                        SELECT c.sent_by FROM commands AS c
                        WHERE c.thread = head.pk AND c.kind = 'cancel' AND c.sent_by IS NOT NULL
                          AND (c.run_id IS NULL OR c.run_id = run_ids[i])
                        ORDER BY c.id LIMIT 1)
                    WHERE r.pk = run_pk;
                END IF;
                DELETE FROM commands AS c WHERE c.thread = head.pk AND c.kind = 'cancel'
                AND (c.run_id IS NULL OR c.run_id = run_ids[i]);
                UPDATE tickets AS k SET status = 'closed'
                WHERE k.status = 'open' AND k.thread = head.pk AND k.run_id = run_ids[i];
            END IF;
            IF stream_ends[i] THEN
                DELETE FROM streams AS s WHERE s.thread = head.pk;
            END IF;
            number := head.length + messages[i];
            first_event := head.events + 1;
            thread_pk := head.pk;
            since_snapshot := at - head.snapshot;
            EXIT;
        END LOOP;
        RETURN NEXT;
    END LOOP;
END $$;
