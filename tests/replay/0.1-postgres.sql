SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET transaction_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE SCHEMA office;
CREATE FUNCTION office.add_command_v1(of bigint, run text, what text, who text, due bigint, once text, content bytea) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'office'
    AS $$
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
CREATE FUNCTION office.claim_v1(thread_id text, node integer, at_ms bigint, OUT outcome text, OUT new_epoch bigint, OUT before integer) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'office'
    AS $$
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
CREATE FUNCTION office.commit_of_event_v1(of bigint, last integer, seq integer) RETURNS integer
    LANGUAGE plpgsql STABLE
    SET search_path TO 'office'
    AS $$
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
CREATE FUNCTION office.commit_of_seq_v1(of bigint, last integer, seq integer) RETURNS integer
    LANGUAGE plpgsql STABLE
    SET search_path TO 'office'
    AS $$
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
CREATE FUNCTION office.commit_v1(locked text[], thread_ids text[], owners integer[], epochs bigint[], lengths integer[], messages integer[], event_counts integer[], times bigint[], deltas bytea[], releases boolean[], stream_ends boolean[], run_ids text[], records bytea[], statuses text[], agents text[], run_parents text[], kinds text[], users bytea[], delegations boolean[], suspicions boolean[], updates bigint[], cancelled boolean[], parents text[], scopes text[], families text[], extras jsonb[], rewinds_to integer[]) RETURNS TABLE(outcome text, number bigint, who text, first_event integer, thread_pk bigint, at integer, since_snapshot integer, has_sent boolean)
    LANGUAGE plpgsql
    SET search_path TO 'office'
    SET enable_seqscan TO 'off'
    AS $$
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
CREATE FUNCTION office.dead_owners_v1() RETURNS SETOF integer
    LANGUAGE plpgsql STABLE ROWS 1
    SET search_path TO 'office'
    AS $$
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
CREATE FUNCTION office.is_alive_v1(node integer) RETURNS boolean
    LANGUAGE plpgsql STABLE
    SET search_path TO 'office'
    AS $$
BEGIN
    RETURN node IS NOT NULL
        AND EXISTS (SELECT 1 FROM nodes WHERE id = node AND lease_until > clock_timestamp());
END $$;
CREATE FUNCTION office.keep_text_v1(of bigint, at integer, name bytea, content bytea) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'office'
    AS $$
BEGIN
    LOOP
        PERFORM 1 FROM texts WHERE digest = name FOR KEY SHARE;
        EXIT WHEN FOUND;
        INSERT INTO texts (digest, body) VALUES (name, content) ON CONFLICT DO NOTHING;
    END LOOP;
    INSERT INTO text_uses (thread, digest, position) VALUES (of, name, at) ON CONFLICT DO NOTHING;
END $$;
CREATE FUNCTION office.may_take_v1(node integer) RETURNS boolean
    LANGUAGE plpgsql STABLE
    SET search_path TO 'office'
    AS $$
BEGIN
    RETURN EXISTS (
        SELECT 1 FROM nodes WHERE id = node
            AND lease_until > clock_timestamp() AND held_since + ttl <= clock_timestamp());
END $$;
CREATE FUNCTION office.refused_parent_v1(thread_id text, wanted text, OUT why text, OUT who text) RETURNS record
    LANGUAGE plpgsql STABLE
    SET search_path TO 'office'
    AS $$
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
CREATE FUNCTION office.write_extras_v1(of bigint, of_scope text, at integer, extras jsonb) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'office'
    AS $$
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
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE office.audit (
    number bigint NOT NULL,
    scope text NOT NULL COLLATE pg_catalog."C",
    at_ms bigint NOT NULL,
    record bytea NOT NULL
);
ALTER TABLE office.audit ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME office.audit_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE office.blob_parts (
    upload bigint NOT NULL,
    number integer NOT NULL,
    part bytea NOT NULL
);
ALTER TABLE ONLY office.blob_parts ALTER COLUMN part SET STORAGE EXTERNAL;
CREATE TABLE office.blob_uploads (
    pk bigint NOT NULL,
    begun_at bigint NOT NULL
);
ALTER TABLE office.blob_uploads ALTER COLUMN pk ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME office.blob_uploads_pk_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE office.blob_uses (
    thread bigint NOT NULL,
    blob text NOT NULL COLLATE pg_catalog."C",
    "position" integer NOT NULL
);
CREATE TABLE office.blobs (
    id text NOT NULL COLLATE pg_catalog."C",
    scope text NOT NULL COLLATE pg_catalog."C",
    upload bigint NOT NULL,
    size bigint NOT NULL,
    sha256 text NOT NULL,
    media_type bytea NOT NULL,
    name bytea,
    put_at bigint NOT NULL
);
CREATE TABLE office.command_keys (
    thread bigint NOT NULL,
    key text NOT NULL COLLATE pg_catalog."C",
    command bigint NOT NULL
);
CREATE TABLE office.commands (
    id bigint NOT NULL,
    thread bigint NOT NULL,
    run_id text COLLATE pg_catalog."C",
    kind text NOT NULL,
    sent_by text COLLATE pg_catalog."C",
    not_before bigint,
    body bytea NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02');
ALTER TABLE office.commands ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME office.commands_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE office.commits (
    thread bigint NOT NULL,
    "position" integer NOT NULL,
    first_seq integer NOT NULL,
    first_event integer NOT NULL,
    at_ms bigint NOT NULL,
    run bigint,
    delta bytea NOT NULL
)
PARTITION BY HASH (thread);
CREATE TABLE office.commits_0 (
    thread bigint CONSTRAINT commits_thread_not_null NOT NULL,
    "position" integer CONSTRAINT commits_position_not_null NOT NULL,
    first_seq integer CONSTRAINT commits_first_seq_not_null NOT NULL,
    first_event integer CONSTRAINT commits_first_event_not_null NOT NULL,
    at_ms bigint CONSTRAINT commits_at_ms_not_null NOT NULL,
    run bigint,
    delta bytea CONSTRAINT commits_delta_not_null NOT NULL
);
CREATE TABLE office.commits_1 (
    thread bigint CONSTRAINT commits_thread_not_null NOT NULL,
    "position" integer CONSTRAINT commits_position_not_null NOT NULL,
    first_seq integer CONSTRAINT commits_first_seq_not_null NOT NULL,
    first_event integer CONSTRAINT commits_first_event_not_null NOT NULL,
    at_ms bigint CONSTRAINT commits_at_ms_not_null NOT NULL,
    run bigint,
    delta bytea CONSTRAINT commits_delta_not_null NOT NULL
);
CREATE TABLE office.commits_10 (
    thread bigint CONSTRAINT commits_thread_not_null NOT NULL,
    "position" integer CONSTRAINT commits_position_not_null NOT NULL,
    first_seq integer CONSTRAINT commits_first_seq_not_null NOT NULL,
    first_event integer CONSTRAINT commits_first_event_not_null NOT NULL,
    at_ms bigint CONSTRAINT commits_at_ms_not_null NOT NULL,
    run bigint,
    delta bytea CONSTRAINT commits_delta_not_null NOT NULL
);
CREATE TABLE office.commits_11 (
    thread bigint CONSTRAINT commits_thread_not_null NOT NULL,
    "position" integer CONSTRAINT commits_position_not_null NOT NULL,
    first_seq integer CONSTRAINT commits_first_seq_not_null NOT NULL,
    first_event integer CONSTRAINT commits_first_event_not_null NOT NULL,
    at_ms bigint CONSTRAINT commits_at_ms_not_null NOT NULL,
    run bigint,
    delta bytea CONSTRAINT commits_delta_not_null NOT NULL
);
CREATE TABLE office.commits_12 (
    thread bigint CONSTRAINT commits_thread_not_null NOT NULL,
    "position" integer CONSTRAINT commits_position_not_null NOT NULL,
    first_seq integer CONSTRAINT commits_first_seq_not_null NOT NULL,
    first_event integer CONSTRAINT commits_first_event_not_null NOT NULL,
    at_ms bigint CONSTRAINT commits_at_ms_not_null NOT NULL,
    run bigint,
    delta bytea CONSTRAINT commits_delta_not_null NOT NULL
);
CREATE TABLE office.commits_13 (
    thread bigint CONSTRAINT commits_thread_not_null NOT NULL,
    "position" integer CONSTRAINT commits_position_not_null NOT NULL,
    first_seq integer CONSTRAINT commits_first_seq_not_null NOT NULL,
    first_event integer CONSTRAINT commits_first_event_not_null NOT NULL,
    at_ms bigint CONSTRAINT commits_at_ms_not_null NOT NULL,
    run bigint,
    delta bytea CONSTRAINT commits_delta_not_null NOT NULL
);
CREATE TABLE office.commits_14 (
    thread bigint CONSTRAINT commits_thread_not_null NOT NULL,
    "position" integer CONSTRAINT commits_position_not_null NOT NULL,
    first_seq integer CONSTRAINT commits_first_seq_not_null NOT NULL,
    first_event integer CONSTRAINT commits_first_event_not_null NOT NULL,
    at_ms bigint CONSTRAINT commits_at_ms_not_null NOT NULL,
    run bigint,
    delta bytea CONSTRAINT commits_delta_not_null NOT NULL
);
CREATE TABLE office.commits_15 (
    thread bigint CONSTRAINT commits_thread_not_null NOT NULL,
    "position" integer CONSTRAINT commits_position_not_null NOT NULL,
    first_seq integer CONSTRAINT commits_first_seq_not_null NOT NULL,
    first_event integer CONSTRAINT commits_first_event_not_null NOT NULL,
    at_ms bigint CONSTRAINT commits_at_ms_not_null NOT NULL,
    run bigint,
    delta bytea CONSTRAINT commits_delta_not_null NOT NULL
);
CREATE TABLE office.commits_2 (
    thread bigint CONSTRAINT commits_thread_not_null NOT NULL,
    "position" integer CONSTRAINT commits_position_not_null NOT NULL,
    first_seq integer CONSTRAINT commits_first_seq_not_null NOT NULL,
    first_event integer CONSTRAINT commits_first_event_not_null NOT NULL,
    at_ms bigint CONSTRAINT commits_at_ms_not_null NOT NULL,
    run bigint,
    delta bytea CONSTRAINT commits_delta_not_null NOT NULL
);
CREATE TABLE office.commits_3 (
    thread bigint CONSTRAINT commits_thread_not_null NOT NULL,
    "position" integer CONSTRAINT commits_position_not_null NOT NULL,
    first_seq integer CONSTRAINT commits_first_seq_not_null NOT NULL,
    first_event integer CONSTRAINT commits_first_event_not_null NOT NULL,
    at_ms bigint CONSTRAINT commits_at_ms_not_null NOT NULL,
    run bigint,
    delta bytea CONSTRAINT commits_delta_not_null NOT NULL
);
CREATE TABLE office.commits_4 (
    thread bigint CONSTRAINT commits_thread_not_null NOT NULL,
    "position" integer CONSTRAINT commits_position_not_null NOT NULL,
    first_seq integer CONSTRAINT commits_first_seq_not_null NOT NULL,
    first_event integer CONSTRAINT commits_first_event_not_null NOT NULL,
    at_ms bigint CONSTRAINT commits_at_ms_not_null NOT NULL,
    run bigint,
    delta bytea CONSTRAINT commits_delta_not_null NOT NULL
);
CREATE TABLE office.commits_5 (
    thread bigint CONSTRAINT commits_thread_not_null NOT NULL,
    "position" integer CONSTRAINT commits_position_not_null NOT NULL,
    first_seq integer CONSTRAINT commits_first_seq_not_null NOT NULL,
    first_event integer CONSTRAINT commits_first_event_not_null NOT NULL,
    at_ms bigint CONSTRAINT commits_at_ms_not_null NOT NULL,
    run bigint,
    delta bytea CONSTRAINT commits_delta_not_null NOT NULL
);
CREATE TABLE office.commits_6 (
    thread bigint CONSTRAINT commits_thread_not_null NOT NULL,
    "position" integer CONSTRAINT commits_position_not_null NOT NULL,
    first_seq integer CONSTRAINT commits_first_seq_not_null NOT NULL,
    first_event integer CONSTRAINT commits_first_event_not_null NOT NULL,
    at_ms bigint CONSTRAINT commits_at_ms_not_null NOT NULL,
    run bigint,
    delta bytea CONSTRAINT commits_delta_not_null NOT NULL
);
CREATE TABLE office.commits_7 (
    thread bigint CONSTRAINT commits_thread_not_null NOT NULL,
    "position" integer CONSTRAINT commits_position_not_null NOT NULL,
    first_seq integer CONSTRAINT commits_first_seq_not_null NOT NULL,
    first_event integer CONSTRAINT commits_first_event_not_null NOT NULL,
    at_ms bigint CONSTRAINT commits_at_ms_not_null NOT NULL,
    run bigint,
    delta bytea CONSTRAINT commits_delta_not_null NOT NULL
);
CREATE TABLE office.commits_8 (
    thread bigint CONSTRAINT commits_thread_not_null NOT NULL,
    "position" integer CONSTRAINT commits_position_not_null NOT NULL,
    first_seq integer CONSTRAINT commits_first_seq_not_null NOT NULL,
    first_event integer CONSTRAINT commits_first_event_not_null NOT NULL,
    at_ms bigint CONSTRAINT commits_at_ms_not_null NOT NULL,
    run bigint,
    delta bytea CONSTRAINT commits_delta_not_null NOT NULL
);
CREATE TABLE office.commits_9 (
    thread bigint CONSTRAINT commits_thread_not_null NOT NULL,
    "position" integer CONSTRAINT commits_position_not_null NOT NULL,
    first_seq integer CONSTRAINT commits_first_seq_not_null NOT NULL,
    first_event integer CONSTRAINT commits_first_event_not_null NOT NULL,
    at_ms bigint CONSTRAINT commits_at_ms_not_null NOT NULL,
    run bigint,
    delta bytea CONSTRAINT commits_delta_not_null NOT NULL
);
CREATE TABLE office.deleted_threads (
    id text NOT NULL COLLATE pg_catalog."C",
    at_ms bigint NOT NULL
);
CREATE TABLE office.epochs (
    floor bigint NOT NULL
);
CREATE TABLE office.keys (
    id text NOT NULL COLLATE pg_catalog."C",
    scope text NOT NULL COLLATE pg_catalog."C",
    record bytea NOT NULL
);
CREATE TABLE office.migrations (
    number integer NOT NULL,
    name text NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE office.nodes (
    id integer NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    started_at timestamp with time zone NOT NULL,
    held_since timestamp with time zone NOT NULL,
    lease_until timestamp with time zone NOT NULL,
    ttl interval NOT NULL
)
WITH (fillfactor='20', autovacuum_vacuum_scale_factor='0.02');
ALTER TABLE office.nodes ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME office.nodes_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE office.outboxes (
    thread bigint NOT NULL
);
CREATE TABLE office.profiles (
    owner text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    value bytea NOT NULL,
    version integer NOT NULL,
    updated_at bigint NOT NULL
);
CREATE TABLE office.rewinds (
    thread bigint NOT NULL,
    "position" integer NOT NULL,
    low integer NOT NULL,
    high integer NOT NULL
);
CREATE TABLE office.runs (
    pk bigint NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    thread bigint NOT NULL,
    scope text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    agent text NOT NULL COLLATE pg_catalog."C",
    parent text COLLATE pg_catalog."C",
    kind text NOT NULL,
    status text NOT NULL,
    user_id bytea,
    delegated boolean NOT NULL,
    suspect boolean NOT NULL,
    first_position integer NOT NULL,
    last_position integer NOT NULL,
    updated_at_ms bigint NOT NULL,
    changed_at bigint NOT NULL,
    cancelled_by text COLLATE pg_catalog."C",
    record bytea NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.02');
ALTER TABLE office.runs ALTER COLUMN pk ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME office.runs_pk_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE office.secrets (
    name text NOT NULL COLLATE pg_catalog."C",
    value text NOT NULL
);
CREATE TABLE office.sessions (
    id text NOT NULL COLLATE pg_catalog."C",
    scope text NOT NULL COLLATE pg_catalog."C",
    expires_at bigint NOT NULL,
    record bytea NOT NULL
);
CREATE TABLE office.snapshots (
    thread bigint NOT NULL,
    "position" integer NOT NULL,
    state bytea NOT NULL
);
CREATE TABLE office.streams (
    thread bigint NOT NULL,
    number integer NOT NULL,
    piece bytea NOT NULL
);
CREATE TABLE office.submission_keys (
    thread bigint NOT NULL,
    key text NOT NULL COLLATE pg_catalog."C",
    asked text NOT NULL,
    run text NOT NULL COLLATE pg_catalog."C",
    cursor integer NOT NULL,
    at_ms bigint NOT NULL
);
CREATE TABLE office.text_uses (
    thread bigint NOT NULL,
    digest bytea NOT NULL,
    "position" integer NOT NULL
);
CREATE TABLE office.texts (
    digest bytea NOT NULL,
    body bytea NOT NULL
);
CREATE TABLE office.thread_metadata (
    thread bigint NOT NULL,
    user_id bytea,
    labels bytea[],
    record bytea NOT NULL
);
CREATE TABLE office.threads (
    pk bigint NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    parent text COLLATE pg_catalog."C",
    scope text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    family text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    active_at bigint,
    length integer DEFAULT 0 NOT NULL,
    events integer DEFAULT 0 NOT NULL,
    "position" integer DEFAULT 0 NOT NULL,
    snapshot integer DEFAULT 0 NOT NULL,
    epoch bigint DEFAULT 0 NOT NULL,
    owner integer,
    latest_run text COLLATE pg_catalog."C",
    open_run text COLLATE pg_catalog."C",
    active_run text COLLATE pg_catalog."C",
    forked_from text COLLATE pg_catalog."C",
    forked_at integer
)
WITH (fillfactor='60', autovacuum_vacuum_scale_factor='0.02');
ALTER TABLE office.threads ALTER COLUMN pk ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME office.threads_pk_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE office.tickets (
    pk bigint NOT NULL,
    thread bigint NOT NULL,
    scope text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    ticket_id text NOT NULL COLLATE pg_catalog."C",
    call_id text NOT NULL COLLATE pg_catalog."C",
    run_id text NOT NULL COLLATE pg_catalog."C",
    status text NOT NULL,
    asked_at bigint NOT NULL,
    expires_at bigint,
    record bytea NOT NULL
);
ALTER TABLE office.tickets ALTER COLUMN pk ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME office.tickets_pk_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
ALTER TABLE ONLY office.commits ATTACH PARTITION office.commits_0 FOR VALUES WITH (modulus 16, remainder 0);
ALTER TABLE ONLY office.commits ATTACH PARTITION office.commits_1 FOR VALUES WITH (modulus 16, remainder 1);
ALTER TABLE ONLY office.commits ATTACH PARTITION office.commits_10 FOR VALUES WITH (modulus 16, remainder 10);
ALTER TABLE ONLY office.commits ATTACH PARTITION office.commits_11 FOR VALUES WITH (modulus 16, remainder 11);
ALTER TABLE ONLY office.commits ATTACH PARTITION office.commits_12 FOR VALUES WITH (modulus 16, remainder 12);
ALTER TABLE ONLY office.commits ATTACH PARTITION office.commits_13 FOR VALUES WITH (modulus 16, remainder 13);
ALTER TABLE ONLY office.commits ATTACH PARTITION office.commits_14 FOR VALUES WITH (modulus 16, remainder 14);
ALTER TABLE ONLY office.commits ATTACH PARTITION office.commits_15 FOR VALUES WITH (modulus 16, remainder 15);
ALTER TABLE ONLY office.commits ATTACH PARTITION office.commits_2 FOR VALUES WITH (modulus 16, remainder 2);
ALTER TABLE ONLY office.commits ATTACH PARTITION office.commits_3 FOR VALUES WITH (modulus 16, remainder 3);
ALTER TABLE ONLY office.commits ATTACH PARTITION office.commits_4 FOR VALUES WITH (modulus 16, remainder 4);
ALTER TABLE ONLY office.commits ATTACH PARTITION office.commits_5 FOR VALUES WITH (modulus 16, remainder 5);
ALTER TABLE ONLY office.commits ATTACH PARTITION office.commits_6 FOR VALUES WITH (modulus 16, remainder 6);
ALTER TABLE ONLY office.commits ATTACH PARTITION office.commits_7 FOR VALUES WITH (modulus 16, remainder 7);
ALTER TABLE ONLY office.commits ATTACH PARTITION office.commits_8 FOR VALUES WITH (modulus 16, remainder 8);
ALTER TABLE ONLY office.commits ATTACH PARTITION office.commits_9 FOR VALUES WITH (modulus 16, remainder 9);
INSERT INTO office.commands OVERRIDING SYSTEM VALUE VALUES
	(1, 13, NULL, 'messages', NULL, NULL, '\x7b226964223a302c227468726561645f6964223a226b696c6c6564222c226b696e64223a226d65737361676573222c226d65737361676573223a5b7b226964223a2230316131663561332d633866312d373038642d613831632d306536643864303038376336222c22726f6c65223a2275736572222c22636f6e74656e74223a5b7b2274797065223a2274657874222c2274657874223a226875727279227d5d7d5d2c2261745f6d73223a313739353132323531343136317d');
INSERT INTO office.commits_1 VALUES
	(11, 1, 1, 1, 1795122513490, 11, '\x7b2272756e223a2230316131663561332d633635312d373234652d386537662d626664636335396566396332222c226d65737361676573223a5b7b226964223a2230316131663561332d633634642d373635632d613530302d653837363832616237366433222c22726f6c65223a2275736572222c22636f6e74656e74223a5b7b2274797065223a2274657874222c2274657874223a22706c65617365206167656e745f72756e5f706f72746572227d5d7d5d2c2272756e5f7374617465223a7b225f5f72756e74696d652e72756e5f6c6966656379636c65223a7b2272756e5f6964223a2230316131663561332d633635312d373234652d386537662d626664636335396566396332222c22737461747573223a2272756e6e696e67222c22757064617465645f6174223a313739353132323531333439302c22737465705f636f756e74223a307d2c225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b226d6f6e6579223a302e302c227365636f6e6473223a302e3030303032313738333030303139323935343230357d7d7d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531333439302c226576656e74223a7b226576656e745f74797065223a2272756e5f7374617274222c227468726561645f6964223a22706f72746572222c2272756e5f6964223a2230316131663561332d633635312d373234652d386537662d626664636335396566396332222c226964656e74697479223a7b227468726561645f6964223a22706f72746572222c2272756e5f6964223a2230316131663561332d633635312d373234652d386537662d626664636335396566396332222c226167656e745f6964223a22626f7373222c226f726967696e223a2275736572227d2c226361757365223a226e6577227d7d5d7d'),
	(11, 2, 2, 2, 1795122513494, 11, '\x7b2272756e223a2230316131663561332d633635312d373234652d386537662d626664636335396566396332222c226d65737361676573223a5b7b226964223a2230316131663561332d633635362d373337332d623833362d663930643938613135336566222c22726f6c65223a22617373697374616e74222c22636f6e74656e74223a5b5d2c22746f6f6c5f63616c6c73223a5b7b226964223a226330222c226e616d65223a226167656e745f72756e5f706f72746572222c22617267756d656e7473223a7b2270726f6d7074223a22706c656173652063686172676520636f756e74227d7d5d2c226d65746164617461223a7b2272756e5f6964223a2230316131663561332d633635312d373234652d386537662d626664636335396566396332222c22737465705f696e646578223a307d7d5d2c2272756e5f7374617465223a7b225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b22746f6b656e73223a313531322c226d6f6e6579223a302e302c227374657073223a312c227365636f6e6473223a302e3030343432363231383939393932343435387d7d7d2c2263616c6c73223a5b7b226b6579223a2230316131663561332d633635362d373337332d623833362d6639306439386131353365663a30222c2272756e5f6964223a2230316131663561332d633635312d373234652d386537662d626664636335396566396332222c2263616c6c5f6964223a226330222c22746f6f6c5f6e616d65223a226167656e745f72756e5f706f72746572222c227068617365223a22696e74656e74222c22617267756d656e7473223a7b2270726f6d7074223a22706c656173652063686172676520636f756e74227d7d5d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531333439342c226576656e74223a7b226576656e745f74797065223a22737465705f7374617274222c226d6573736167655f6964223a2230316131663561332d633635362d373337332d623833362d663930643938613135336566222c226167656e745f6964223a22626f7373227d7d2c7b2261745f6d73223a313739353132323531333439342c226576656e74223a7b226576656e745f74797065223a22746f6f6c5f63616c6c5f7265616479222c226964223a226330222c226e616d65223a226167656e745f72756e5f706f72746572222c22617267756d656e7473223a7b2270726f6d7074223a22706c656173652063686172676520636f756e74227d7d7d2c7b2261745f6d73223a313739353132323531333439342c226576656e74223a7b226576656e745f74797065223a22696e666572656e63655f636f6d706c657465222c226d6f64656c223a2266756e6374696f6e222c227573616765223a7b2270726f6d70745f746f6b656e73223a302c22636f6d706c6574696f6e5f746f6b656e73223a307d2c226475726174696f6e5f6d73223a307d7d5d2c227265717565737473223a5b7b226d6573736167655f6964223a2230316131663561332d633635362d373337332d623833362d663930643938613135336566222c2273686f776e223a5b5b312c315d5d2c2273657474696e6773223a7b227468726561645f6964223a22706f72746572222c2272756e5f6964223a2230316131663561332d633635312d373234652d386537662d626664636335396566396332222c226d6f64656c223a2266756e6374696f6e222c22746f6f6c73223a226430326539373331366536613033306166303132656363633666386165616133222c2270726f6d70745f6361636865223a747275657d2c2266697273745f6d73223a307d5d7d');
INSERT INTO office.commits_10 VALUES
	(2, 1, 1, 1, 1795122513185, 3, '\x7b2272756e223a2230316131663561332d633532302d373337632d616466322d376637636264383737666239222c226d65737361676573223a5b7b226964223a2230316131663561332d633531392d373434322d613631652d326531643231616137656439222c22726f6c65223a2275736572222c22636f6e74656e74223a5b7b2274797065223a2274657874222c2274657874223a22706c65617365206368617267652073686970227d5d7d5d2c2272756e5f7374617465223a7b225f5f72756e74696d652e72756e5f6c6966656379636c65223a7b2272756e5f6964223a2230316131663561332d633532302d373337632d616466322d376637636264383737666239222c22737461747573223a2272756e6e696e67222c22757064617465645f6174223a313739353132323531333138342c22737465705f636f756e74223a307d2c225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b226d6f6e6579223a302e302c227365636f6e6473223a302e3030303033303630353939393635343635333731357d7d7d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531333138352c226576656e74223a7b226576656e745f74797065223a2272756e5f7374617274222c227468726561645f6964223a22617070726f76616c222c2272756e5f6964223a2230316131663561332d633532302d373337632d616466322d376637636264383737666239222c226964656e74697479223a7b227468726561645f6964223a22617070726f76616c222c2272756e5f6964223a2230316131663561332d633532302d373337632d616466322d376637636264383737666239222c226167656e745f6964223a22626f7373222c226f726967696e223a2275736572227d2c226361757365223a226e6577227d7d5d7d'),
	(2, 2, 2, 2, 1795122513189, 3, '\x7b2272756e223a2230316131663561332d633532302d373337632d616466322d376637636264383737666239222c226d65737361676573223a5b7b226964223a2230316131663561332d633532352d373530612d626163362d346366616464323038616133222c22726f6c65223a22617373697374616e74222c22636f6e74656e74223a5b5d2c22746f6f6c5f63616c6c73223a5b7b226964223a226330222c226e616d65223a22636861726765222c22617267756d656e7473223a7b7d7d5d2c226d65746164617461223a7b2272756e5f6964223a2230316131663561332d633532302d373337632d616466322d376637636264383737666239222c22737465705f696e646578223a307d7d5d2c2272756e5f7374617465223a7b225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b22746f6b656e73223a313439372c226d6f6e6579223a302e302c227374657073223a312c227365636f6e6473223a302e3030343733313232323939393930373931347d7d7d2c2263616c6c73223a5b7b226b6579223a2230316131663561332d633532352d373530612d626163362d3463666164643230386161333a30222c2272756e5f6964223a2230316131663561332d633532302d373337632d616466322d376637636264383737666239222c2263616c6c5f6964223a226330222c22746f6f6c5f6e616d65223a22636861726765222c227068617365223a22696e74656e74222c22617267756d656e7473223a7b7d7d5d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531333138392c226576656e74223a7b226576656e745f74797065223a22737465705f7374617274222c226d6573736167655f6964223a2230316131663561332d633532352d373530612d626163362d346366616464323038616133222c226167656e745f6964223a22626f7373227d7d2c7b2261745f6d73223a313739353132323531333138392c226576656e74223a7b226576656e745f74797065223a22746f6f6c5f63616c6c5f7265616479222c226964223a226330222c226e616d65223a22636861726765222c22617267756d656e7473223a7b7d7d7d2c7b2261745f6d73223a313739353132323531333138392c226576656e74223a7b226576656e745f74797065223a22696e666572656e63655f636f6d706c657465222c226d6f64656c223a2266756e6374696f6e222c227573616765223a7b2270726f6d70745f746f6b656e73223a302c22636f6d706c6574696f6e5f746f6b656e73223a307d2c226475726174696f6e5f6d73223a307d7d5d2c227265717565737473223a5b7b226d6573736167655f6964223a2230316131663561332d633532352d373530612d626163362d346366616464323038616133222c2273686f776e223a5b5b312c315d5d2c2273657474696e6773223a7b227468726561645f6964223a22617070726f76616c222c2272756e5f6964223a2230316131663561332d633532302d373337632d616466322d376637636264383737666239222c226d6f64656c223a2266756e6374696f6e222c22746f6f6c73223a226430326539373331366536613033306166303132656363633666386165616133222c2270726f6d70745f6361636865223a747275657d2c2266697273745f6d73223a307d5d7d'),
	(2, 3, 3, 5, 1795122513190, 3, '\x7b2272756e223a2230316131663561332d633532302d373337632d616466322d376637636264383737666239222c226d65737361676573223a5b7b226964223a2230316131663561332d633532362d373731332d616366342d653165633434353465336637222c22726f6c65223a22746f6f6c222c22636f6e74656e74223a5b7b2274797065223a2274657874222c2274657874223a2263686172676564227d5d2c22746f6f6c5f63616c6c5f6964223a226330222c226d65746164617461223a7b2272756e5f6964223a2230316131663561332d633532302d373337632d616466322d376637636264383737666239222c22737465705f696e646578223a307d7d5d2c2272756e5f7374617465223a7b225f5f72756e74696d652e72756e5f6c6966656379636c65223a7b2272756e5f6964223a2230316131663561332d633532302d373337632d616466322d376637636264383737666239222c22737461747573223a2272756e6e696e67222c22757064617465645f6174223a313739353132323531333139302c22737465705f636f756e74223a317d2c225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b22746f6b656e73223a313439372c226d6f6e6579223a302e302c227374657073223a312c227365636f6e6473223a302e3030353631333533383030303033343136387d7d7d2c2263616c6c73223a5b7b226b6579223a2230316131663561332d633532352d373530612d626163362d3463666164643230386161333a30222c2272756e5f6964223a2230316131663561332d633532302d373337632d616466322d376637636264383737666239222c2263616c6c5f6964223a226330222c22746f6f6c5f6e616d65223a22636861726765222c227068617365223a22737563636565646564227d5d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531333139302c226576656e74223a7b226576656e745f74797065223a22746f6f6c5f63616c6c5f646f6e65222c226964223a226330222c226d6573736167655f6964223a2230316131663561332d633532362d373731332d616366342d653165633434353465336637222c22726573756c74223a7b22746f6f6c5f6e616d65223a22636861726765222c22737461747573223a2273756363657373222c2264617461223a2263686172676564222c226d657373616765223a2263686172676564227d2c226f7574636f6d65223a22737563636565646564222c22737461727465645f61745f6d73223a313739353132323531333139307d7d2c7b2261745f6d73223a313739353132323531333139302c226576656e74223a7b226576656e745f74797065223a22737465705f656e64227d7d5d7d'),
	(2, 4, 4, 7, 1795122513191, 3, '\x7b2272756e223a2230316131663561332d633532302d373337632d616466322d376637636264383737666239222c226d65737361676573223a5b7b226964223a2230316131663561332d633532372d373535302d623836632d353733633632376264633337222c22726f6c65223a22617373697374616e74222c22636f6e74656e74223a5b5d2c22746f6f6c5f63616c6c73223a5b7b226964223a226331222c226e616d65223a2273686970222c22617267756d656e7473223a7b7d7d5d2c226d65746164617461223a7b2272756e5f6964223a2230316131663561332d633532302d373337632d616466322d376637636264383737666239222c22737465705f696e646578223a317d7d5d2c2272756e5f7374617465223a7b225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b22746f6b656e73223a333031342c226d6f6e6579223a302e302c227374657073223a322c227365636f6e6473223a302e3030363139363734383030303039333036367d7d7d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531333139312c226576656e74223a7b226576656e745f74797065223a22737465705f7374617274222c226d6573736167655f6964223a2230316131663561332d633532372d373535302d623836632d353733633632376264633337222c226167656e745f6964223a22626f7373227d7d2c7b2261745f6d73223a313739353132323531333139312c226576656e74223a7b226576656e745f74797065223a22746f6f6c5f63616c6c5f7265616479222c226964223a226331222c226e616d65223a2273686970222c22617267756d656e7473223a7b7d7d7d2c7b2261745f6d73223a313739353132323531333139312c226576656e74223a7b226576656e745f74797065223a22696e666572656e63655f636f6d706c657465222c226d6f64656c223a2266756e6374696f6e222c227573616765223a7b2270726f6d70745f746f6b656e73223a302c22636f6d706c6574696f6e5f746f6b656e73223a307d2c226475726174696f6e5f6d73223a307d7d5d2c227265717565737473223a5b7b226d6573736167655f6964223a2230316131663561332d633532372d373535302d623836632d353733633632376264633337222c226c696b65223a322c2273686f776e223a5b5b312c335d5d2c2266697273745f6d73223a307d5d7d'),
	(2, 5, 5, 10, 1795122513191, 3, '\x7b2272756e223a2230316131663561332d633532302d373337632d616466322d376637636264383737666239222c2272756e5f7374617465223a7b225f5f72756e74696d652e72756e5f6c6966656379636c65223a7b2272756e5f6964223a2230316131663561332d633532302d373337632d616466322d376637636264383737666239222c22737461747573223a2277616974696e67222c227374617475735f726561736f6e223a2273757370656e646564222c22757064617465645f6174223a313739353132323531333139312c22737465705f636f756e74223a327d2c225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b22746f6b656e73223a333031342c226d6f6e6579223a302e302c227374657073223a322c227365636f6e6473223a302e303036383031333938393939383638393739347d7d7d2c227468726561645f7374617465223a7b225f5f72756e74696d652e746f6f6c5f63616c6c5f737461746573223a7b2263616c6c73223a7b226331223a7b2263616c6c5f6964223a226331222c22746f6f6c5f6e616d65223a2273686970222c22617267756d656e7473223a7b7d2c22737461747573223a2273757370656e646564222c22757064617465645f6174223a313739353132323531333139312c22726573756d655f6d6f6465223a227265706c61795f746f6f6c5f63616c6c222c2273757370656e73696f6e5f6964223a22617070726f76616c5f6331222c2273757370656e73696f6e5f726561736f6e223a22746f6f6c3a73686970222c226b6579223a2230316131663561332d633532372d373535302d623836632d3537336336323762646333373a30222c2261736b6564223a312c22646967657374223a223232323465643932343633346534383936633665666530386437393130616333222c226d657373616765223a22417070726f766520736869703f227d7d2c227475726e223a2230316131663561332d633532372d373535302d623836632d353733633632376264633337227d7d2c2263616c6c73223a5b7b226b6579223a2230316131663561332d633532372d373535302d623836632d3537336336323762646333373a30222c2272756e5f6964223a2230316131663561332d633532302d373337632d616466322d376637636264383737666239222c2263616c6c5f6964223a226331222c22746f6f6c5f6e616d65223a2273686970222c227068617365223a2273757370656e646564227d5d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531333139312c226576656e74223a7b226576656e745f74797065223a22746f6f6c5f63616c6c5f646f6e65222c226964223a226331222c226d6573736167655f6964223a22222c22726573756c74223a7b22746f6f6c5f6e616d65223a2273686970222c22737461747573223a2270656e64696e67222c2264617461223a6e756c6c2c226d657373616765223a22417070726f766520736869703f222c2273757370656e73696f6e223a7b2273757370656e73696f6e223a7b226964223a22617070726f76616c5f6331222c22616374696f6e223a22746f6f6c3a73686970222c226d657373616765223a22417070726f766520736869703f222c22706172616d6574657273223a7b7d7d2c2270656e64696e67223a7b226964223a226331222c226e616d65223a2273686970222c22617267756d656e7473223a7b7d7d2c22726573756d655f6d6f6465223a227265706c61795f746f6f6c5f63616c6c227d7d2c226f7574636f6d65223a2273757370656e646564222c22737461727465645f61745f6d73223a313739353132323531333139312c227469636b65745f6b6579223a2230316131663561332d633532372d373535302d623836632d3537336336323762646333373a30222c22646967657374223a223232323465643932343633346534383936633665666530386437393130616333227d7d2c7b2261745f6d73223a313739353132323531333139312c226576656e74223a7b226576656e745f74797065223a22737465705f656e64227d7d2c7b2261745f6d73223a313739353132323531333139312c226576656e74223a7b226576656e745f74797065223a2272756e5f66696e697368222c227468726561645f6964223a22617070726f76616c222c2272756e5f6964223a2230316131663561332d633532302d373337632d616466322d376637636264383737666239222c226964656e74697479223a7b227468726561645f6964223a22617070726f76616c222c2272756e5f6964223a2230316131663561332d633532302d373337632d616466322d376637636264383737666239222c226167656e745f6964223a22626f7373222c226f726967696e223a2275736572227d2c22726573756c74223a7b22726573706f6e7365223a22222c22737461747573223a2277616974696e67222c227374617475735f726561736f6e223a2273757370656e646564227d2c227465726d696e6174696f6e223a7b2274797065223a2273757370656e646564227d2c227469636b657473223a5b7b226b6579223a2230316131663561332d633532372d373535302d623836632d3537336336323762646333373a30222c227469636b65745f6964223a22617070726f76616c5f6331222c22746f6f6c5f6e616d65223a2273686970222c22617267756d656e7473223a7b7d2c22726573756d655f6d6f6465223a227265706c61795f746f6f6c5f63616c6c222c22726561736f6e223a22746f6f6c3a73686970222c22646967657374223a223232323465643932343633346534383936633665666530386437393130616333222c226d657373616765223a22417070726f766520736869703f222c22746f6f6c5f63616c6c5f6964223a226331222c22757064617465645f6174223a313739353132323531333139317d5d2c227374657073223a327d7d5d7d');
INSERT INTO office.commits_12 VALUES
	(12, 1, 1, 1, 1795122513983, 12, '\x7b2272756e223a22706f727465727e30316131663561332d633635362d373337332d623833362d6639306439386131353365663a30222c22706172656e745f72756e223a2230316131663561332d633635312d373234652d386537662d626664636335396566396332222c226d65737361676573223a5b7b226964223a2230316131663561332d633635362d373337332d623833362d6639306439386131353365663a303e222c22726f6c65223a2275736572222c22636f6e74656e74223a5b7b2274797065223a2274657874222c2274657874223a22706c656173652063686172676520636f756e74227d5d7d5d2c2272756e5f7374617465223a7b225f5f72756e74696d652e72756e5f6c6966656379636c65223a7b2272756e5f6964223a22706f727465727e30316131663561332d633635362d373337332d623833362d6639306439386131353365663a30222c22737461747573223a2272756e6e696e67222c22757064617465645f6174223a313739353132323531333938332c22737465705f636f756e74223a307d2c225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b226d6f6e6579223a302e302c227365636f6e6473223a302e30303030323938383430303030313431333533387d7d7d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531333938332c226576656e74223a7b226576656e745f74797065223a2272756e5f7374617274222c227468726561645f6964223a22706f727465727e30316131663561332d633635362d373337332d623833362d6639306439386131353365663a30222c2272756e5f6964223a22706f727465727e30316131663561332d633635362d373337332d623833362d6639306439386131353365663a30222c22706172656e745f72756e5f6964223a2230316131663561332d633635312d373234652d386537662d626664636335396566396332222c226964656e74697479223a7b227468726561645f6964223a22706f727465727e30316131663561332d633635362d373337332d623833362d6639306439386131353365663a30222c22706172656e745f7468726561645f6964223a22706f72746572222c2272756e5f6964223a22706f727465727e30316131663561332d633635362d373337332d623833362d6639306439386131353365663a30222c22706172656e745f72756e5f6964223a2230316131663561332d633635312d373234652d386537662d626664636335396566396332222c226167656e745f6964223a22706f72746572222c22706172656e745f746f6f6c5f63616c6c5f6964223a226330222c226f726967696e223a227375626167656e74227d2c226361757365223a226e6577227d7d5d7d'),
	(12, 2, 2, 2, 1795122513994, 12, '\x7b2272756e223a22706f727465727e30316131663561332d633635362d373337332d623833362d6639306439386131353365663a30222c22706172656e745f72756e223a2230316131663561332d633635312d373234652d386537662d626664636335396566396332222c226d65737361676573223a5b7b226964223a2230316131663561332d633834612d373138632d393863322d666661613864653635643764222c22726f6c65223a22617373697374616e74222c22636f6e74656e74223a5b5d2c22746f6f6c5f63616c6c73223a5b7b226964223a226330222c226e616d65223a22636861726765222c22617267756d656e7473223a7b7d7d5d2c226d65746164617461223a7b2272756e5f6964223a22706f727465727e30316131663561332d633635362d373337332d623833362d6639306439386131353365663a30222c22737465705f696e646578223a307d7d5d2c2272756e5f7374617465223a7b225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b22746f6b656e73223a3135312c226d6f6e6579223a302e302c227374657073223a312c227365636f6e6473223a302e30313134393633333730303031353332397d7d7d2c2263616c6c73223a5b7b226b6579223a2230316131663561332d633834612d373138632d393863322d6666616138646536356437643a30222c2272756e5f6964223a22706f727465727e30316131663561332d633635362d373337332d623833362d6639306439386131353365663a30222c2263616c6c5f6964223a226330222c22746f6f6c5f6e616d65223a22636861726765222c227068617365223a22696e74656e74222c22617267756d656e7473223a7b7d7d5d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531333939342c226576656e74223a7b226576656e745f74797065223a22737465705f7374617274222c226d6573736167655f6964223a2230316131663561332d633834612d373138632d393863322d666661613864653635643764222c226167656e745f6964223a22706f72746572227d7d2c7b2261745f6d73223a313739353132323531333939342c226576656e74223a7b226576656e745f74797065223a22746f6f6c5f63616c6c5f7265616479222c226964223a226330222c226e616d65223a22636861726765222c22617267756d656e7473223a7b7d7d7d2c7b2261745f6d73223a313739353132323531333939342c226576656e74223a7b226576656e745f74797065223a22696e666572656e63655f636f6d706c657465222c226d6f64656c223a2266756e6374696f6e222c227573616765223a7b2270726f6d70745f746f6b656e73223a302c22636f6d706c6574696f6e5f746f6b656e73223a307d2c226475726174696f6e5f6d73223a307d7d5d2c227265717565737473223a5b7b226d6573736167655f6964223a2230316131663561332d633834612d373138632d393863322d666661613864653635643764222c2273686f776e223a5b5b312c315d5d2c2273657474696e6773223a7b227468726561645f6964223a22706f727465727e30316131663561332d633635362d373337332d623833362d6639306439386131353365663a30222c2272756e5f6964223a22706f727465727e30316131663561332d633635362d373337332d623833362d6639306439386131353365663a30222c226d6f64656c223a2266756e6374696f6e222c22746f6f6c73223a223063343531393862363936636332366538303433633534623564333632383661222c2270726f6d70745f6361636865223a747275657d2c2266697273745f6d73223a307d5d7d'),
	(12, 3, 3, 5, 1795122514078, 12, '\x7b2272756e223a22706f727465727e30316131663561332d633635362d373337332d623833362d6639306439386131353365663a30222c22706172656e745f72756e223a2230316131663561332d633635312d373234652d386537662d626664636335396566396332222c226d65737361676573223a5b7b226964223a2230316131663561332d633839652d373338302d623238372d663462383031636462306635222c22726f6c65223a22746f6f6c222c22636f6e74656e74223a5b7b2274797065223a2274657874222c2274657874223a2263686172676564227d5d2c22746f6f6c5f63616c6c5f6964223a226330222c226d65746164617461223a7b2272756e5f6964223a22706f727465727e30316131663561332d633635362d373337332d623833362d6639306439386131353365663a30222c22737465705f696e646578223a307d7d5d2c2272756e5f7374617465223a7b225f5f72756e74696d652e72756e5f6c6966656379636c65223a7b2272756e5f6964223a22706f727465727e30316131663561332d633635362d373337332d623833362d6639306439386131353365663a30222c22737461747573223a2272756e6e696e67222c22757064617465645f6174223a313739353132323531343037382c22737465705f636f756e74223a317d2c225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b22746f6b656e73223a3135312c226d6f6e6579223a302e302c227374657073223a312c227365636f6e6473223a302e30393536333138373939393939323830367d7d7d2c2263616c6c73223a5b7b226b6579223a2230316131663561332d633834612d373138632d393863322d6666616138646536356437643a30222c2272756e5f6964223a22706f727465727e30316131663561332d633635362d373337332d623833362d6639306439386131353365663a30222c2263616c6c5f6964223a226330222c22746f6f6c5f6e616d65223a22636861726765222c227068617365223a22737563636565646564227d5d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531343037382c226576656e74223a7b226576656e745f74797065223a22746f6f6c5f63616c6c5f646f6e65222c226964223a226330222c226d6573736167655f6964223a2230316131663561332d633839652d373338302d623238372d663462383031636462306635222c22726573756c74223a7b22746f6f6c5f6e616d65223a22636861726765222c22737461747573223a2273756363657373222c2264617461223a2263686172676564222c226d657373616765223a2263686172676564227d2c226f7574636f6d65223a22737563636565646564222c22737461727465645f61745f6d73223a313739353132323531343037387d7d2c7b2261745f6d73223a313739353132323531343037382c226576656e74223a7b226576656e745f74797065223a22737465705f656e64227d7d5d7d'),
	(12, 4, 4, 7, 1795122514120, 12, '\x7b2272756e223a22706f727465727e30316131663561332d633635362d373337332d623833362d6639306439386131353365663a30222c22706172656e745f72756e223a2230316131663561332d633635312d373234652d386537662d626664636335396566396332222c226d65737361676573223a5b7b226964223a2230316131663561332d633863382d373633652d626665392d363865336433633464313163222c22726f6c65223a22617373697374616e74222c22636f6e74656e74223a5b5d2c22746f6f6c5f63616c6c73223a5b7b226964223a226331222c226e616d65223a22636f756e74222c22617267756d656e7473223a7b7d7d5d2c226d65746164617461223a7b2272756e5f6964223a22706f727465727e30316131663561332d633635362d373337332d623833362d6639306439386131353365663a30222c22737465705f696e646578223a317d7d5d2c2272756e5f7374617465223a7b225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b22746f6b656e73223a3332322c226d6f6e6579223a302e302c227374657073223a322c227365636f6e6473223a302e31333734313237353830303032303935387d7d7d2c2263616c6c73223a5b7b226b6579223a2230316131663561332d633863382d373633652d626665392d3638653364336334643131633a30222c2272756e5f6964223a22706f727465727e30316131663561332d633635362d373337332d623833362d6639306439386131353365663a30222c2263616c6c5f6964223a226331222c22746f6f6c5f6e616d65223a22636f756e74222c227068617365223a22696e74656e74222c22617267756d656e7473223a7b7d7d5d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531343132302c226576656e74223a7b226576656e745f74797065223a22737465705f7374617274222c226d6573736167655f6964223a2230316131663561332d633863382d373633652d626665392d363865336433633464313163222c226167656e745f6964223a22706f72746572227d7d2c7b2261745f6d73223a313739353132323531343132302c226576656e74223a7b226576656e745f74797065223a22746f6f6c5f63616c6c5f7265616479222c226964223a226331222c226e616d65223a22636f756e74222c22617267756d656e7473223a7b7d7d7d2c7b2261745f6d73223a313739353132323531343132302c226576656e74223a7b226576656e745f74797065223a22696e666572656e63655f636f6d706c657465222c226d6f64656c223a2266756e6374696f6e222c227573616765223a7b2270726f6d70745f746f6b656e73223a302c22636f6d706c6574696f6e5f746f6b656e73223a307d2c226475726174696f6e5f6d73223a307d7d5d2c227265717565737473223a5b7b226d6573736167655f6964223a2230316131663561332d633863382d373633652d626665392d363865336433633464313163222c226c696b65223a322c2273686f776e223a5b5b312c335d5d2c2266697273745f6d73223a307d5d7d');
INSERT INTO office.commits_13 VALUES
	(5, 1, 1, 1, 1795122513351, 6, '\x7b2272756e223a2230316131663561332d633563372d373237372d626536352d653165356130376530396166222c226d65737361676573223a5b7b226964223a2230316131663561332d633562622d373335642d383538642d313331636432656463353733222c22726f6c65223a2275736572222c22636f6e74656e74223a5b7b2274797065223a2274657874222c2274657874223a22706c65617365207265736561726368227d5d7d5d2c2272756e5f7374617465223a7b225f5f72756e74696d652e72756e5f6c6966656379636c65223a7b2272756e5f6964223a2230316131663561332d633563372d373237372d626536352d653165356130376530396166222c22737461747573223a2272756e6e696e67222c22757064617465645f6174223a313739353132323531333335312c22737465705f636f756e74223a307d2c225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b226d6f6e6579223a302e302c227365636f6e6473223a302e30303030333333323939393939353130393237367d7d7d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531333335312c226576656e74223a7b226576656e745f74797065223a2272756e5f7374617274222c227468726561645f6964223a226261636b67726f756e64222c2272756e5f6964223a2230316131663561332d633563372d373237372d626536352d653165356130376530396166222c226964656e74697479223a7b227468726561645f6964223a226261636b67726f756e64222c2272756e5f6964223a2230316131663561332d633563372d373237372d626536352d653165356130376530396166222c226167656e745f6964223a22626f7373222c226f726967696e223a2275736572227d2c226361757365223a226e6577227d7d5d7d'),
	(5, 2, 2, 2, 1795122513357, 6, '\x7b2272756e223a2230316131663561332d633563372d373237372d626536352d653165356130376530396166222c226d65737361676573223a5b7b226964223a2230316131663561332d633563642d373435662d626635322d383932623939303132386462222c22726f6c65223a22617373697374616e74222c22636f6e74656e74223a5b5d2c22746f6f6c5f63616c6c73223a5b7b226964223a226330222c226e616d65223a227265736561726368222c22617267756d656e7473223a7b7d7d5d2c226d65746164617461223a7b2272756e5f6964223a2230316131663561332d633563372d373237372d626536352d653165356130376530396166222c22737465705f696e646578223a307d7d5d2c2272756e5f7374617465223a7b225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b22746f6b656e73223a313439372c226d6f6e6579223a302e302c227374657073223a312c227365636f6e6473223a302e3030353930353133323939393934313939387d7d7d2c2263616c6c73223a5b7b226b6579223a2230316131663561332d633563642d373435662d626635322d3839326239393031323864623a30222c2272756e5f6964223a2230316131663561332d633563372d373237372d626536352d653165356130376530396166222c2263616c6c5f6964223a226330222c22746f6f6c5f6e616d65223a227265736561726368222c227068617365223a22696e74656e74222c22617267756d656e7473223a7b7d7d5d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531333335372c226576656e74223a7b226576656e745f74797065223a22737465705f7374617274222c226d6573736167655f6964223a2230316131663561332d633563642d373435662d626635322d383932623939303132386462222c226167656e745f6964223a22626f7373227d7d2c7b2261745f6d73223a313739353132323531333335372c226576656e74223a7b226576656e745f74797065223a22746f6f6c5f63616c6c5f7265616479222c226964223a226330222c226e616d65223a227265736561726368222c22617267756d656e7473223a7b7d7d7d2c7b2261745f6d73223a313739353132323531333335372c226576656e74223a7b226576656e745f74797065223a22696e666572656e63655f636f6d706c657465222c226d6f64656c223a2266756e6374696f6e222c227573616765223a7b2270726f6d70745f746f6b656e73223a302c22636f6d706c6574696f6e5f746f6b656e73223a307d2c226475726174696f6e5f6d73223a307d7d5d2c227265717565737473223a5b7b226d6573736167655f6964223a2230316131663561332d633563642d373435662d626635322d383932623939303132386462222c2273686f776e223a5b5b312c315d5d2c2273657474696e6773223a7b227468726561645f6964223a226261636b67726f756e64222c2272756e5f6964223a2230316131663561332d633563372d373237372d626536352d653165356130376530396166222c226d6f64656c223a2266756e6374696f6e222c22746f6f6c73223a226430326539373331366536613033306166303132656363633666386165616133222c2270726f6d70745f6361636865223a747275657d2c2266697273745f6d73223a307d5d7d'),
	(5, 3, 3, 5, 1795122513370, 6, '\x7b2272756e223a2230316131663561332d633563372d373237372d626536352d653165356130376530396166222c226d65737361676573223a5b7b226964223a2230316131663561332d633564392d373637332d393037632d643564346536326561656262222c22726f6c65223a22746f6f6c222c22636f6e74656e74223a5b7b2274797065223a2274657874222c2274657874223a227b5c227461736b5f69645c223a5c2262675f305c222c5c227374617475735c223a5c2272756e6e696e675c227d227d5d2c22746f6f6c5f63616c6c5f6964223a226330222c226d65746164617461223a7b2272756e5f6964223a2230316131663561332d633563372d373237372d626536352d653165356130376530396166222c22737465705f696e646578223a307d7d5d2c2272756e5f7374617465223a7b225f5f72756e74696d652e70656e64696e675f776f726b223a7b226861735f70656e64696e67223a747275652c226f776e657273223a5b226261636b67726f756e645f7461736b73225d7d2c225f5f72756e74696d652e72756e5f6c6966656379636c65223a7b2272756e5f6964223a2230316131663561332d633563372d373237372d626536352d653165356130376530396166222c22737461747573223a2272756e6e696e67222c22757064617465645f6174223a313739353132323531333336392c22737465705f636f756e74223a317d2c225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b22746f6b656e73223a313439372c226d6f6e6579223a302e302c227374657073223a312c227365636f6e6473223a302e30313835393130373339393936383730377d7d2c226261636b67726f756e645f7461736b73223a7b227461736b73223a5b7b227461736b5f6964223a2262675f30222c227461736b5f74797065223a22746f6f6c222c226465736372697074696f6e223a227265736561726368222c22737461747573223a2272756e6e696e67222c22637265617465645f61745f6d73223a313739353132323531333336362c22706172656e745f636f6e74657874223a7b2272756e5f6964223a2230316131663561332d633563372d373237372d626536352d653165356130376530396166222c2263616c6c5f6964223a226330222c226167656e745f6964223a22626f7373227d2c22756964223a226261636b67726f756e647e7461736b2d30316131663561332d633563642d373435662d626635322d3839326239393031323864623a30227d5d7d7d2c227468726561645f7374617465223a7b226261636b67726f756e645f7461736b5f7374617465223a7b227461736b73223a7b2262675f30223a7b227461736b5f6964223a2262675f30222c226f776e65725f7468726561645f6964223a226261636b67726f756e64222c227461736b5f74797065223a22746f6f6c222c226465736372697074696f6e223a227265736561726368222c22737461747573223a2272756e6e696e67222c22637265617465645f61745f6d73223a313739353132323531333336362c22706172656e745f636f6e74657874223a7b2272756e5f6964223a2230316131663561332d633563372d373237372d626536352d653165356130376530396166222c2263616c6c5f6964223a226330222c226167656e745f6964223a22626f7373227d2c22756964223a226261636b67726f756e647e7461736b2d30316131663561332d633563642d373435662d626635322d3839326239393031323864623a30222c22656666656374223a2272656164227d7d7d7d2c2263616c6c73223a5b7b226b6579223a2230316131663561332d633563642d373435662d626635322d3839326239393031323864623a30222c2272756e5f6964223a2230316131663561332d633563372d373237372d626536352d653165356130376530396166222c2263616c6c5f6964223a226330222c22746f6f6c5f6e616d65223a227265736561726368222c227068617365223a22737563636565646564227d5d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531333336392c226576656e74223a7b226576656e745f74797065223a22746f6f6c5f63616c6c5f646f6e65222c226964223a226330222c226d6573736167655f6964223a2230316131663561332d633564392d373637332d393037632d643564346536326561656262222c22726573756c74223a7b22746f6f6c5f6e616d65223a227265736561726368222c22737461747573223a2273756363657373222c2264617461223a7b227461736b5f6964223a2262675f30222c22737461747573223a2272756e6e696e67227d2c226d657373616765223a6e756c6c7d2c226f7574636f6d65223a22737563636565646564222c22737461727465645f61745f6d73223a313739353132323531333335377d7d2c7b2261745f6d73223a313739353132323531333337302c226576656e74223a7b226576656e745f74797065223a22737465705f656e64227d7d5d7d'),
	(5, 4, 4, 7, 1795122513377, 6, '\x7b2272756e223a2230316131663561332d633563372d373237372d626536352d653165356130376530396166222c226d65737361676573223a5b7b226964223a2230316131663561332d633565312d373230392d393765332d313530323838346535633365222c22726f6c65223a22617373697374616e74222c22636f6e74656e74223a5b7b2274797065223a2274657874222c2274657874223a227b5c227461736b5f69645c223a5c2262675f305c222c5c227374617475735c223a5c2272756e6e696e675c227d227d5d2c226d65746164617461223a7b2272756e5f6964223a2230316131663561332d633563372d373237372d626536352d653165356130376530396166222c22737465705f696e646578223a317d7d5d2c2272756e5f7374617465223a7b225f5f72756e74696d652e72756e5f6c6966656379636c65223a7b2272756e5f6964223a2230316131663561332d633563372d373237372d626536352d653165356130376530396166222c22737461747573223a2277616974696e67222c227374617475735f726561736f6e223a226177616974696e675f7461736b73222c22757064617465645f6174223a313739353132323531333337372c22737465705f636f756e74223a327d2c225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b22746f6b656e73223a333033342c226d6f6e6579223a302e302c227374657073223a322c227365636f6e6473223a302e3032353635373834373939393830393734367d7d7d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531333337372c226576656e74223a7b226576656e745f74797065223a22737465705f7374617274222c226d6573736167655f6964223a2230316131663561332d633565312d373230392d393765332d313530323838346535633365222c226167656e745f6964223a22626f7373227d7d2c7b2261745f6d73223a313739353132323531333337372c226576656e74223a7b226576656e745f74797065223a22696e666572656e63655f636f6d706c657465222c226d6f64656c223a2266756e6374696f6e222c227573616765223a7b2270726f6d70745f746f6b656e73223a302c22636f6d706c6574696f6e5f746f6b656e73223a307d2c226475726174696f6e5f6d73223a307d7d2c7b2261745f6d73223a313739353132323531333337372c226576656e74223a7b226576656e745f74797065223a22737465705f656e64227d7d2c7b2261745f6d73223a313739353132323531333337372c226576656e74223a7b226576656e745f74797065223a2272756e5f66696e697368222c227468726561645f6964223a226261636b67726f756e64222c2272756e5f6964223a2230316131663561332d633563372d373237372d626536352d653165356130376530396166222c226964656e74697479223a7b227468726561645f6964223a226261636b67726f756e64222c2272756e5f6964223a2230316131663561332d633563372d373237372d626536352d653165356130376530396166222c226167656e745f6964223a22626f7373222c226f726967696e223a2275736572227d2c22726573756c74223a7b22726573706f6e7365223a227b5c227461736b5f69645c223a5c2262675f305c222c5c227374617475735c223a5c2272756e6e696e675c227d222c22737461747573223a2277616974696e67222c227374617475735f726561736f6e223a226177616974696e675f7461736b73227d2c227465726d696e6174696f6e223a7b2274797065223a226e61747572616c5f656e64227d2c227374657073223a327d7d5d2c227265717565737473223a5b7b226d6573736167655f6964223a2230316131663561332d633565312d373230392d393765332d313530323838346535633365222c226c696b65223a322c2273686f776e223a5b5b312c335d5d2c2266697273745f6d73223a307d5d7d'),
	(9, 1, 1, 1, 1795122513428, 9, '\x7b2272756e223a227061636b65727e7461736b2d30316131663561332d633630312d373363352d393332302d3633363637373835353536303a30222c22706172656e745f72756e223a2230316131663561332d633566652d373632362d616234652d333266613966386231646565222c226576656e7473223a5b7b2261745f6d73223a313739353132323531333432382c226576656e74223a7b226576656e745f74797065223a2272756e5f7374617274222c227468726561645f6964223a227061636b65727e7461736b2d30316131663561332d633630312d373363352d393332302d3633363637373835353536303a30222c2272756e5f6964223a227061636b65727e7461736b2d30316131663561332d633630312d373363352d393332302d3633363637373835353536303a30222c22706172656e745f72756e5f6964223a2230316131663561332d633566652d373632362d616234652d333266613966386231646565227d7d5d7d');
INSERT INTO office.commits_3 VALUES
	(4, 1, 1, 1, 1795122513290, 5, '\x7b2272756e223a227465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c22706172656e745f72756e223a2230316131663561332d633536302d373163622d616333352d393763303936633539636462222c226d65737361676573223a5b7b226964223a2230316131663561332d633536312d373564312d396266342d6332313366306439316138623a303e222c22726f6c65223a2275736572222c22636f6e74656e74223a5b7b2274797065223a2274657874222c2274657874223a22706c65617365206368617267652073686970227d5d7d5d2c2272756e5f7374617465223a7b225f5f72756e74696d652e72756e5f6c6966656379636c65223a7b2272756e5f6964223a227465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c22737461747573223a2272756e6e696e67222c22757064617465645f6174223a313739353132323531333239302c22737465705f636f756e74223a307d2c225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b226d6f6e6579223a302e302c227365636f6e6473223a302e30303030333433313130303030333538313337387d7d7d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531333239302c226576656e74223a7b226576656e745f74797065223a2272756e5f7374617274222c227468726561645f6964223a227465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c2272756e5f6964223a227465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c22706172656e745f72756e5f6964223a2230316131663561332d633536302d373163622d616333352d393763303936633539636462222c226964656e74697479223a7b227468726561645f6964223a227465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c22706172656e745f7468726561645f6964223a227465616d222c2272756e5f6964223a227465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c22706172656e745f72756e5f6964223a2230316131663561332d633536302d373163622d616333352d393763303936633539636462222c226167656e745f6964223a22636c65726b222c22706172656e745f746f6f6c5f63616c6c5f6964223a226330222c226f726967696e223a227375626167656e74227d2c226361757365223a226e6577227d7d5d7d'),
	(4, 2, 2, 2, 1795122513292, 5, '\x7b2272756e223a227465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c22706172656e745f72756e223a2230316131663561332d633536302d373163622d616333352d393763303936633539636462222c226d65737361676573223a5b7b226964223a2230316131663561332d633538632d373238362d616161302d643530653030323266353064222c22726f6c65223a22617373697374616e74222c22636f6e74656e74223a5b5d2c22746f6f6c5f63616c6c73223a5b7b226964223a226330222c226e616d65223a22636861726765222c22617267756d656e7473223a7b7d7d5d2c226d65746164617461223a7b2272756e5f6964223a227465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c22737465705f696e646578223a307d7d5d2c2272756e5f7374617465223a7b225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b22746f6b656e73223a3135302c226d6f6e6579223a302e302c227374657073223a312c227365636f6e6473223a302e303031393735313034393939393238353839377d7d7d2c2263616c6c73223a5b7b226b6579223a2230316131663561332d633538632d373238362d616161302d6435306530303232663530643a30222c2272756e5f6964223a227465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c2263616c6c5f6964223a226330222c22746f6f6c5f6e616d65223a22636861726765222c227068617365223a22696e74656e74222c22617267756d656e7473223a7b7d7d5d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531333239322c226576656e74223a7b226576656e745f74797065223a22737465705f7374617274222c226d6573736167655f6964223a2230316131663561332d633538632d373238362d616161302d643530653030323266353064222c226167656e745f6964223a22636c65726b227d7d2c7b2261745f6d73223a313739353132323531333239322c226576656e74223a7b226576656e745f74797065223a22746f6f6c5f63616c6c5f7265616479222c226964223a226330222c226e616d65223a22636861726765222c22617267756d656e7473223a7b7d7d7d2c7b2261745f6d73223a313739353132323531333239322c226576656e74223a7b226576656e745f74797065223a22696e666572656e63655f636f6d706c657465222c226d6f64656c223a2266756e6374696f6e222c227573616765223a7b2270726f6d70745f746f6b656e73223a302c22636f6d706c6574696f6e5f746f6b656e73223a307d2c226475726174696f6e5f6d73223a307d7d5d2c227265717565737473223a5b7b226d6573736167655f6964223a2230316131663561332d633538632d373238362d616161302d643530653030323266353064222c2273686f776e223a5b5b312c315d5d2c2273657474696e6773223a7b227468726561645f6964223a227465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c2272756e5f6964223a227465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c226d6f64656c223a2266756e6374696f6e222c22746f6f6c73223a223764346264373437613465353631626664383764363233643336646633316432222c2270726f6d70745f6361636865223a747275657d2c2266697273745f6d73223a307d5d7d'),
	(4, 3, 3, 5, 1795122513299, 5, '\x7b2272756e223a227465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c22706172656e745f72756e223a2230316131663561332d633536302d373163622d616333352d393763303936633539636462222c226d65737361676573223a5b7b226964223a2230316131663561332d633539332d373339342d396432632d643763336539313932663630222c22726f6c65223a22746f6f6c222c22636f6e74656e74223a5b7b2274797065223a2274657874222c2274657874223a2263686172676564227d5d2c22746f6f6c5f63616c6c5f6964223a226330222c226d65746164617461223a7b2272756e5f6964223a227465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c22737465705f696e646578223a307d7d5d2c2272756e5f7374617465223a7b225f5f72756e74696d652e72756e5f6c6966656379636c65223a7b2272756e5f6964223a227465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c22737461747573223a2272756e6e696e67222c22757064617465645f6174223a313739353132323531333239392c22737465705f636f756e74223a317d2c225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b22746f6b656e73223a3135302c226d6f6e6579223a302e302c227374657073223a312c227365636f6e6473223a302e3030383439383633383939393735333839347d7d7d2c2263616c6c73223a5b7b226b6579223a2230316131663561332d633538632d373238362d616161302d6435306530303232663530643a30222c2272756e5f6964223a227465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c2263616c6c5f6964223a226330222c22746f6f6c5f6e616d65223a22636861726765222c227068617365223a22737563636565646564227d5d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531333239392c226576656e74223a7b226576656e745f74797065223a22746f6f6c5f63616c6c5f646f6e65222c226964223a226330222c226d6573736167655f6964223a2230316131663561332d633539332d373339342d396432632d643763336539313932663630222c22726573756c74223a7b22746f6f6c5f6e616d65223a22636861726765222c22737461747573223a2273756363657373222c2264617461223a2263686172676564222c226d657373616765223a2263686172676564227d2c226f7574636f6d65223a22737563636565646564222c22737461727465645f61745f6d73223a313739353132323531333239387d7d2c7b2261745f6d73223a313739353132323531333239392c226576656e74223a7b226576656e745f74797065223a22737465705f656e64227d7d5d7d'),
	(4, 4, 4, 7, 1795122513303, 5, '\x7b2272756e223a227465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c22706172656e745f72756e223a2230316131663561332d633536302d373163622d616333352d393763303936633539636462222c226d65737361676573223a5b7b226964223a2230316131663561332d633539372d373436622d626637352d636666636538383261333031222c22726f6c65223a22617373697374616e74222c22636f6e74656e74223a5b5d2c22746f6f6c5f63616c6c73223a5b7b226964223a226331222c226e616d65223a2273686970222c22617267756d656e7473223a7b7d7d5d2c226d65746164617461223a7b2272756e5f6964223a227465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c22737465705f696e646578223a317d7d5d2c2272756e5f7374617465223a7b225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b22746f6b656e73223a3332302c226d6f6e6579223a302e302c227374657073223a322c227365636f6e6473223a302e3031323635363633373939393935333039317d7d7d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531333330332c226576656e74223a7b226576656e745f74797065223a22737465705f7374617274222c226d6573736167655f6964223a2230316131663561332d633539372d373436622d626637352d636666636538383261333031222c226167656e745f6964223a22636c65726b227d7d2c7b2261745f6d73223a313739353132323531333330332c226576656e74223a7b226576656e745f74797065223a22746f6f6c5f63616c6c5f7265616479222c226964223a226331222c226e616d65223a2273686970222c22617267756d656e7473223a7b7d7d7d2c7b2261745f6d73223a313739353132323531333330332c226576656e74223a7b226576656e745f74797065223a22696e666572656e63655f636f6d706c657465222c226d6f64656c223a2266756e6374696f6e222c227573616765223a7b2270726f6d70745f746f6b656e73223a302c22636f6d706c6574696f6e5f746f6b656e73223a307d2c226475726174696f6e5f6d73223a307d7d5d2c227265717565737473223a5b7b226d6573736167655f6964223a2230316131663561332d633539372d373436622d626637352d636666636538383261333031222c226c696b65223a322c2273686f776e223a5b5b312c335d5d2c2266697273745f6d73223a307d5d7d'),
	(4, 5, 5, 10, 1795122513306, 5, '\x7b2272756e223a227465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c22706172656e745f72756e223a2230316131663561332d633536302d373163622d616333352d393763303936633539636462222c2272756e5f7374617465223a7b225f5f72756e74696d652e72756e5f6c6966656379636c65223a7b2272756e5f6964223a227465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c22737461747573223a2277616974696e67222c227374617475735f726561736f6e223a2273757370656e646564222c22757064617465645f6174223a313739353132323531333330332c22737465705f636f756e74223a327d2c225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b22746f6b656e73223a3332302c226d6f6e6579223a302e302c227374657073223a322c227365636f6e6473223a302e3031363230373839313939393738333839377d7d7d2c227468726561645f7374617465223a7b225f5f72756e74696d652e746f6f6c5f63616c6c5f737461746573223a7b2263616c6c73223a7b226331223a7b2263616c6c5f6964223a226331222c22746f6f6c5f6e616d65223a2273686970222c22617267756d656e7473223a7b7d2c22737461747573223a2273757370656e646564222c22757064617465645f6174223a313739353132323531333330332c22726573756d655f6d6f6465223a227265706c61795f746f6f6c5f63616c6c222c2273757370656e73696f6e5f6964223a22617070726f76616c5f6331222c2273757370656e73696f6e5f726561736f6e223a22746f6f6c3a73686970222c226b6579223a2230316131663561332d633539372d373436622d626637352d6366666365383832613330313a30222c2261736b6564223a312c22646967657374223a226334646565396564393037343261373234316435336138656462326432393431222c226d657373616765223a22417070726f766520736869703f227d7d2c227475726e223a2230316131663561332d633539372d373436622d626637352d636666636538383261333031227d7d2c2263616c6c73223a5b7b226b6579223a2230316131663561332d633539372d373436622d626637352d6366666365383832613330313a30222c2272756e5f6964223a227465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c2263616c6c5f6964223a226331222c22746f6f6c5f6e616d65223a2273686970222c227068617365223a2273757370656e646564227d5d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531333330332c226576656e74223a7b226576656e745f74797065223a22746f6f6c5f63616c6c5f646f6e65222c226964223a226331222c226d6573736167655f6964223a22222c22726573756c74223a7b22746f6f6c5f6e616d65223a2273686970222c22737461747573223a2270656e64696e67222c2264617461223a6e756c6c2c226d657373616765223a22417070726f766520736869703f222c2273757370656e73696f6e223a7b2273757370656e73696f6e223a7b226964223a22617070726f76616c5f6331222c22616374696f6e223a22746f6f6c3a73686970222c226d657373616765223a22417070726f766520736869703f222c22706172616d6574657273223a7b7d7d2c2270656e64696e67223a7b226964223a226331222c226e616d65223a2273686970222c22617267756d656e7473223a7b7d7d2c22726573756d655f6d6f6465223a227265706c61795f746f6f6c5f63616c6c227d7d2c226f7574636f6d65223a2273757370656e646564222c22737461727465645f61745f6d73223a313739353132323531333330332c227469636b65745f6b6579223a2230316131663561332d633539372d373436622d626637352d6366666365383832613330313a30222c22646967657374223a226334646565396564393037343261373234316435336138656462326432393431227d7d2c7b2261745f6d73223a313739353132323531333330332c226576656e74223a7b226576656e745f74797065223a22737465705f656e64227d7d2c7b2261745f6d73223a313739353132323531333330362c226576656e74223a7b226576656e745f74797065223a2272756e5f66696e697368222c227468726561645f6964223a227465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c2272756e5f6964223a227465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c226964656e74697479223a7b227468726561645f6964223a227465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c22706172656e745f7468726561645f6964223a227465616d222c2272756e5f6964223a227465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c22706172656e745f72756e5f6964223a2230316131663561332d633536302d373163622d616333352d393763303936633539636462222c226167656e745f6964223a22636c65726b222c22706172656e745f746f6f6c5f63616c6c5f6964223a226330222c226f726967696e223a227375626167656e74227d2c22726573756c74223a7b22726573706f6e7365223a22222c22737461747573223a2277616974696e67222c227374617475735f726561736f6e223a2273757370656e646564227d2c227465726d696e6174696f6e223a7b2274797065223a2273757370656e646564227d2c227469636b657473223a5b7b226b6579223a2230316131663561332d633539372d373436622d626637352d6366666365383832613330313a30222c227469636b65745f6964223a22617070726f76616c5f6331222c22746f6f6c5f6e616d65223a2273686970222c22617267756d656e7473223a7b7d2c22726573756d655f6d6f6465223a227265706c61795f746f6f6c5f63616c6c222c22726561736f6e223a22746f6f6c3a73686970222c22646967657374223a226334646565396564393037343261373234316435336138656462326432393431222c226d657373616765223a22417070726f766520736869703f222c22746f6f6c5f63616c6c5f6964223a226331222c22757064617465645f6174223a313739353132323531333330337d5d2c227374657073223a327d7d5d7d'),
	(6, 1, 1, 1, 1795122513366, 7, '\x7b2272756e223a226261636b67726f756e647e7461736b2d30316131663561332d633563642d373435662d626635322d3839326239393031323864623a30222c22706172656e745f72756e223a2230316131663561332d633563372d373237372d626536352d653165356130376530396166222c226576656e7473223a5b7b2261745f6d73223a313739353132323531333336362c226576656e74223a7b226576656e745f74797065223a2272756e5f7374617274222c227468726561645f6964223a226261636b67726f756e647e7461736b2d30316131663561332d633563642d373435662d626635322d3839326239393031323864623a30222c2272756e5f6964223a226261636b67726f756e647e7461736b2d30316131663561332d633563642d373435662d626635322d3839326239393031323864623a30222c22706172656e745f72756e5f6964223a2230316131663561332d633563372d373237372d626536352d653165356130376530396166227d7d5d7d');
INSERT INTO office.commits_5 VALUES
	(8, 1, 1, 1, 1795122513406, 8, '\x7b2272756e223a2230316131663561332d633566652d373632362d616234652d333266613966386231646565222c226d65737361676573223a5b7b226964223a2230316131663561332d633566362d373463612d623436302d626536623761626238613032222c22726f6c65223a2275736572222c22636f6e74656e74223a5b7b2274797065223a2274657874222c2274657874223a22706c65617365206167656e745f72756e5f7061636b6572227d5d7d5d2c2272756e5f7374617465223a7b225f5f72756e74696d652e72756e5f6c6966656379636c65223a7b2272756e5f6964223a2230316131663561332d633566652d373632362d616234652d333266613966386231646565222c22737461747573223a2272756e6e696e67222c22757064617465645f6174223a313739353132323531333430362c22737465705f636f756e74223a307d2c225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b226d6f6e6579223a302e302c227365636f6e6473223a302e30303030333432373130303030303430383234357d7d7d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531333430362c226576656e74223a7b226576656e745f74797065223a2272756e5f7374617274222c227468726561645f6964223a227061636b6572222c2272756e5f6964223a2230316131663561332d633566652d373632362d616234652d333266613966386231646565222c226964656e74697479223a7b227468726561645f6964223a227061636b6572222c2272756e5f6964223a2230316131663561332d633566652d373632362d616234652d333266613966386231646565222c226167656e745f6964223a22626f7373222c226f726967696e223a2275736572227d2c226361757365223a226e6577227d7d5d7d'),
	(8, 2, 2, 2, 1795122513411, 8, '\x7b2272756e223a2230316131663561332d633566652d373632362d616234652d333266613966386231646565222c226d65737361676573223a5b7b226964223a2230316131663561332d633630312d373363352d393332302d363336363737383535353630222c22726f6c65223a22617373697374616e74222c22636f6e74656e74223a5b5d2c22746f6f6c5f63616c6c73223a5b7b226964223a226330222c226e616d65223a226167656e745f72756e5f7061636b6572222c22617267756d656e7473223a7b2270726f6d7074223a22706c656173652063686172676520636f756e74227d7d5d2c226d65746164617461223a7b2272756e5f6964223a2230316131663561332d633566652d373632362d616234652d333266613966386231646565222c22737465705f696e646578223a307d7d5d2c2272756e5f7374617465223a7b225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b22746f6b656e73223a313531322c226d6f6e6579223a302e302c227374657073223a312c227365636f6e6473223a302e303034383031393337393939363733317d7d7d2c2263616c6c73223a5b7b226b6579223a2230316131663561332d633630312d373363352d393332302d3633363637373835353536303a30222c2272756e5f6964223a2230316131663561332d633566652d373632362d616234652d333266613966386231646565222c2263616c6c5f6964223a226330222c22746f6f6c5f6e616d65223a226167656e745f72756e5f7061636b6572222c227068617365223a22696e74656e74222c22617267756d656e7473223a7b2270726f6d7074223a22706c656173652063686172676520636f756e74227d7d5d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531333430392c226576656e74223a7b226576656e745f74797065223a22737465705f7374617274222c226d6573736167655f6964223a2230316131663561332d633630312d373363352d393332302d363336363737383535353630222c226167656e745f6964223a22626f7373227d7d2c7b2261745f6d73223a313739353132323531333431312c226576656e74223a7b226576656e745f74797065223a22746f6f6c5f63616c6c5f7265616479222c226964223a226330222c226e616d65223a226167656e745f72756e5f7061636b6572222c22617267756d656e7473223a7b2270726f6d7074223a22706c656173652063686172676520636f756e74227d7d7d2c7b2261745f6d73223a313739353132323531333431312c226576656e74223a7b226576656e745f74797065223a22696e666572656e63655f636f6d706c657465222c226d6f64656c223a2266756e6374696f6e222c227573616765223a7b2270726f6d70745f746f6b656e73223a302c22636f6d706c6574696f6e5f746f6b656e73223a307d2c226475726174696f6e5f6d73223a317d7d5d2c227265717565737473223a5b7b226d6573736167655f6964223a2230316131663561332d633630312d373363352d393332302d363336363737383535353630222c2273686f776e223a5b5b312c315d5d2c2273657474696e6773223a7b227468726561645f6964223a227061636b6572222c2272756e5f6964223a2230316131663561332d633566652d373632362d616234652d333266613966386231646565222c226d6f64656c223a2266756e6374696f6e222c22746f6f6c73223a226430326539373331366536613033306166303132656363633666386165616133222c2270726f6d70745f6361636865223a747275657d2c2266697273745f6d73223a307d5d7d'),
	(8, 3, 3, 5, 1795122513444, 8, '\x7b2272756e223a2230316131663561332d633566652d373632362d616234652d333266613966386231646565222c226d65737361676573223a5b7b226964223a2230316131663561332d633632332d373130612d396631652d353633313937343838316232222c22726f6c65223a22746f6f6c222c22636f6e74656e74223a5b7b2274797065223a2274657874222c2274657874223a227b5c227461736b5f69645c223a5c2262675f305c222c5c227374617475735c223a5c2272756e6e696e675c227d227d5d2c22746f6f6c5f63616c6c5f6964223a226330222c226d65746164617461223a7b2272756e5f6964223a2230316131663561332d633566652d373632362d616234652d333266613966386231646565222c22737465705f696e646578223a307d7d5d2c2272756e5f7374617465223a7b225f5f72756e74696d652e70656e64696e675f776f726b223a7b226861735f70656e64696e67223a747275652c226f776e657273223a5b226261636b67726f756e645f7461736b73225d7d2c225f5f72756e74696d652e72756e5f6c6966656379636c65223a7b2272756e5f6964223a2230316131663561332d633566652d373632362d616234652d333266613966386231646565222c22737461747573223a2272756e6e696e67222c22757064617465645f6174223a313739353132323531333434332c22737465705f636f756e74223a317d2c225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b22746f6b656e73223a313531322c226d6f6e6579223a302e302c227374657073223a312c227365636f6e6473223a302e30333736383930373239393939313034327d7d2c226261636b67726f756e645f7461736b73223a7b227461736b73223a5b7b227461736b5f6964223a2262675f30222c227461736b5f74797065223a22746f6f6c222c226465736372697074696f6e223a226167656e745f72756e5f7061636b6572222c22737461747573223a2272756e6e696e67222c22637265617465645f61745f6d73223a313739353132323531333432382c22706172656e745f636f6e74657874223a7b2272756e5f6964223a2230316131663561332d633566652d373632362d616234652d333266613966386231646565222c2263616c6c5f6964223a226330222c226167656e745f6964223a22626f7373227d2c22756964223a227061636b65727e7461736b2d30316131663561332d633630312d373363352d393332302d3633363637373835353536303a30222c2270726f6772657373223a7b226d657373616765223a2264656c65676174696e6720746f207061636b6572227d7d5d7d7d2c227468726561645f7374617465223a7b226261636b67726f756e645f7461736b5f7374617465223a7b227461736b73223a7b2262675f30223a7b227461736b5f6964223a2262675f30222c226f776e65725f7468726561645f6964223a227061636b6572222c227461736b5f74797065223a22746f6f6c222c226465736372697074696f6e223a226167656e745f72756e5f7061636b6572222c22737461747573223a2272756e6e696e67222c22637265617465645f61745f6d73223a313739353132323531333432382c22706172656e745f636f6e74657874223a7b2272756e5f6964223a2230316131663561332d633566652d373632362d616234652d333266613966386231646565222c2263616c6c5f6964223a226330222c226167656e745f6964223a22626f7373227d2c22756964223a227061636b65727e7461736b2d30316131663561332d633630312d373363352d393332302d3633363637373835353536303a30222c22656666656374223a226964656d706f74656e74227d7d7d7d2c2263616c6c73223a5b7b226b6579223a2230316131663561332d633630312d373363352d393332302d3633363637373835353536303a30222c2272756e5f6964223a2230316131663561332d633566652d373632362d616234652d333266613966386231646565222c2263616c6c5f6964223a226330222c22746f6f6c5f6e616d65223a226167656e745f72756e5f7061636b6572222c227068617365223a22737563636565646564227d5d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531333434332c226576656e74223a7b226576656e745f74797065223a22746f6f6c5f63616c6c5f646f6e65222c226964223a226330222c226d6573736167655f6964223a2230316131663561332d633632332d373130612d396631652d353633313937343838316232222c22726573756c74223a7b22746f6f6c5f6e616d65223a226167656e745f72756e5f7061636b6572222c22737461747573223a2273756363657373222c2264617461223a7b227461736b5f6964223a2262675f30222c22737461747573223a2272756e6e696e67227d2c226d657373616765223a6e756c6c7d2c226f7574636f6d65223a22737563636565646564222c226b696e64223a2265786563757465222c22737461727465645f61745f6d73223a313739353132323531333432337d7d2c7b2261745f6d73223a313739353132323531333434342c226576656e74223a7b226576656e745f74797065223a22737465705f656e64227d7d5d7d'),
	(8, 4, 4, 7, 1795122513451, 8, '\x7b2272756e223a2230316131663561332d633566652d373632362d616234652d333266613966386231646565222c226d65737361676573223a5b7b226964223a2230316131663561332d633632612d373632342d383339332d323763396361353338383736222c22726f6c65223a22617373697374616e74222c22636f6e74656e74223a5b7b2274797065223a2274657874222c2274657874223a227b5c227461736b5f69645c223a5c2262675f305c222c5c227374617475735c223a5c2272756e6e696e675c227d227d5d2c226d65746164617461223a7b2272756e5f6964223a2230316131663561332d633566652d373632362d616234652d333266613966386231646565222c22737465705f696e646578223a317d7d5d2c2272756e5f7374617465223a7b225f5f72756e74696d652e72756e5f6c6966656379636c65223a7b2272756e5f6964223a2230316131663561332d633566652d373632362d616234652d333266613966386231646565222c22737461747573223a2277616974696e67222c227374617475735f726561736f6e223a226177616974696e675f7461736b73222c22757064617465645f6174223a313739353132323531333435312c22737465705f636f756e74223a327d2c225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b22746f6b656e73223a333036342c226d6f6e6579223a302e302c227374657073223a322c227365636f6e6473223a302e30343436363334363939393937303438337d7d7d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531333435302c226576656e74223a7b226576656e745f74797065223a22737465705f7374617274222c226d6573736167655f6964223a2230316131663561332d633632612d373632342d383339332d323763396361353338383736222c226167656e745f6964223a22626f7373227d7d2c7b2261745f6d73223a313739353132323531333435312c226576656e74223a7b226576656e745f74797065223a22696e666572656e63655f636f6d706c657465222c226d6f64656c223a2266756e6374696f6e222c227573616765223a7b2270726f6d70745f746f6b656e73223a302c22636f6d706c6574696f6e5f746f6b656e73223a307d2c226475726174696f6e5f6d73223a307d7d2c7b2261745f6d73223a313739353132323531333435312c226576656e74223a7b226576656e745f74797065223a22737465705f656e64227d7d2c7b2261745f6d73223a313739353132323531333435312c226576656e74223a7b226576656e745f74797065223a2272756e5f66696e697368222c227468726561645f6964223a227061636b6572222c2272756e5f6964223a2230316131663561332d633566652d373632362d616234652d333266613966386231646565222c226964656e74697479223a7b227468726561645f6964223a227061636b6572222c2272756e5f6964223a2230316131663561332d633566652d373632362d616234652d333266613966386231646565222c226167656e745f6964223a22626f7373222c226f726967696e223a2275736572227d2c22726573756c74223a7b22726573706f6e7365223a227b5c227461736b5f69645c223a5c2262675f305c222c5c227374617475735c223a5c2272756e6e696e675c227d222c22737461747573223a2277616974696e67222c227374617475735f726561736f6e223a226177616974696e675f7461736b73227d2c227465726d696e6174696f6e223a7b2274797065223a226e61747572616c5f656e64227d2c227374657073223a327d7d5d2c227265717565737473223a5b7b226d6573736167655f6964223a2230316131663561332d633632612d373632342d383339332d323763396361353338383736222c226c696b65223a322c2273686f776e223a5b5b312c335d5d2c2266697273745f6d73223a307d5d7d');
INSERT INTO office.commits_6 VALUES
	(13, 1, 1, 1, 1795122514144, 13, '\x7b2272756e223a2230316131663561332d633865302d373336332d386431332d323362343764373531666463222c226d65737361676573223a5b7b226964223a2230316131663561332d633863382d373633652d626665392d363865343563306338373830222c22726f6c65223a2275736572222c22636f6e74656e74223a5b7b2274797065223a2274657874222c2274657874223a22706c6561736520636861726765206578706c6f6465227d5d7d5d2c2272756e5f7374617465223a7b225f5f72756e74696d652e72756e5f6c6966656379636c65223a7b2272756e5f6964223a2230316131663561332d633865302d373336332d386431332d323362343764373531666463222c22737461747573223a2272756e6e696e67222c22757064617465645f6174223a313739353132323531343134342c22737465705f636f756e74223a307d2c225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b226d6f6e6579223a302e302c227365636f6e6473223a302e30303030333037363630303032333633323633367d7d7d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531343134342c226576656e74223a7b226576656e745f74797065223a2272756e5f7374617274222c227468726561645f6964223a226b696c6c6564222c2272756e5f6964223a2230316131663561332d633865302d373336332d386431332d323362343764373531666463222c226964656e74697479223a7b227468726561645f6964223a226b696c6c6564222c2272756e5f6964223a2230316131663561332d633865302d373336332d386431332d323362343764373531666463222c226167656e745f6964223a22626f7373222c226f726967696e223a2275736572227d2c226361757365223a226e6577227d7d5d7d'),
	(13, 2, 2, 2, 1795122514153, 13, '\x7b2272756e223a2230316131663561332d633865302d373336332d386431332d323362343764373531666463222c226d65737361676573223a5b7b226964223a2230316131663561332d633865392d373261652d393237622d643032336563613663343438222c22726f6c65223a22617373697374616e74222c22636f6e74656e74223a5b5d2c22746f6f6c5f63616c6c73223a5b7b226964223a226330222c226e616d65223a22636861726765222c22617267756d656e7473223a7b7d7d5d2c226d65746164617461223a7b2272756e5f6964223a2230316131663561332d633865302d373336332d386431332d323362343764373531666463222c22737465705f696e646578223a307d7d5d2c2272756e5f7374617465223a7b225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b22746f6b656e73223a313439382c226d6f6e6579223a302e302c227374657073223a312c227365636f6e6473223a302e3030383730393238333030303337313231357d7d7d2c2263616c6c73223a5b7b226b6579223a2230316131663561332d633865392d373261652d393237622d6430323365636136633434383a30222c2272756e5f6964223a2230316131663561332d633865302d373336332d386431332d323362343764373531666463222c2263616c6c5f6964223a226330222c22746f6f6c5f6e616d65223a22636861726765222c227068617365223a22696e74656e74222c22617267756d656e7473223a7b7d7d5d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531343135332c226576656e74223a7b226576656e745f74797065223a22737465705f7374617274222c226d6573736167655f6964223a2230316131663561332d633865392d373261652d393237622d643032336563613663343438222c226167656e745f6964223a22626f7373227d7d2c7b2261745f6d73223a313739353132323531343135332c226576656e74223a7b226576656e745f74797065223a22746f6f6c5f63616c6c5f7265616479222c226964223a226330222c226e616d65223a22636861726765222c22617267756d656e7473223a7b7d7d7d2c7b2261745f6d73223a313739353132323531343135332c226576656e74223a7b226576656e745f74797065223a22696e666572656e63655f636f6d706c657465222c226d6f64656c223a2266756e6374696f6e222c227573616765223a7b2270726f6d70745f746f6b656e73223a302c22636f6d706c6574696f6e5f746f6b656e73223a307d2c226475726174696f6e5f6d73223a307d7d5d2c227265717565737473223a5b7b226d6573736167655f6964223a2230316131663561332d633865392d373261652d393237622d643032336563613663343438222c2273686f776e223a5b5b312c315d5d2c2273657474696e6773223a7b227468726561645f6964223a226b696c6c6564222c2272756e5f6964223a2230316131663561332d633865302d373336332d386431332d323362343764373531666463222c226d6f64656c223a2266756e6374696f6e222c22746f6f6c73223a226430326539373331366536613033306166303132656363633666386165616133222c2270726f6d70745f6361636865223a747275657d2c2266697273745f6d73223a307d5d7d'),
	(13, 3, 3, 5, 1795122514158, 13, '\x7b2272756e223a2230316131663561332d633865302d373336332d386431332d323362343764373531666463222c226d65737361676573223a5b7b226964223a2230316131663561332d633865652d373765372d623735382d656531643939633036386436222c22726f6c65223a22746f6f6c222c22636f6e74656e74223a5b7b2274797065223a2274657874222c2274657874223a2263686172676564227d5d2c22746f6f6c5f63616c6c5f6964223a226330222c226d65746164617461223a7b2272756e5f6964223a2230316131663561332d633865302d373336332d386431332d323362343764373531666463222c22737465705f696e646578223a307d7d5d2c2272756e5f7374617465223a7b225f5f72756e74696d652e72756e5f6c6966656379636c65223a7b2272756e5f6964223a2230316131663561332d633865302d373336332d386431332d323362343764373531666463222c22737461747573223a2272756e6e696e67222c22757064617465645f6174223a313739353132323531343135382c22737465705f636f756e74223a317d2c225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b22746f6b656e73223a313439382c226d6f6e6579223a302e302c227374657073223a312c227365636f6e6473223a302e3031343330373930393030303330383432377d7d7d2c2263616c6c73223a5b7b226b6579223a2230316131663561332d633865392d373261652d393237622d6430323365636136633434383a30222c2272756e5f6964223a2230316131663561332d633865302d373336332d386431332d323362343764373531666463222c2263616c6c5f6964223a226330222c22746f6f6c5f6e616d65223a22636861726765222c227068617365223a22737563636565646564227d5d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531343135382c226576656e74223a7b226576656e745f74797065223a22746f6f6c5f63616c6c5f646f6e65222c226964223a226330222c226d6573736167655f6964223a2230316131663561332d633865652d373765372d623735382d656531643939633036386436222c22726573756c74223a7b22746f6f6c5f6e616d65223a22636861726765222c22737461747573223a2273756363657373222c2264617461223a2263686172676564222c226d657373616765223a2263686172676564227d2c226f7574636f6d65223a22737563636565646564222c22737461727465645f61745f6d73223a313739353132323531343135387d7d2c7b2261745f6d73223a313739353132323531343135382c226576656e74223a7b226576656e745f74797065223a22737465705f656e64227d7d5d7d'),
	(13, 4, 4, 7, 1795122514161, 13, '\x7b2272756e223a2230316131663561332d633865302d373336332d386431332d323362343764373531666463222c226d65737361676573223a5b7b226964223a2230316131663561332d633866312d373038642d613831632d306536633231356138623163222c22726f6c65223a22617373697374616e74222c22636f6e74656e74223a5b5d2c22746f6f6c5f63616c6c73223a5b7b226964223a226331222c226e616d65223a226578706c6f6465222c22617267756d656e7473223a7b7d7d5d2c226d65746164617461223a7b2272756e5f6964223a2230316131663561332d633865302d373336332d386431332d323362343764373531666463222c22737465705f696e646578223a317d7d5d2c2272756e5f7374617465223a7b225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b22746f6b656e73223a333031372c226d6f6e6579223a302e302c227374657073223a322c227365636f6e6473223a302e3031363731363835303030303139333531377d7d7d2c2263616c6c73223a5b7b226b6579223a2230316131663561332d633866312d373038642d613831632d3065366332313561386231633a30222c2272756e5f6964223a2230316131663561332d633865302d373336332d386431332d323362343764373531666463222c2263616c6c5f6964223a226331222c22746f6f6c5f6e616d65223a226578706c6f6465222c227068617365223a22696e74656e74222c22617267756d656e7473223a7b7d7d5d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531343136312c226576656e74223a7b226576656e745f74797065223a22737465705f7374617274222c226d6573736167655f6964223a2230316131663561332d633866312d373038642d613831632d306536633231356138623163222c226167656e745f6964223a22626f7373227d7d2c7b2261745f6d73223a313739353132323531343136312c226576656e74223a7b226576656e745f74797065223a22746f6f6c5f63616c6c5f7265616479222c226964223a226331222c226e616d65223a226578706c6f6465222c22617267756d656e7473223a7b7d7d7d2c7b2261745f6d73223a313739353132323531343136312c226576656e74223a7b226576656e745f74797065223a22696e666572656e63655f636f6d706c657465222c226d6f64656c223a2266756e6374696f6e222c227573616765223a7b2270726f6d70745f746f6b656e73223a302c22636f6d706c6574696f6e5f746f6b656e73223a307d2c226475726174696f6e5f6d73223a307d7d5d2c227265717565737473223a5b7b226d6573736167655f6964223a2230316131663561332d633866312d373038642d613831632d306536633231356138623163222c226c696b65223a322c2273686f776e223a5b5b312c335d5d2c2266697273745f6d73223a307d5d7d');
INSERT INTO office.commits_7 VALUES
	(7, 1, 1, 1, 1795122513021, NULL, '\x7b2272756e223a2230316131663561332d633437632d373630392d613666362d373861333136326231363239222c226d65737361676573223a5b7b226964223a2230316131663561332d633434372d373431352d383232352d666539613439626466313839222c22726f6c65223a2275736572222c22636f6e74656e74223a5b7b2274797065223a2274657874222c2274657874223a22706c65617365206c6f6f6b20636861726765227d5d7d5d2c2272756e5f7374617465223a7b225f5f72756e74696d652e72756e5f6c6966656379636c65223a7b2272756e5f6964223a2230316131663561332d633437632d373630392d613666362d373861333136326231363239222c22737461747573223a2272756e6e696e67222c22757064617465645f6174223a313739353132323531333032312c22737465705f636f756e74223a307d2c225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b226d6f6e6579223a302e302c227365636f6e6473223a302e30303030363434303630303030393232373633377d7d7d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531333032312c226576656e74223a7b226576656e745f74797065223a2272756e5f7374617274222c227468726561645f6964223a2274616c6b222c2272756e5f6964223a2230316131663561332d633437632d373630392d613666362d373861333136326231363239222c226964656e74697479223a7b227468726561645f6964223a2274616c6b222c2272756e5f6964223a2230316131663561332d633437632d373630392d613666362d373861333136326231363239222c226167656e745f6964223a22626f7373222c226f726967696e223a2275736572227d2c226361757365223a226e6577227d7d5d7d'),
	(7, 2, 2, 2, 1795122513077, NULL, '\x7b2272756e223a2230316131663561332d633437632d373630392d613666362d373861333136326231363239222c226d65737361676573223a5b7b226964223a2230316131663561332d633462352d373262622d393630362d386531393963366663613266222c22726f6c65223a22617373697374616e74222c22636f6e74656e74223a5b5d2c22746f6f6c5f63616c6c73223a5b7b226964223a226330222c226e616d65223a226c6f6f6b222c22617267756d656e7473223a7b7d7d5d2c226d65746164617461223a7b2272756e5f6964223a2230316131663561332d633437632d373630392d613666362d373861333136326231363239222c22737465705f696e646578223a307d7d5d2c2272756e5f7374617465223a7b225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b22746f6b656e73223a313439372c226d6f6e6579223a302e302c227374657073223a312c227365636f6e6473223a302e30353634343837363930303033323631347d7d7d2c2263616c6c73223a5b7b226b6579223a2230316131663561332d633462352d373262622d393630362d3865313939633666636132663a30222c2272756e5f6964223a2230316131663561332d633437632d373630392d613666362d373861333136326231363239222c2263616c6c5f6964223a226330222c22746f6f6c5f6e616d65223a226c6f6f6b222c227068617365223a22696e74656e74222c22617267756d656e7473223a7b7d7d5d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531333037372c226576656e74223a7b226576656e745f74797065223a22737465705f7374617274222c226d6573736167655f6964223a2230316131663561332d633462352d373262622d393630362d386531393963366663613266222c226167656e745f6964223a22626f7373227d7d2c7b2261745f6d73223a313739353132323531333037372c226576656e74223a7b226576656e745f74797065223a22746f6f6c5f63616c6c5f7265616479222c226964223a226330222c226e616d65223a226c6f6f6b222c22617267756d656e7473223a7b7d7d7d2c7b2261745f6d73223a313739353132323531333037372c226576656e74223a7b226576656e745f74797065223a22696e666572656e63655f636f6d706c657465222c226d6f64656c223a2266756e6374696f6e222c227573616765223a7b2270726f6d70745f746f6b656e73223a302c22636f6d706c6574696f6e5f746f6b656e73223a307d2c226475726174696f6e5f6d73223a307d7d5d2c227265717565737473223a5b7b226d6573736167655f6964223a2230316131663561332d633462352d373262622d393630362d386531393963366663613266222c2273686f776e223a5b5b312c315d5d2c2273657474696e6773223a7b227468726561645f6964223a2274616c6b222c2272756e5f6964223a2230316131663561332d633437632d373630392d613666362d373861333136326231363239222c226d6f64656c223a2266756e6374696f6e222c22746f6f6c73223a226430326539373331366536613033306166303132656363633666386165616133222c2270726f6d70745f6361636865223a747275657d2c2266697273745f6d73223a307d5d7d'),
	(10, 1, 1, 1, 1795122513464, 10, '\x7b2272756e223a227061636b65727e30316131663561332d633630312d373363352d393332302d3633363637373835353536303a30222c22706172656e745f72756e223a227061636b65727e7461736b2d30316131663561332d633630312d373363352d393332302d3633363637373835353536303a30222c226d65737361676573223a5b7b226964223a2230316131663561332d633630312d373363352d393332302d3633363637373835353536303a303e222c22726f6c65223a2275736572222c22636f6e74656e74223a5b7b2274797065223a2274657874222c2274657874223a22706c656173652063686172676520636f756e74227d5d7d5d2c2272756e5f7374617465223a7b225f5f72756e74696d652e72756e5f6c6966656379636c65223a7b2272756e5f6964223a227061636b65727e30316131663561332d633630312d373363352d393332302d3633363637373835353536303a30222c22737461747573223a2272756e6e696e67222c22757064617465645f6174223a313739353132323531333436342c22737465705f636f756e74223a307d2c225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b226d6f6e6579223a302e302c227365636f6e6473223a302e30303030323937313339393939393239363430397d7d7d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531333436342c226576656e74223a7b226576656e745f74797065223a2272756e5f7374617274222c227468726561645f6964223a227061636b65727e30316131663561332d633630312d373363352d393332302d3633363637373835353536303a30222c2272756e5f6964223a227061636b65727e30316131663561332d633630312d373363352d393332302d3633363637373835353536303a30222c22706172656e745f72756e5f6964223a227061636b65727e7461736b2d30316131663561332d633630312d373363352d393332302d3633363637373835353536303a30222c226964656e74697479223a7b227468726561645f6964223a227061636b65727e30316131663561332d633630312d373363352d393332302d3633363637373835353536303a30222c22706172656e745f7468726561645f6964223a227061636b65727e7461736b2d30316131663561332d633630312d373363352d393332302d3633363637373835353536303a30222c2272756e5f6964223a227061636b65727e30316131663561332d633630312d373363352d393332302d3633363637373835353536303a30222c22706172656e745f72756e5f6964223a227061636b65727e7461736b2d30316131663561332d633630312d373363352d393332302d3633363637373835353536303a30222c226167656e745f6964223a227061636b6572222c22706172656e745f746f6f6c5f63616c6c5f6964223a226330222c226f726967696e223a227375626167656e74227d2c226361757365223a226e6577227d7d5d7d'),
	(10, 2, 2, 2, 1795122513471, 10, '\x7b2272756e223a227061636b65727e30316131663561332d633630312d373363352d393332302d3633363637373835353536303a30222c22706172656e745f72756e223a227061636b65727e7461736b2d30316131663561332d633630312d373363352d393332302d3633363637373835353536303a30222c226d65737361676573223a5b7b226964223a2230316131663561332d633633612d373663632d393337652d643033313761306166666336222c22726f6c65223a22617373697374616e74222c22636f6e74656e74223a5b5d2c22746f6f6c5f63616c6c73223a5b7b226964223a226330222c226e616d65223a22636861726765222c22617267756d656e7473223a7b7d7d5d2c226d65746164617461223a7b2272756e5f6964223a227061636b65727e30316131663561332d633630312d373363352d393332302d3633363637373835353536303a30222c22737465705f696e646578223a307d7d5d2c2272756e5f7374617465223a7b225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b22746f6b656e73223a3333332c226d6f6e6579223a302e302c227374657073223a312c227365636f6e6473223a302e303037313033323038393939393738393630357d7d7d2c2263616c6c73223a5b7b226b6579223a2230316131663561332d633633612d373663632d393337652d6430333137613061666663363a30222c2272756e5f6964223a227061636b65727e30316131663561332d633630312d373363352d393332302d3633363637373835353536303a30222c2263616c6c5f6964223a226330222c22746f6f6c5f6e616d65223a22636861726765222c227068617365223a22696e74656e74222c22617267756d656e7473223a7b7d7d5d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531333436362c226576656e74223a7b226576656e745f74797065223a22737465705f7374617274222c226d6573736167655f6964223a2230316131663561332d633633612d373663632d393337652d643033313761306166666336222c226167656e745f6964223a227061636b6572227d7d2c7b2261745f6d73223a313739353132323531333437312c226576656e74223a7b226576656e745f74797065223a22746f6f6c5f63616c6c5f7265616479222c226964223a226330222c226e616d65223a22636861726765222c22617267756d656e7473223a7b7d7d7d2c7b2261745f6d73223a313739353132323531333437312c226576656e74223a7b226576656e745f74797065223a22696e666572656e63655f636f6d706c657465222c226d6f64656c223a2266756e6374696f6e222c227573616765223a7b2270726f6d70745f746f6b656e73223a302c22636f6d706c6574696f6e5f746f6b656e73223a307d2c226475726174696f6e5f6d73223a347d7d5d2c227265717565737473223a5b7b226d6573736167655f6964223a2230316131663561332d633633612d373663632d393337652d643033313761306166666336222c2273686f776e223a5b5b312c315d5d2c2273657474696e6773223a7b227468726561645f6964223a227061636b65727e30316131663561332d633630312d373363352d393332302d3633363637373835353536303a30222c2272756e5f6964223a227061636b65727e30316131663561332d633630312d373363352d393332302d3633363637373835353536303a30222c226d6f64656c223a2266756e6374696f6e222c22746f6f6c73223a226631646362366430386261313663323461393962313634383265636263343739222c2270726f6d70745f6361636865223a747275657d2c2266697273745f6d73223a317d5d7d'),
	(10, 3, 3, 5, 1795122513481, 10, '\x7b2272756e223a227061636b65727e30316131663561332d633630312d373363352d393332302d3633363637373835353536303a30222c22706172656e745f72756e223a227061636b65727e7461736b2d30316131663561332d633630312d373363352d393332302d3633363637373835353536303a30222c226d65737361676573223a5b7b226964223a2230316131663561332d633634392d373262622d623464392d663038366533383837646666222c22726f6c65223a22746f6f6c222c22636f6e74656e74223a5b7b2274797065223a2274657874222c2274657874223a2263686172676564227d5d2c22746f6f6c5f63616c6c5f6964223a226330222c226d65746164617461223a7b2272756e5f6964223a227061636b65727e30316131663561332d633630312d373363352d393332302d3633363637373835353536303a30222c22737465705f696e646578223a307d7d5d2c2272756e5f7374617465223a7b225f5f72756e74696d652e72756e5f6c6966656379636c65223a7b2272756e5f6964223a227061636b65727e30316131663561332d633630312d373363352d393332302d3633363637373835353536303a30222c22737461747573223a2272756e6e696e67222c22757064617465645f6174223a313739353132323531333438312c22737465705f636f756e74223a317d2c225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b22746f6b656e73223a3333332c226d6f6e6579223a302e302c227374657073223a312c227365636f6e6473223a302e30313732333039383730303034303238327d7d7d2c2263616c6c73223a5b7b226b6579223a2230316131663561332d633633612d373663632d393337652d6430333137613061666663363a30222c2272756e5f6964223a227061636b65727e30316131663561332d633630312d373363352d393332302d3633363637373835353536303a30222c2263616c6c5f6964223a226330222c22746f6f6c5f6e616d65223a22636861726765222c227068617365223a22737563636565646564227d5d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531333438312c226576656e74223a7b226576656e745f74797065223a22746f6f6c5f63616c6c5f646f6e65222c226964223a226330222c226d6573736167655f6964223a2230316131663561332d633634392d373262622d623464392d663038366533383837646666222c22726573756c74223a7b22746f6f6c5f6e616d65223a22636861726765222c22737461747573223a2273756363657373222c2264617461223a2263686172676564222c226d657373616765223a2263686172676564227d2c226f7574636f6d65223a22737563636565646564222c22737461727465645f61745f6d73223a313739353132323531333438317d7d2c7b2261745f6d73223a313739353132323531333438312c226576656e74223a7b226576656e745f74797065223a22737465705f656e64227d7d5d7d'),
	(10, 4, 4, 7, 1795122513485, 10, '\x7b2272756e223a227061636b65727e30316131663561332d633630312d373363352d393332302d3633363637373835353536303a30222c22706172656e745f72756e223a227061636b65727e7461736b2d30316131663561332d633630312d373363352d393332302d3633363637373835353536303a30222c226d65737361676573223a5b7b226964223a2230316131663561332d633634632d373163392d393031662d303638316166323464333434222c22726f6c65223a22617373697374616e74222c22636f6e74656e74223a5b5d2c22746f6f6c5f63616c6c73223a5b7b226964223a226331222c226e616d65223a22636f756e74222c22617267756d656e7473223a7b7d7d5d2c226d65746164617461223a7b2272756e5f6964223a227061636b65727e30316131663561332d633630312d373363352d393332302d3633363637373835353536303a30222c22737465705f696e646578223a317d7d5d2c2272756e5f7374617465223a7b225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b22746f6b656e73223a3638362c226d6f6e6579223a302e302c227374657073223a322c227365636f6e6473223a302e3032313139393335323030303136363938327d7d7d2c2263616c6c73223a5b7b226b6579223a2230316131663561332d633634632d373163392d393031662d3036383161663234643334343a30222c2272756e5f6964223a227061636b65727e30316131663561332d633630312d373363352d393332302d3633363637373835353536303a30222c2263616c6c5f6964223a226331222c22746f6f6c5f6e616d65223a22636f756e74222c227068617365223a22696e74656e74222c22617267756d656e7473223a7b7d7d5d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531333438342c226576656e74223a7b226576656e745f74797065223a22737465705f7374617274222c226d6573736167655f6964223a2230316131663561332d633634632d373163392d393031662d303638316166323464333434222c226167656e745f6964223a227061636b6572227d7d2c7b2261745f6d73223a313739353132323531333438352c226576656e74223a7b226576656e745f74797065223a22746f6f6c5f63616c6c5f7265616479222c226964223a226331222c226e616d65223a22636f756e74222c22617267756d656e7473223a7b7d7d7d2c7b2261745f6d73223a313739353132323531333438352c226576656e74223a7b226576656e745f74797065223a22696e666572656e63655f636f6d706c657465222c226d6f64656c223a2266756e6374696f6e222c227573616765223a7b2270726f6d70745f746f6b656e73223a302c22636f6d706c6574696f6e5f746f6b656e73223a307d2c226475726174696f6e5f6d73223a307d7d5d2c227265717565737473223a5b7b226d6573736167655f6964223a2230316131663561332d633634632d373163392d393031662d303638316166323464333434222c226c696b65223a322c2273686f776e223a5b5b312c335d5d2c2266697273745f6d73223a307d5d7d');
INSERT INTO office.commits_8 VALUES
	(1, 1, 1, 1, 1795122513021, 1, '\x7b2272756e223a2230316131663561332d633437632d373630392d613666362d373861333136326231363239222c226d65737361676573223a5b7b226964223a2230316131663561332d633434372d373431352d383232352d666539613439626466313839222c22726f6c65223a2275736572222c22636f6e74656e74223a5b7b2274797065223a2274657874222c2274657874223a22706c65617365206c6f6f6b20636861726765227d5d7d5d2c2272756e5f7374617465223a7b225f5f72756e74696d652e72756e5f6c6966656379636c65223a7b2272756e5f6964223a2230316131663561332d633437632d373630392d613666362d373861333136326231363239222c22737461747573223a2272756e6e696e67222c22757064617465645f6174223a313739353132323531333032312c22737465705f636f756e74223a307d2c225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b226d6f6e6579223a302e302c227365636f6e6473223a302e30303030363434303630303030393232373633377d7d7d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531333032312c226576656e74223a7b226576656e745f74797065223a2272756e5f7374617274222c227468726561645f6964223a2274616c6b222c2272756e5f6964223a2230316131663561332d633437632d373630392d613666362d373861333136326231363239222c226964656e74697479223a7b227468726561645f6964223a2274616c6b222c2272756e5f6964223a2230316131663561332d633437632d373630392d613666362d373861333136326231363239222c226167656e745f6964223a22626f7373222c226f726967696e223a2275736572227d2c226361757365223a226e6577227d7d5d7d'),
	(1, 2, 2, 2, 1795122513077, 1, '\x7b2272756e223a2230316131663561332d633437632d373630392d613666362d373861333136326231363239222c226d65737361676573223a5b7b226964223a2230316131663561332d633462352d373262622d393630362d386531393963366663613266222c22726f6c65223a22617373697374616e74222c22636f6e74656e74223a5b5d2c22746f6f6c5f63616c6c73223a5b7b226964223a226330222c226e616d65223a226c6f6f6b222c22617267756d656e7473223a7b7d7d5d2c226d65746164617461223a7b2272756e5f6964223a2230316131663561332d633437632d373630392d613666362d373861333136326231363239222c22737465705f696e646578223a307d7d5d2c2272756e5f7374617465223a7b225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b22746f6b656e73223a313439372c226d6f6e6579223a302e302c227374657073223a312c227365636f6e6473223a302e30353634343837363930303033323631347d7d7d2c2263616c6c73223a5b7b226b6579223a2230316131663561332d633462352d373262622d393630362d3865313939633666636132663a30222c2272756e5f6964223a2230316131663561332d633437632d373630392d613666362d373861333136326231363239222c2263616c6c5f6964223a226330222c22746f6f6c5f6e616d65223a226c6f6f6b222c227068617365223a22696e74656e74222c22617267756d656e7473223a7b7d7d5d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531333037372c226576656e74223a7b226576656e745f74797065223a22737465705f7374617274222c226d6573736167655f6964223a2230316131663561332d633462352d373262622d393630362d386531393963366663613266222c226167656e745f6964223a22626f7373227d7d2c7b2261745f6d73223a313739353132323531333037372c226576656e74223a7b226576656e745f74797065223a22746f6f6c5f63616c6c5f7265616479222c226964223a226330222c226e616d65223a226c6f6f6b222c22617267756d656e7473223a7b7d7d7d2c7b2261745f6d73223a313739353132323531333037372c226576656e74223a7b226576656e745f74797065223a22696e666572656e63655f636f6d706c657465222c226d6f64656c223a2266756e6374696f6e222c227573616765223a7b2270726f6d70745f746f6b656e73223a302c22636f6d706c6574696f6e5f746f6b656e73223a307d2c226475726174696f6e5f6d73223a307d7d5d2c227265717565737473223a5b7b226d6573736167655f6964223a2230316131663561332d633462352d373262622d393630362d386531393963366663613266222c2273686f776e223a5b5b312c315d5d2c2273657474696e6773223a7b227468726561645f6964223a2274616c6b222c2272756e5f6964223a2230316131663561332d633437632d373630392d613666362d373861333136326231363239222c226d6f64656c223a2266756e6374696f6e222c22746f6f6c73223a226430326539373331366536613033306166303132656363633666386165616133222c2270726f6d70745f6361636865223a747275657d2c2266697273745f6d73223a307d5d7d'),
	(1, 3, 3, 5, 1795122513077, 1, '\x7b2272756e223a2230316131663561332d633437632d373630392d613666362d373861333136326231363239222c226d65737361676573223a5b7b226964223a2230316131663561332d633462352d373262622d393630362d386531616362366364373930222c22726f6c65223a22746f6f6c222c22636f6e74656e74223a5b7b2274797065223a2274657874222c2274657874223a22746872656520636861697273227d5d2c22746f6f6c5f63616c6c5f6964223a226330222c226d65746164617461223a7b2272756e5f6964223a2230316131663561332d633437632d373630392d613666362d373861333136326231363239222c22737465705f696e646578223a307d7d5d2c2272756e5f7374617465223a7b225f5f72756e74696d652e72756e5f6c6966656379636c65223a7b2272756e5f6964223a2230316131663561332d633437632d373630392d613666362d373861333136326231363239222c22737461747573223a2272756e6e696e67222c22757064617465645f6174223a313739353132323531333037372c22737465705f636f756e74223a317d2c225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b22746f6b656e73223a313439372c226d6f6e6579223a302e302c227374657073223a312c227365636f6e6473223a302e313233363431343933393939393132327d7d7d2c2263616c6c73223a5b7b226b6579223a2230316131663561332d633462352d373262622d393630362d3865313939633666636132663a30222c2272756e5f6964223a2230316131663561332d633437632d373630392d613666362d373861333136326231363239222c2263616c6c5f6964223a226330222c22746f6f6c5f6e616d65223a226c6f6f6b222c227068617365223a22737563636565646564227d5d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531333037372c226576656e74223a7b226576656e745f74797065223a22746f6f6c5f63616c6c5f646f6e65222c226964223a226330222c226d6573736167655f6964223a2230316131663561332d633462352d373262622d393630362d386531616362366364373930222c22726573756c74223a7b22746f6f6c5f6e616d65223a226c6f6f6b222c22737461747573223a2273756363657373222c2264617461223a22746872656520636861697273222c226d657373616765223a22746872656520636861697273227d2c226f7574636f6d65223a22737563636565646564222c22737461727465645f61745f6d73223a313739353132323531333037377d7d2c7b2261745f6d73223a313739353132323531333037372c226576656e74223a7b226576656e745f74797065223a22737465705f656e64227d7d5d7d'),
	(1, 4, 4, 7, 1795122513153, 1, '\x7b2272756e223a2230316131663561332d633437632d373630392d613666362d373861333136326231363239222c226d65737361676573223a5b7b226964223a2230316131663561332d633530302d373430302d616634332d313165616561613737306331222c22726f6c65223a22617373697374616e74222c22636f6e74656e74223a5b5d2c22746f6f6c5f63616c6c73223a5b7b226964223a226331222c226e616d65223a22636861726765222c22617267756d656e7473223a7b7d7d5d2c226d65746164617461223a7b2272756e5f6964223a2230316131663561332d633437632d373630392d613666362d373861333136326231363239222c22737465705f696e646578223a317d7d5d2c2272756e5f7374617465223a7b225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b22746f6b656e73223a333031362c226d6f6e6579223a302e302c227374657073223a322c227365636f6e6473223a302e31333139383736343630303031393738367d7d7d2c2263616c6c73223a5b7b226b6579223a2230316131663561332d633530302d373430302d616634332d3131656165616137373063313a30222c2272756e5f6964223a2230316131663561332d633437632d373630392d613666362d373861333136326231363239222c2263616c6c5f6964223a226331222c22746f6f6c5f6e616d65223a22636861726765222c227068617365223a22696e74656e74222c22617267756d656e7473223a7b7d7d5d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531333135322c226576656e74223a7b226576656e745f74797065223a22737465705f7374617274222c226d6573736167655f6964223a2230316131663561332d633530302d373430302d616634332d313165616561613737306331222c226167656e745f6964223a22626f7373227d7d2c7b2261745f6d73223a313739353132323531333135332c226576656e74223a7b226576656e745f74797065223a22746f6f6c5f63616c6c5f7265616479222c226964223a226331222c226e616d65223a22636861726765222c22617267756d656e7473223a7b7d7d7d2c7b2261745f6d73223a313739353132323531333135332c226576656e74223a7b226576656e745f74797065223a22696e666572656e63655f636f6d706c657465222c226d6f64656c223a2266756e6374696f6e222c227573616765223a7b2270726f6d70745f746f6b656e73223a302c22636f6d706c6574696f6e5f746f6b656e73223a307d2c226475726174696f6e5f6d73223a307d7d5d2c227265717565737473223a5b7b226d6573736167655f6964223a2230316131663561332d633530302d373430302d616634332d313165616561613737306331222c226c696b65223a322c2273686f776e223a5b5b312c335d5d2c2266697273745f6d73223a307d5d7d'),
	(1, 5, 5, 10, 1795122513154, 1, '\x7b2272756e223a2230316131663561332d633437632d373630392d613666362d373861333136326231363239222c226d65737361676573223a5b7b226964223a2230316131663561332d633530322d373537352d383939342d396264386464333065303134222c22726f6c65223a22746f6f6c222c22636f6e74656e74223a5b7b2274797065223a2274657874222c2274657874223a2263686172676564227d5d2c22746f6f6c5f63616c6c5f6964223a226331222c226d65746164617461223a7b2272756e5f6964223a2230316131663561332d633437632d373630392d613666362d373861333136326231363239222c22737465705f696e646578223a317d7d5d2c2272756e5f7374617465223a7b225f5f72756e74696d652e72756e5f6c6966656379636c65223a7b2272756e5f6964223a2230316131663561332d633437632d373630392d613666362d373861333136326231363239222c22737461747573223a2272756e6e696e67222c22757064617465645f6174223a313739353132323531333135342c22737465705f636f756e74223a327d2c225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b22746f6b656e73223a333031362c226d6f6e6579223a302e302c227374657073223a322c227365636f6e6473223a302e31333330313232373330303030373636387d7d7d2c2263616c6c73223a5b7b226b6579223a2230316131663561332d633530302d373430302d616634332d3131656165616137373063313a30222c2272756e5f6964223a2230316131663561332d633437632d373630392d613666362d373861333136326231363239222c2263616c6c5f6964223a226331222c22746f6f6c5f6e616d65223a22636861726765222c227068617365223a22737563636565646564227d5d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531333135342c226576656e74223a7b226576656e745f74797065223a22746f6f6c5f63616c6c5f646f6e65222c226964223a226331222c226d6573736167655f6964223a2230316131663561332d633530322d373537352d383939342d396264386464333065303134222c22726573756c74223a7b22746f6f6c5f6e616d65223a22636861726765222c22737461747573223a2273756363657373222c2264617461223a2263686172676564222c226d657373616765223a2263686172676564227d2c226f7574636f6d65223a22737563636565646564222c22737461727465645f61745f6d73223a313739353132323531333135347d7d2c7b2261745f6d73223a313739353132323531333135342c226576656e74223a7b226576656e745f74797065223a22737465705f656e64227d7d5d7d'),
	(1, 6, 6, 12, 1795122513157, 1, '\x7b2272756e223a2230316131663561332d633437632d373630392d613666362d373861333136326231363239222c226d65737361676573223a5b7b226964223a2230316131663561332d633530332d373730302d393534322d353733303831353339646536222c22726f6c65223a22617373697374616e74222c22636f6e74656e74223a5b7b2274797065223a2274657874222c2274657874223a22746872656520636861697273202f2063686172676564227d5d2c226d65746164617461223a7b2272756e5f6964223a2230316131663561332d633437632d373630392d613666362d373861333136326231363239222c22737465705f696e646578223a327d7d5d2c2272756e5f7374617465223a7b225f5f72756e74696d652e72756e5f6c6966656379636c65223a7b2272756e5f6964223a2230316131663561332d633437632d373630392d613666362d373861333136326231363239222c22737461747573223a22646f6e65222c227374617475735f726561736f6e223a226e61747572616c222c22757064617465645f6174223a313739353132323531333135362c22737465705f636f756e74223a332c227465726d696e6174696f6e223a7b2274797065223a226e61747572616c5f656e64227d7d2c225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b22746f6b656e73223a343536302c226d6f6e6579223a302e302c227374657073223a332c227365636f6e6473223a302e31333536383136363330303030313339347d7d7d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531333135352c226576656e74223a7b226576656e745f74797065223a22737465705f7374617274222c226d6573736167655f6964223a2230316131663561332d633530332d373730302d393534322d353733303831353339646536222c226167656e745f6964223a22626f7373227d7d2c7b2261745f6d73223a313739353132323531333135352c226576656e74223a7b226576656e745f74797065223a22696e666572656e63655f636f6d706c657465222c226d6f64656c223a2266756e6374696f6e222c227573616765223a7b2270726f6d70745f746f6b656e73223a302c22636f6d706c6574696f6e5f746f6b656e73223a307d2c226475726174696f6e5f6d73223a307d7d2c7b2261745f6d73223a313739353132323531333135362c226576656e74223a7b226576656e745f74797065223a22737465705f656e64227d7d2c7b2261745f6d73223a313739353132323531333135372c226576656e74223a7b226576656e745f74797065223a2272756e5f66696e697368222c227468726561645f6964223a2274616c6b222c2272756e5f6964223a2230316131663561332d633437632d373630392d613666362d373861333136326231363239222c226964656e74697479223a7b227468726561645f6964223a2274616c6b222c2272756e5f6964223a2230316131663561332d633437632d373630392d613666362d373861333136326231363239222c226167656e745f6964223a22626f7373222c226f726967696e223a2275736572227d2c22726573756c74223a7b22726573706f6e7365223a22746872656520636861697273202f2063686172676564222c22737461747573223a22646f6e65222c227374617475735f726561736f6e223a226e61747572616c227d2c227465726d696e6174696f6e223a7b2274797065223a226e61747572616c5f656e64227d2c227374657073223a337d7d5d2c227265717565737473223a5b7b226d6573736167655f6964223a2230316131663561332d633530332d373730302d393534322d353733303831353339646536222c226c696b65223a322c2273686f776e223a5b5b312c355d5d2c2266697273745f6d73223a307d5d7d'),
	(1, 7, 7, 16, 1795122513167, 2, '\x7b2272756e223a2230316131663561332d633530662d373763392d393363322d623231313233626639663233222c226d65737361676573223a5b7b226964223a2230316131663561332d633530372d373633652d393733372d333063656639373938353830222c22726f6c65223a2275736572222c22636f6e74656e74223a5b7b2274797065223a2274657874222c2274657874223a227468616e6b20796f75227d5d7d5d2c2272756e5f7374617465223a7b225f5f72756e74696d652e72756e5f6c6966656379636c65223a7b2272756e5f6964223a2230316131663561332d633530662d373763392d393363322d623231313233626639663233222c22737461747573223a2272756e6e696e67222c22757064617465645f6174223a313739353132323531333136372c22737465705f636f756e74223a307d2c225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b226d6f6e6579223a302e302c227365636f6e6473223a302e3030303032353533383030303034353334343233347d7d7d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531333136372c226576656e74223a7b226576656e745f74797065223a2272756e5f7374617274222c227468726561645f6964223a2274616c6b222c2272756e5f6964223a2230316131663561332d633530662d373763392d393363322d623231313233626639663233222c226964656e74697479223a7b227468726561645f6964223a2274616c6b222c2272756e5f6964223a2230316131663561332d633530662d373763392d393363322d623231313233626639663233222c226167656e745f6964223a22626f7373222c226f726967696e223a2275736572227d2c226361757365223a226e6577227d7d5d7d'),
	(1, 8, 8, 17, 1795122513171, 2, '\x7b2272756e223a2230316131663561332d633530662d373763392d393363322d623231313233626639663233222c226d65737361676573223a5b7b226964223a2230316131663561332d633531322d373532322d613065312d376239356531326363356330222c22726f6c65223a22617373697374616e74222c22636f6e74656e74223a5b7b2274797065223a2274657874222c2274657874223a226e6f746564227d5d2c226d65746164617461223a7b2272756e5f6964223a2230316131663561332d633530662d373763392d393363322d623231313233626639663233222c22737465705f696e646578223a307d7d5d2c2272756e5f7374617465223a7b225f5f72756e74696d652e72756e5f6c6966656379636c65223a7b2272756e5f6964223a2230316131663561332d633530662d373763392d393363322d623231313233626639663233222c22737461747573223a22646f6e65222c227374617475735f726561736f6e223a226e61747572616c222c22757064617465645f6174223a313739353132323531333137312c22737465705f636f756e74223a312c227465726d696e6174696f6e223a7b2274797065223a226e61747572616c5f656e64227d7d2c225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b22746f6b656e73223a313536342c226d6f6e6579223a302e302c227374657073223a312c227365636f6e6473223a302e3030333534333938333030303332363938397d7d7d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531333137302c226576656e74223a7b226576656e745f74797065223a22737465705f7374617274222c226d6573736167655f6964223a2230316131663561332d633531322d373532322d613065312d376239356531326363356330222c226167656e745f6964223a22626f7373227d7d2c7b2261745f6d73223a313739353132323531333137312c226576656e74223a7b226576656e745f74797065223a22696e666572656e63655f636f6d706c657465222c226d6f64656c223a2266756e6374696f6e222c227573616765223a7b2270726f6d70745f746f6b656e73223a302c22636f6d706c6574696f6e5f746f6b656e73223a307d2c226475726174696f6e5f6d73223a307d7d2c7b2261745f6d73223a313739353132323531333137312c226576656e74223a7b226576656e745f74797065223a22737465705f656e64227d7d2c7b2261745f6d73223a313739353132323531333137312c226576656e74223a7b226576656e745f74797065223a2272756e5f66696e697368222c227468726561645f6964223a2274616c6b222c2272756e5f6964223a2230316131663561332d633530662d373763392d393363322d623231313233626639663233222c226964656e74697479223a7b227468726561645f6964223a2274616c6b222c2272756e5f6964223a2230316131663561332d633530662d373763392d393363322d623231313233626639663233222c226167656e745f6964223a22626f7373222c226f726967696e223a2275736572227d2c22726573756c74223a7b22726573706f6e7365223a226e6f746564222c22737461747573223a22646f6e65222c227374617475735f726561736f6e223a226e61747572616c227d2c227465726d696e6174696f6e223a7b2274797065223a226e61747572616c5f656e64227d2c227374657073223a317d7d5d2c227265717565737473223a5b7b226d6573736167655f6964223a2230316131663561332d633531322d373532322d613065312d376239356531326363356330222c2273686f776e223a5b5b312c375d5d2c2273657474696e6773223a7b227468726561645f6964223a2274616c6b222c2272756e5f6964223a2230316131663561332d633530662d373763392d393363322d623231313233626639663233222c226d6f64656c223a2266756e6374696f6e222c22746f6f6c73223a226430326539373331366536613033306166303132656363633666386165616133222c2270726f6d70745f6361636865223a747275657d2c2266697273745f6d73223a307d5d7d');
INSERT INTO office.commits_9 VALUES
	(3, 1, 1, 1, 1795122513248, 4, '\x7b2272756e223a2230316131663561332d633536302d373163622d616333352d393763303936633539636462222c226d65737361676573223a5b7b226964223a2230316131663561332d633533662d373231632d396634332d353933393232376661393366222c22726f6c65223a2275736572222c22636f6e74656e74223a5b7b2274797065223a2274657874222c2274657874223a22706c65617365206167656e745f72756e5f636c65726b227d5d7d5d2c2272756e5f7374617465223a7b225f5f72756e74696d652e72756e5f6c6966656379636c65223a7b2272756e5f6964223a2230316131663561332d633536302d373163622d616333352d393763303936633539636462222c22737461747573223a2272756e6e696e67222c22757064617465645f6174223a313739353132323531333234382c22737465705f636f756e74223a307d2c225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b226d6f6e6579223a302e302c227365636f6e6473223a302e30303030333830383730303031323038363737347d7d7d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531333234382c226576656e74223a7b226576656e745f74797065223a2272756e5f7374617274222c227468726561645f6964223a227465616d222c2272756e5f6964223a2230316131663561332d633536302d373163622d616333352d393763303936633539636462222c226964656e74697479223a7b227468726561645f6964223a227465616d222c2272756e5f6964223a2230316131663561332d633536302d373163622d616333352d393763303936633539636462222c226167656e745f6964223a22626f7373222c226f726967696e223a2275736572227d2c226361757365223a226e6577227d7d5d7d'),
	(3, 2, 2, 2, 1795122513250, 4, '\x7b2272756e223a2230316131663561332d633536302d373163622d616333352d393763303936633539636462222c226d65737361676573223a5b7b226964223a2230316131663561332d633536312d373564312d396266342d633231336630643931613862222c22726f6c65223a22617373697374616e74222c22636f6e74656e74223a5b5d2c22746f6f6c5f63616c6c73223a5b7b226964223a226330222c226e616d65223a226167656e745f72756e5f636c65726b222c22617267756d656e7473223a7b2270726f6d7074223a22706c65617365206368617267652073686970227d7d5d2c226d65746164617461223a7b2272756e5f6964223a2230316131663561332d633536302d373163622d616333352d393763303936633539636462222c22737465705f696e646578223a307d7d5d2c2272756e5f7374617465223a7b225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b22746f6b656e73223a313531312c226d6f6e6579223a302e302c227374657073223a312c227365636f6e6473223a302e303031383334313433393939393835383236377d7d7d2c2263616c6c73223a5b7b226b6579223a2230316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c2272756e5f6964223a2230316131663561332d633536302d373163622d616333352d393763303936633539636462222c2263616c6c5f6964223a226330222c22746f6f6c5f6e616d65223a226167656e745f72756e5f636c65726b222c227068617365223a22696e74656e74222c22617267756d656e7473223a7b2270726f6d7074223a22706c65617365206368617267652073686970227d7d5d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531333234392c226576656e74223a7b226576656e745f74797065223a22737465705f7374617274222c226d6573736167655f6964223a2230316131663561332d633536312d373564312d396266342d633231336630643931613862222c226167656e745f6964223a22626f7373227d7d2c7b2261745f6d73223a313739353132323531333235302c226576656e74223a7b226576656e745f74797065223a22746f6f6c5f63616c6c5f7265616479222c226964223a226330222c226e616d65223a226167656e745f72756e5f636c65726b222c22617267756d656e7473223a7b2270726f6d7074223a22706c65617365206368617267652073686970227d7d7d2c7b2261745f6d73223a313739353132323531333235302c226576656e74223a7b226576656e745f74797065223a22696e666572656e63655f636f6d706c657465222c226d6f64656c223a2266756e6374696f6e222c227573616765223a7b2270726f6d70745f746f6b656e73223a302c22636f6d706c6574696f6e5f746f6b656e73223a307d2c226475726174696f6e5f6d73223a307d7d5d2c227265717565737473223a5b7b226d6573736167655f6964223a2230316131663561332d633536312d373564312d396266342d633231336630643931613862222c2273686f776e223a5b5b312c315d5d2c2273657474696e6773223a7b227468726561645f6964223a227465616d222c2272756e5f6964223a2230316131663561332d633536302d373163622d616333352d393763303936633539636462222c226d6f64656c223a2266756e6374696f6e222c22746f6f6c73223a226430326539373331366536613033306166303132656363633666386165616133222c2270726f6d70745f6361636865223a747275657d2c2266697273745f6d73223a307d5d7d'),
	(3, 3, 3, 5, 1795122513330, 4, '\x7b2272756e223a2230316131663561332d633536302d373163622d616333352d393763303936633539636462222c2272756e5f7374617465223a7b225f5f72756e74696d652e72756e5f6c6966656379636c65223a7b2272756e5f6964223a2230316131663561332d633536302d373163622d616333352d393763303936633539636462222c22737461747573223a2277616974696e67222c227374617475735f726561736f6e223a2273757370656e646564222c22757064617465645f6174223a313739353132323531333333302c22737465705f636f756e74223a317d2c225f5f72756e74696d652e7370656e64696e67223a7b227370656e74223a7b22746f6b656e73223a313531312c226d6f6e6579223a302e302c227374657073223a312c227365636f6e6473223a302e30383137393735343639393939353130317d7d7d2c227468726561645f7374617465223a7b225f5f72756e74696d652e746f6f6c5f63616c6c5f737461746573223a7b2263616c6c73223a7b226330223a7b2263616c6c5f6964223a226330222c22746f6f6c5f6e616d65223a226167656e745f72756e5f636c65726b222c22617267756d656e7473223a7b2270726f6d7074223a22706c65617365206368617267652073686970227d2c22737461747573223a2273757370656e646564222c22757064617465645f6174223a313739353132323531333333302c22726573756d655f6d6f6465223a227265706c61795f746f6f6c5f63616c6c222c2273757370656e73696f6e5f6964223a2264656c65676174655f72756e3a7465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c2273757370656e73696f6e5f726561736f6e223a226167656e745f64656c65676174653a73757370656e646564222c226b6579223a2230316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c2261736b6564223a312c22646967657374223a223139303437303832303039393464613935326439613564303563653037386431222c2261736b6572223a7b227468726561645f6964223a227465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c2272756e5f6964223a227465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c226167656e745f6964223a22636c65726b222c22746f6f6c5f6e616d65223a2273686970222c22617267756d656e7473223a7b7d2c227469636b6574223a2230316131663561332d633539372d373436622d626637352d6366666365383832613330313a30222c22726561736f6e223a22746f6f6c3a73686970227d2c226d657373616765223a226167656e742027636c65726b272061736b733a20417070726f766520736869703f227d7d2c227475726e223a2230316131663561332d633536312d373564312d396266342d633231336630643931613862227d7d2c2263616c6c73223a5b7b226b6579223a2230316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c2272756e5f6964223a2230316131663561332d633536302d373163622d616333352d393763303936633539636462222c2263616c6c5f6964223a226330222c22746f6f6c5f6e616d65223a226167656e745f72756e5f636c65726b222c227068617365223a2273757370656e646564227d5d2c226576656e7473223a5b7b2261745f6d73223a313739353132323531333333302c226576656e74223a7b226576656e745f74797065223a22746f6f6c5f63616c6c5f646f6e65222c226964223a226330222c226d6573736167655f6964223a22222c22726573756c74223a7b22746f6f6c5f6e616d65223a226167656e745f72756e5f636c65726b222c22737461747573223a2270656e64696e67222c2264617461223a7b226167656e745f6964223a22636c65726b222c22737461747573223a2273757370656e6465643a20417070726f766520736869703f222c22726573706f6e7365223a6e756c6c2c226f7574707574223a7b7d2c227374657073223a327d2c226d657373616765223a2273757370656e6465643a20417070726f766520736869703f222c2273757370656e73696f6e223a7b2273757370656e73696f6e223a7b226964223a2264656c65676174655f72756e3a7465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c22616374696f6e223a226167656e745f64656c65676174653a73757370656e646564222c226d657373616765223a226167656e742027636c65726b272061736b733a20417070726f766520736869703f222c22706172616d6574657273223a7b226167656e745f6964223a22636c65726b222c226261636b656e645f737461747573223a2273757370656e6465643a20417070726f766520736869703f222c226368696c645f72756e5f6964223a227465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c22746f6f6c5f63616c6c5f6964223a226330227d7d2c2270656e64696e67223a7b226964223a226330222c226e616d65223a226167656e745f72756e5f636c65726b222c22617267756d656e7473223a7b2270726f6d7074223a22706c65617365206368617267652073686970227d7d2c22726573756d655f6d6f6465223a227265706c61795f746f6f6c5f63616c6c222c2261736b6572223a7b227468726561645f6964223a227465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c2272756e5f6964223a227465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c226167656e745f6964223a22636c65726b222c22746f6f6c5f6e616d65223a2273686970222c22617267756d656e7473223a7b7d2c227469636b6574223a2230316131663561332d633539372d373436622d626637352d6366666365383832613330313a30222c22726561736f6e223a22746f6f6c3a73686970227d7d2c226d65746164617461223a7b226368696c645f72756e5f6964223a227465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30227d7d2c226f7574636f6d65223a2273757370656e646564222c226b696e64223a2265786563757465222c22737461727465645f61745f6d73223a313739353132323531333235312c227469636b65745f6b6579223a2230316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c22646967657374223a223139303437303832303039393464613935326439613564303563653037386431227d7d2c7b2261745f6d73223a313739353132323531333333302c226576656e74223a7b226576656e745f74797065223a22737465705f656e64227d7d2c7b2261745f6d73223a313739353132323531333333302c226576656e74223a7b226576656e745f74797065223a2272756e5f66696e697368222c227468726561645f6964223a227465616d222c2272756e5f6964223a2230316131663561332d633536302d373163622d616333352d393763303936633539636462222c226964656e74697479223a7b227468726561645f6964223a227465616d222c2272756e5f6964223a2230316131663561332d633536302d373163622d616333352d393763303936633539636462222c226167656e745f6964223a22626f7373222c226f726967696e223a2275736572227d2c22726573756c74223a7b22726573706f6e7365223a22222c22737461747573223a2277616974696e67222c227374617475735f726561736f6e223a2273757370656e646564227d2c227465726d696e6174696f6e223a7b2274797065223a2273757370656e646564227d2c227469636b657473223a5b7b226b6579223a2230316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c227469636b65745f6964223a2264656c65676174655f72756e3a7465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c22746f6f6c5f6e616d65223a2273686970222c22617267756d656e7473223a7b7d2c22726573756d655f6d6f6465223a227265706c61795f746f6f6c5f63616c6c222c22726561736f6e223a226167656e745f64656c65676174653a73757370656e646564222c22646967657374223a223139303437303832303039393464613935326439613564303563653037386431222c2261736b6572223a7b227468726561645f6964223a227465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c2272756e5f6964223a227465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c226167656e745f6964223a22636c65726b222c22746f6f6c5f6e616d65223a2273686970222c22617267756d656e7473223a7b7d2c227469636b6574223a2230316131663561332d633539372d373436622d626637352d6366666365383832613330313a30222c22726561736f6e223a22746f6f6c3a73686970227d2c226d657373616765223a226167656e742027636c65726b272061736b733a20417070726f766520736869703f222c22746f6f6c5f63616c6c5f6964223a226330222c22757064617465645f6174223a313739353132323531333333307d5d2c227374657073223a317d7d5d7d');
INSERT INTO office.epochs VALUES
	(0);
INSERT INTO office.migrations VALUES
	(1, '0001_begin.sql', '2026-11-19 21:08:32.70509+00'),
	(2, '0002_functions.sql', '2026-11-19 21:08:32.70509+00'),
	(3, '0003_access.sql', '2026-11-19 21:08:32.70509+00'),
	(4, '0004_plans.sql', '2026-11-19 21:08:32.70509+00');
INSERT INTO office.nodes OVERRIDING SYSTEM VALUE VALUES
	(1, 'vm', 7428, '2026-11-19 21:08:32.95231+00', '2026-11-19 21:08:32.95231+00', '2026-11-19 21:08:36.99579+00', '00:00:03');
INSERT INTO office.profiles VALUES
	('system', 'budget:01a1f5a3-c5fe-7626-ab4e-32fa9f8b1dee', '\x7b2230316131663561332d633566652d373632362d616234652d333266613966386231646565223a7b2272756e73223a5b2230316131663561332d633566652d373632362d616234652d333266613966386231646565225d2c226b6e6f776e223a7b227370656e74223a7b22746f6b656e73223a333036342c226d6f6e6579223a302e302c227374657073223a327d7d2c226173696465223a7b7d7d2c227061636b65727e30316131663561332d633630312d373363352d393332302d3633363637373835353536303a30223a7b2272756e73223a5b227061636b65727e30316131663561332d633630312d373363352d393332302d3633363637373835353536303a30222c2230316131663561332d633566652d373632362d616234652d333266613966386231646565225d2c226b6e6f776e223a7b227370656e74223a7b22746f6b656e73223a3638362c226d6f6e6579223a302e302c227374657073223a327d7d2c226173696465223a7b7d7d7d', 7, 1795122513485);
INSERT INTO office.runs OVERRIDING SYSTEM VALUE VALUES
	(1, '01a1f5a3-c47c-7609-a6f6-78a3162b1629', 1, '', 'boss', NULL, 'agent', 'done', NULL, false, false, 1, 6, 1795122513156, 1795122513156, NULL, '\x7b2272756e5f6964223a2230316131663561332d633437632d373630392d613666362d373861333136326231363239222c227468726561645f6964223a2274616c6b222c226167656e745f6964223a22626f7373222c22706172656e745f72756e5f6964223a6e756c6c2c2272657175657374223a7b226f726967696e223a2255736572222c22696e7075745f6d6573736167655f696473223a5b2230316131663561332d633434372d373431352d383232352d666539613439626466313839225d2c22696e7075745f6d6573736167655f636f756e74223a317d2c22696e707574223a7b227468726561645f6964223a2274616c6b222c2272616e6765223a7b2266726f6d5f736571223a312c22746f5f736571223a317d7d2c226f7574707574223a7b227468726561645f6964223a2274616c6b222c2272616e6765223a7b2266726f6d5f736571223a322c22746f5f736571223a367d7d2c22737461747573223a22646f6e65222c227465726d696e6174696f6e5f726561736f6e223a7b2274797065223a226e61747572616c5f656e64227d2c2266696e616c5f6f7574707574223a22746872656520636861697273202f2063686172676564222c226f7574636f6d65223a7b227465726d696e6174696f6e5f726561736f6e223a7b2274797065223a226e61747572616c5f656e64227d2c2266696e616c5f6f7574707574223a22746872656520636861697273202f2063686172676564227d2c22637265617465645f6174223a313739353132323531332c22737461727465645f6174223a313739353132323531332c2266696e69736865645f6174223a313739353132323531332c22757064617465645f6174223a313739353132323531332c227374657073223a332c22696e7075745f746f6b656e73223a302c226f75747075745f746f6b656e73223a302c227374617465223a6e756c6c2c227265766973696f6e223a362c226167656e745f66696e6765727072696e74223a2231326165333263623165633032643031656461333538316231323763316665657c64653063643966346535306135333736613232666236313138386364653630637c66756e6374696f6e222c22637265617465645f61745f6d73223a313739353132323531333032312c22737461727465645f61745f6d73223a313739353132323531333032312c2266696e69736865645f61745f6d73223a313739353132323531333135362c22757064617465645f61745f6d73223a313739353132323531333135367d'),
	(2, '01a1f5a3-c50f-77c9-93c2-b21123bf9f23', 1, '', 'boss', NULL, 'agent', 'done', NULL, false, false, 7, 8, 1795122513171, 1795122513171, NULL, '\x7b2272756e5f6964223a2230316131663561332d633530662d373763392d393363322d623231313233626639663233222c227468726561645f6964223a2274616c6b222c226167656e745f6964223a22626f7373222c22706172656e745f72756e5f6964223a6e756c6c2c2272657175657374223a7b226f726967696e223a2255736572222c22696e7075745f6d6573736167655f696473223a5b2230316131663561332d633530372d373633652d393733372d333063656639373938353830225d2c22696e7075745f6d6573736167655f636f756e74223a317d2c22696e707574223a7b227468726561645f6964223a2274616c6b222c2272616e6765223a7b2266726f6d5f736571223a312c22746f5f736571223a377d7d2c226f7574707574223a7b227468726561645f6964223a2274616c6b222c2272616e6765223a7b2266726f6d5f736571223a382c22746f5f736571223a387d7d2c22737461747573223a22646f6e65222c227465726d696e6174696f6e5f726561736f6e223a7b2274797065223a226e61747572616c5f656e64227d2c2266696e616c5f6f7574707574223a226e6f746564222c226f7574636f6d65223a7b227465726d696e6174696f6e5f726561736f6e223a7b2274797065223a226e61747572616c5f656e64227d2c2266696e616c5f6f7574707574223a226e6f746564227d2c22637265617465645f6174223a313739353132323531332c22737461727465645f6174223a313739353132323531332c2266696e69736865645f6174223a313739353132323531332c22757064617465645f6174223a313739353132323531332c227374657073223a312c22696e7075745f746f6b656e73223a302c226f75747075745f746f6b656e73223a302c227374617465223a6e756c6c2c227265766973696f6e223a322c226167656e745f66696e6765727072696e74223a2231326165333263623165633032643031656461333538316231323763316665657c64653063643966346535306135333736613232666236313138386364653630637c66756e6374696f6e222c22637265617465645f61745f6d73223a313739353132323531333136372c22737461727465645f61745f6d73223a313739353132323531333136372c2266696e69736865645f61745f6d73223a313739353132323531333137312c22757064617465645f61745f6d73223a313739353132323531333137317d'),
	(3, '01a1f5a3-c520-737c-adf2-7f7cbd877fb9', 2, '', 'boss', NULL, 'agent', 'waiting', NULL, false, false, 1, 5, 1795122513191, 1795122513191, NULL, '\x7b2272756e5f6964223a2230316131663561332d633532302d373337632d616466322d376637636264383737666239222c227468726561645f6964223a22617070726f76616c222c226167656e745f6964223a22626f7373222c22706172656e745f72756e5f6964223a6e756c6c2c2272657175657374223a7b226f726967696e223a2255736572222c22696e7075745f6d6573736167655f696473223a5b2230316131663561332d633531392d373434322d613631652d326531643231616137656439225d2c22696e7075745f6d6573736167655f636f756e74223a317d2c22696e707574223a7b227468726561645f6964223a22617070726f76616c222c2272616e6765223a7b2266726f6d5f736571223a312c22746f5f736571223a317d7d2c226f7574707574223a7b227468726561645f6964223a22617070726f76616c222c2272616e6765223a7b2266726f6d5f736571223a322c22746f5f736571223a347d7d2c22737461747573223a2277616974696e67222c227465726d696e6174696f6e5f726561736f6e223a7b2274797065223a2273757370656e646564227d2c2277616974696e67223a7b22726561736f6e223a22746f6f6c5f7065726d697373696f6e222c227469636b65745f696473223a5b22617070726f76616c5f6331225d2c227469636b657473223a5b7b226b6579223a2230316131663561332d633532372d373535302d623836632d3537336336323762646333373a30222c227469636b65745f6964223a22617070726f76616c5f6331222c22746f6f6c5f6e616d65223a2273686970222c22617267756d656e7473223a7b7d2c22726573756d655f6d6f6465223a227265706c61795f746f6f6c5f63616c6c222c22726561736f6e223a22746f6f6c3a73686970222c22646967657374223a223232323465643932343633346534383936633665666530386437393130616333222c226d657373616765223a22417070726f766520736869703f222c22746f6f6c5f63616c6c5f6964223a226331222c22757064617465645f6174223a313739353132323531333139317d5d2c226d657373616765223a2273757370656e646564227d2c226f7574636f6d65223a7b227465726d696e6174696f6e5f726561736f6e223a7b2274797065223a2273757370656e646564227d7d2c22637265617465645f6174223a313739353132323531332c22737461727465645f6174223a313739353132323531332c22757064617465645f6174223a313739353132323531332c227374657073223a322c22696e7075745f746f6b656e73223a302c226f75747075745f746f6b656e73223a302c227374617465223a6e756c6c2c227265766973696f6e223a352c226167656e745f66696e6765727072696e74223a2231326165333263623165633032643031656461333538316231323763316665657c64653063643966346535306135333736613232666236313138386364653630637c66756e6374696f6e222c22637265617465645f61745f6d73223a313739353132323531333138342c22737461727465645f61745f6d73223a313739353132323531333138342c22757064617465645f61745f6d73223a313739353132323531333139317d'),
	(4, '01a1f5a3-c560-71cb-ac35-97c096c59cdb', 3, '', 'boss', NULL, 'agent', 'waiting', NULL, false, false, 1, 3, 1795122513330, 1795122513330, NULL, '\x7b2272756e5f6964223a2230316131663561332d633536302d373163622d616333352d393763303936633539636462222c227468726561645f6964223a227465616d222c226167656e745f6964223a22626f7373222c22706172656e745f72756e5f6964223a6e756c6c2c2272657175657374223a7b226f726967696e223a2255736572222c22696e7075745f6d6573736167655f696473223a5b2230316131663561332d633533662d373231632d396634332d353933393232376661393366225d2c22696e7075745f6d6573736167655f636f756e74223a317d2c22696e707574223a7b227468726561645f6964223a227465616d222c2272616e6765223a7b2266726f6d5f736571223a312c22746f5f736571223a317d7d2c226f7574707574223a7b227468726561645f6964223a227465616d222c2272616e6765223a7b2266726f6d5f736571223a322c22746f5f736571223a327d7d2c22737461747573223a2277616974696e67222c227465726d696e6174696f6e5f726561736f6e223a7b2274797065223a2273757370656e646564227d2c2277616974696e67223a7b22726561736f6e223a22746f6f6c5f7065726d697373696f6e222c227469636b65745f696473223a5b2264656c65676174655f72756e3a7465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30225d2c227469636b657473223a5b7b226b6579223a2230316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c227469636b65745f6964223a2264656c65676174655f72756e3a7465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c22746f6f6c5f6e616d65223a2273686970222c22617267756d656e7473223a7b7d2c22726573756d655f6d6f6465223a227265706c61795f746f6f6c5f63616c6c222c22726561736f6e223a226167656e745f64656c65676174653a73757370656e646564222c22646967657374223a223139303437303832303039393464613935326439613564303563653037386431222c2261736b6572223a7b227468726561645f6964223a227465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c2272756e5f6964223a227465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c226167656e745f6964223a22636c65726b222c22746f6f6c5f6e616d65223a2273686970222c22617267756d656e7473223a7b7d2c227469636b6574223a2230316131663561332d633539372d373436622d626637352d6366666365383832613330313a30222c22726561736f6e223a22746f6f6c3a73686970227d2c226d657373616765223a226167656e742027636c65726b272061736b733a20417070726f766520736869703f222c22746f6f6c5f63616c6c5f6964223a226330222c22757064617465645f6174223a313739353132323531333333307d5d2c226d657373616765223a2273757370656e646564227d2c226f7574636f6d65223a7b227465726d696e6174696f6e5f726561736f6e223a7b2274797065223a2273757370656e646564227d7d2c22637265617465645f6174223a313739353132323531332c22737461727465645f6174223a313739353132323531332c22757064617465645f6174223a313739353132323531332c227374657073223a312c22696e7075745f746f6b656e73223a302c226f75747075745f746f6b656e73223a302c227374617465223a6e756c6c2c227265766973696f6e223a332c226167656e745f66696e6765727072696e74223a2231326165333263623165633032643031656461333538316231323763316665657c64653063643966346535306135333736613232666236313138386364653630637c66756e6374696f6e222c22637265617465645f61745f6d73223a313739353132323531333234382c22737461727465645f61745f6d73223a313739353132323531333234382c22757064617465645f61745f6d73223a313739353132323531333333307d'),
	(5, 'team~01a1f5a3-c561-75d1-9bf4-c213f0d91a8b:0', 4, '', 'clerk', '01a1f5a3-c560-71cb-ac35-97c096c59cdb', 'agent', 'waiting', NULL, true, false, 1, 5, 1795122513303, 1795122513303, NULL, '\x7b2272756e5f6964223a227465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c227468726561645f6964223a227465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c226167656e745f6964223a22636c65726b222c22706172656e745f72756e5f6964223a2230316131663561332d633536302d373163622d616333352d393763303936633539636462222c2272657175657374223a7b226f726967696e223a22496e7465726e616c222c22696e7075745f6d6573736167655f696473223a5b2230316131663561332d633536312d373564312d396266342d6332313366306439316138623a303e225d2c22696e7075745f6d6573736167655f636f756e74223a312c22706172656e745f7468726561645f6964223a227465616d222c22706172656e745f746f6f6c5f63616c6c5f6964223a226330227d2c22696e707574223a7b227468726561645f6964223a227465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c2272616e6765223a7b2266726f6d5f736571223a312c22746f5f736571223a317d7d2c226f7574707574223a7b227468726561645f6964223a227465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c2272616e6765223a7b2266726f6d5f736571223a322c22746f5f736571223a347d7d2c22737461747573223a2277616974696e67222c227465726d696e6174696f6e5f726561736f6e223a7b2274797065223a2273757370656e646564227d2c2277616974696e67223a7b22726561736f6e223a22746f6f6c5f7065726d697373696f6e222c227469636b65745f696473223a5b22617070726f76616c5f6331225d2c227469636b657473223a5b7b226b6579223a2230316131663561332d633539372d373436622d626637352d6366666365383832613330313a30222c227469636b65745f6964223a22617070726f76616c5f6331222c22746f6f6c5f6e616d65223a2273686970222c22617267756d656e7473223a7b7d2c22726573756d655f6d6f6465223a227265706c61795f746f6f6c5f63616c6c222c22726561736f6e223a22746f6f6c3a73686970222c22646967657374223a226334646565396564393037343261373234316435336138656462326432393431222c226d657373616765223a22417070726f766520736869703f222c22746f6f6c5f63616c6c5f6964223a226331222c22757064617465645f6174223a313739353132323531333330337d5d2c226d657373616765223a2273757370656e646564227d2c226f7574636f6d65223a7b227465726d696e6174696f6e5f726561736f6e223a7b2274797065223a2273757370656e646564227d7d2c22637265617465645f6174223a313739353132323531332c22737461727465645f6174223a313739353132323531332c22757064617465645f6174223a313739353132323531332c227374657073223a322c22696e7075745f746f6b656e73223a302c226f75747075745f746f6b656e73223a302c227374617465223a6e756c6c2c227265766973696f6e223a352c226167656e745f66696e6765727072696e74223a2231326165333263623165633032643031656461333538316231323763316665657c30326332616238646637336637396631346364636130363735353130393464637c66756e6374696f6e222c22637265617465645f61745f6d73223a313739353132323531333239302c22737461727465645f61745f6d73223a313739353132323531333239302c22757064617465645f61745f6d73223a313739353132323531333330337d'),
	(7, 'background~task-01a1f5a3-c5cd-745f-bf52-892b990128db:0', 6, '', 'task:research', '01a1f5a3-c5c7-7277-be65-e1e5a07e09af', 'task', 'running', NULL, false, false, 1, 1, 1795122513366, 1795122513366, NULL, '\x7b2272756e5f6964223a226261636b67726f756e647e7461736b2d30316131663561332d633563642d373435662d626635322d3839326239393031323864623a30222c227468726561645f6964223a226261636b67726f756e647e7461736b2d30316131663561332d633563642d373435662d626635322d3839326239393031323864623a30222c226167656e745f6964223a227461736b3a7265736561726368222c226b696e64223a227461736b222c22706172656e745f72756e5f6964223a2230316131663561332d633563372d373237372d626536352d653165356130376530396166222c2272657175657374223a7b226f726967696e223a22496e7465726e616c222c22726571756573745f657874726173223a7b227461736b223a7b227461736b5f6964223a2262675f30222c226f776e65725f7468726561645f6964223a226261636b67726f756e64222c227461736b5f74797065223a22746f6f6c222c226465736372697074696f6e223a227265736561726368222c22737461747573223a2272756e6e696e67222c22637265617465645f61745f6d73223a313739353132323531333336362c22706172656e745f636f6e74657874223a7b2272756e5f6964223a2230316131663561332d633563372d373237372d626536352d653165356130376530396166222c2263616c6c5f6964223a226330222c226167656e745f6964223a22626f7373227d2c22756964223a226261636b67726f756e647e7461736b2d30316131663561332d633563642d373435662d626635322d3839326239393031323864623a30222c22656666656374223a2272656164227d2c22726573756d65223a7b22746f6f6c223a227265736561726368222c22617267756d656e7473223a7b7d2c226b6579223a2230316131663561332d633563642d373435662d626635322d3839326239393031323864623a30227d7d2c22706172656e745f7468726561645f6964223a226261636b67726f756e64227d2c22737461747573223a2272756e6e696e67222c22637265617465645f6174223a313739353132323531332c22737461727465645f6174223a313739353132323531332c22757064617465645f6174223a313739353132323531332c227374657073223a302c22696e7075745f746f6b656e73223a302c226f75747075745f746f6b656e73223a302c227374617465223a6e756c6c2c22637265617465645f61745f6d73223a313739353132323531333336362c22737461727465645f61745f6d73223a313739353132323531333336362c22757064617465645f61745f6d73223a313739353132323531333336367d'),
	(8, '01a1f5a3-c5fe-7626-ab4e-32fa9f8b1dee', 8, '', 'boss', NULL, 'agent', 'waiting', NULL, false, false, 1, 4, 1795122513451, 1795122513451, NULL, '\x7b2272756e5f6964223a2230316131663561332d633566652d373632362d616234652d333266613966386231646565222c227468726561645f6964223a227061636b6572222c226167656e745f6964223a22626f7373222c22706172656e745f72756e5f6964223a6e756c6c2c2272657175657374223a7b226f726967696e223a2255736572222c22696e7075745f6d6573736167655f696473223a5b2230316131663561332d633566362d373463612d623436302d626536623761626238613032225d2c22696e7075745f6d6573736167655f636f756e74223a317d2c22696e707574223a7b227468726561645f6964223a227061636b6572222c2272616e6765223a7b2266726f6d5f736571223a312c22746f5f736571223a317d7d2c226f7574707574223a7b227468726561645f6964223a227061636b6572222c2272616e6765223a7b2266726f6d5f736571223a322c22746f5f736571223a347d7d2c22737461747573223a2277616974696e67222c227465726d696e6174696f6e5f726561736f6e223a7b2274797065223a226e61747572616c5f656e64227d2c2266696e616c5f6f7574707574223a227b5c227461736b5f69645c223a5c2262675f305c222c5c227374617475735c223a5c2272756e6e696e675c227d222c2277616974696e67223a7b22726561736f6e223a226261636b67726f756e645f7461736b73222c226d657373616765223a226177616974696e675f7461736b73227d2c226f7574636f6d65223a7b227465726d696e6174696f6e5f726561736f6e223a7b2274797065223a226e61747572616c5f656e64227d2c2266696e616c5f6f7574707574223a227b5c227461736b5f69645c223a5c2262675f305c222c5c227374617475735c223a5c2272756e6e696e675c227d227d2c22637265617465645f6174223a313739353132323531332c22737461727465645f6174223a313739353132323531332c22757064617465645f6174223a313739353132323531332c227374657073223a322c22696e7075745f746f6b656e73223a302c226f75747075745f746f6b656e73223a302c227374617465223a6e756c6c2c227265766973696f6e223a342c226167656e745f66696e6765727072696e74223a2231326165333263623165633032643031656461333538316231323763316665657c64653063643966346535306135333736613232666236313138386364653630637c66756e6374696f6e222c22637265617465645f61745f6d73223a313739353132323531333430362c22737461727465645f61745f6d73223a313739353132323531333430362c22757064617465645f61745f6d73223a313739353132323531333435317d'),
	(6, '01a1f5a3-c5c7-7277-be65-e1e5a07e09af', 5, '', 'boss', NULL, 'agent', 'waiting', NULL, false, false, 1, 4, 1795122513377, 1795122513377, NULL, '\x7b2272756e5f6964223a2230316131663561332d633563372d373237372d626536352d653165356130376530396166222c227468726561645f6964223a226261636b67726f756e64222c226167656e745f6964223a22626f7373222c22706172656e745f72756e5f6964223a6e756c6c2c2272657175657374223a7b226f726967696e223a2255736572222c22696e7075745f6d6573736167655f696473223a5b2230316131663561332d633562622d373335642d383538642d313331636432656463353733225d2c22696e7075745f6d6573736167655f636f756e74223a317d2c22696e707574223a7b227468726561645f6964223a226261636b67726f756e64222c2272616e6765223a7b2266726f6d5f736571223a312c22746f5f736571223a317d7d2c226f7574707574223a7b227468726561645f6964223a226261636b67726f756e64222c2272616e6765223a7b2266726f6d5f736571223a322c22746f5f736571223a347d7d2c22737461747573223a2277616974696e67222c227465726d696e6174696f6e5f726561736f6e223a7b2274797065223a226e61747572616c5f656e64227d2c2266696e616c5f6f7574707574223a227b5c227461736b5f69645c223a5c2262675f305c222c5c227374617475735c223a5c2272756e6e696e675c227d222c2277616974696e67223a7b22726561736f6e223a226261636b67726f756e645f7461736b73222c226d657373616765223a226177616974696e675f7461736b73227d2c226f7574636f6d65223a7b227465726d696e6174696f6e5f726561736f6e223a7b2274797065223a226e61747572616c5f656e64227d2c2266696e616c5f6f7574707574223a227b5c227461736b5f69645c223a5c2262675f305c222c5c227374617475735c223a5c2272756e6e696e675c227d227d2c22637265617465645f6174223a313739353132323531332c22737461727465645f6174223a313739353132323531332c22757064617465645f6174223a313739353132323531332c227374657073223a322c22696e7075745f746f6b656e73223a302c226f75747075745f746f6b656e73223a302c227374617465223a6e756c6c2c227265766973696f6e223a342c226167656e745f66696e6765727072696e74223a2231326165333263623165633032643031656461333538316231323763316665657c64653063643966346535306135333736613232666236313138386364653630637c66756e6374696f6e222c22637265617465645f61745f6d73223a313739353132323531333335312c22737461727465645f61745f6d73223a313739353132323531333335312c22757064617465645f61745f6d73223a313739353132323531333337377d'),
	(9, 'packer~task-01a1f5a3-c601-73c5-9320-636677855560:0', 9, '', 'task:agent_run_packer', '01a1f5a3-c5fe-7626-ab4e-32fa9f8b1dee', 'task', 'running', NULL, false, false, 1, 1, 1795122513428, 1795122513428, NULL, '\x7b2272756e5f6964223a227061636b65727e7461736b2d30316131663561332d633630312d373363352d393332302d3633363637373835353536303a30222c227468726561645f6964223a227061636b65727e7461736b2d30316131663561332d633630312d373363352d393332302d3633363637373835353536303a30222c226167656e745f6964223a227461736b3a6167656e745f72756e5f7061636b6572222c226b696e64223a227461736b222c22706172656e745f72756e5f6964223a2230316131663561332d633566652d373632362d616234652d333266613966386231646565222c2272657175657374223a7b226f726967696e223a22496e7465726e616c222c22726571756573745f657874726173223a7b227461736b223a7b227461736b5f6964223a2262675f30222c226f776e65725f7468726561645f6964223a227061636b6572222c227461736b5f74797065223a22746f6f6c222c226465736372697074696f6e223a226167656e745f72756e5f7061636b6572222c22737461747573223a2272756e6e696e67222c22637265617465645f61745f6d73223a313739353132323531333432382c22706172656e745f636f6e74657874223a7b2272756e5f6964223a2230316131663561332d633566652d373632362d616234652d333266613966386231646565222c2263616c6c5f6964223a226330222c226167656e745f6964223a22626f7373227d2c22756964223a227061636b65727e7461736b2d30316131663561332d633630312d373363352d393332302d3633363637373835353536303a30222c22656666656374223a226964656d706f74656e74227d2c22726573756d65223a7b22746f6f6c223a226167656e745f72756e5f7061636b6572222c22617267756d656e7473223a7b2270726f6d7074223a22706c656173652063686172676520636f756e74227d2c226b6579223a2230316131663561332d633630312d373363352d393332302d3633363637373835353536303a30222c2272756e735f6167656e74223a747275657d7d2c22706172656e745f7468726561645f6964223a227061636b6572227d2c22737461747573223a2272756e6e696e67222c22637265617465645f6174223a313739353132323531332c22737461727465645f6174223a313739353132323531332c22757064617465645f6174223a313739353132323531332c227374657073223a302c22696e7075745f746f6b656e73223a302c226f75747075745f746f6b656e73223a302c227374617465223a6e756c6c2c22637265617465645f61745f6d73223a313739353132323531333432382c22737461727465645f61745f6d73223a313739353132323531333432382c22757064617465645f61745f6d73223a313739353132323531333432387d'),
	(10, 'packer~01a1f5a3-c601-73c5-9320-636677855560:0', 10, '', 'packer', 'packer~task-01a1f5a3-c601-73c5-9320-636677855560:0', 'agent', 'running', NULL, true, false, 1, 4, 1795122513481, 1795122513464, NULL, '\x7b2272756e5f6964223a227061636b65727e30316131663561332d633630312d373363352d393332302d3633363637373835353536303a30222c227468726561645f6964223a227061636b65727e30316131663561332d633630312d373363352d393332302d3633363637373835353536303a30222c226167656e745f6964223a227061636b6572222c22706172656e745f72756e5f6964223a227061636b65727e7461736b2d30316131663561332d633630312d373363352d393332302d3633363637373835353536303a30222c2272657175657374223a7b226f726967696e223a22496e7465726e616c222c22696e7075745f6d6573736167655f696473223a5b2230316131663561332d633630312d373363352d393332302d3633363637373835353536303a303e225d2c22696e7075745f6d6573736167655f636f756e74223a312c22706172656e745f7468726561645f6964223a227061636b65727e7461736b2d30316131663561332d633630312d373363352d393332302d3633363637373835353536303a30222c22706172656e745f746f6f6c5f63616c6c5f6964223a226330227d2c22696e707574223a7b227468726561645f6964223a227061636b65727e30316131663561332d633630312d373363352d393332302d3633363637373835353536303a30222c2272616e6765223a7b2266726f6d5f736571223a312c22746f5f736571223a317d7d2c226f7574707574223a7b227468726561645f6964223a227061636b65727e30316131663561332d633630312d373363352d393332302d3633363637373835353536303a30222c2272616e6765223a7b2266726f6d5f736571223a322c22746f5f736571223a347d7d2c22737461747573223a2272756e6e696e67222c22637265617465645f6174223a313739353132323531332c22737461727465645f6174223a313739353132323531332c22757064617465645f6174223a313739353132323531332c227374657073223a312c22696e7075745f746f6b656e73223a302c226f75747075745f746f6b656e73223a302c227374617465223a6e756c6c2c227265766973696f6e223a342c226167656e745f66696e6765727072696e74223a2231326165333263623165633032643031656461333538316231323763316665657c63666436616237326433343531366561383632613035333661353462366564627c66756e6374696f6e222c22637265617465645f61745f6d73223a313739353132323531333436342c22737461727465645f61745f6d73223a313739353132323531333436342c22757064617465645f61745f6d73223a313739353132323531333438317d'),
	(11, '01a1f5a3-c651-724e-8e7f-bfdcc59ef9c2', 11, '', 'boss', NULL, 'agent', 'running', NULL, false, false, 1, 2, 1795122513490, 1795122513490, NULL, '\x7b2272756e5f6964223a2230316131663561332d633635312d373234652d386537662d626664636335396566396332222c227468726561645f6964223a22706f72746572222c226167656e745f6964223a22626f7373222c22706172656e745f72756e5f6964223a6e756c6c2c2272657175657374223a7b226f726967696e223a2255736572222c22696e7075745f6d6573736167655f696473223a5b2230316131663561332d633634642d373635632d613530302d653837363832616237366433225d2c22696e7075745f6d6573736167655f636f756e74223a317d2c22696e707574223a7b227468726561645f6964223a22706f72746572222c2272616e6765223a7b2266726f6d5f736571223a312c22746f5f736571223a317d7d2c226f7574707574223a7b227468726561645f6964223a22706f72746572222c2272616e6765223a7b2266726f6d5f736571223a322c22746f5f736571223a327d7d2c22737461747573223a2272756e6e696e67222c22637265617465645f6174223a313739353132323531332c22737461727465645f6174223a313739353132323531332c22757064617465645f6174223a313739353132323531332c227374657073223a302c22696e7075745f746f6b656e73223a302c226f75747075745f746f6b656e73223a302c227374617465223a6e756c6c2c227265766973696f6e223a322c226167656e745f66696e6765727072696e74223a2231326165333263623165633032643031656461333538316231323763316665657c64653063643966346535306135333736613232666236313138386364653630637c66756e6374696f6e222c22637265617465645f61745f6d73223a313739353132323531333439302c22737461727465645f61745f6d73223a313739353132323531333439302c22757064617465645f61745f6d73223a313739353132323531333439307d'),
	(12, 'porter~01a1f5a3-c656-7373-b836-f90d98a153ef:0', 12, '', 'porter', '01a1f5a3-c651-724e-8e7f-bfdcc59ef9c2', 'agent', 'running', NULL, true, false, 1, 4, 1795122514078, 1795122513983, NULL, '\x7b2272756e5f6964223a22706f727465727e30316131663561332d633635362d373337332d623833362d6639306439386131353365663a30222c227468726561645f6964223a22706f727465727e30316131663561332d633635362d373337332d623833362d6639306439386131353365663a30222c226167656e745f6964223a22706f72746572222c22706172656e745f72756e5f6964223a2230316131663561332d633635312d373234652d386537662d626664636335396566396332222c2272657175657374223a7b226f726967696e223a22496e7465726e616c222c22696e7075745f6d6573736167655f696473223a5b2230316131663561332d633635362d373337332d623833362d6639306439386131353365663a303e225d2c22696e7075745f6d6573736167655f636f756e74223a312c22706172656e745f7468726561645f6964223a22706f72746572222c22706172656e745f746f6f6c5f63616c6c5f6964223a226330227d2c22696e707574223a7b227468726561645f6964223a22706f727465727e30316131663561332d633635362d373337332d623833362d6639306439386131353365663a30222c2272616e6765223a7b2266726f6d5f736571223a312c22746f5f736571223a317d7d2c226f7574707574223a7b227468726561645f6964223a22706f727465727e30316131663561332d633635362d373337332d623833362d6639306439386131353365663a30222c2272616e6765223a7b2266726f6d5f736571223a322c22746f5f736571223a347d7d2c22737461747573223a2272756e6e696e67222c22637265617465645f6174223a313739353132323531332c22737461727465645f6174223a313739353132323531332c22757064617465645f6174223a313739353132323531342c227374657073223a312c22696e7075745f746f6b656e73223a302c226f75747075745f746f6b656e73223a302c227374617465223a6e756c6c2c227265766973696f6e223a342c226167656e745f66696e6765727072696e74223a2231326165333263623165633032643031656461333538316231323763316665657c63666436616237326433343531366561383632613035333661353462366564627c66756e6374696f6e222c22637265617465645f61745f6d73223a313739353132323531333938332c22737461727465645f61745f6d73223a313739353132323531333938332c22757064617465645f61745f6d73223a313739353132323531343037387d'),
	(13, '01a1f5a3-c8e0-7363-8d13-23b47d751fdc', 13, '', 'boss', NULL, 'agent', 'running', NULL, false, false, 1, 4, 1795122514158, 1795122514144, NULL, '\x7b2272756e5f6964223a2230316131663561332d633865302d373336332d386431332d323362343764373531666463222c227468726561645f6964223a226b696c6c6564222c226167656e745f6964223a22626f7373222c22706172656e745f72756e5f6964223a6e756c6c2c2272657175657374223a7b226f726967696e223a2255736572222c22696e7075745f6d6573736167655f696473223a5b2230316131663561332d633863382d373633652d626665392d363865343563306338373830225d2c22696e7075745f6d6573736167655f636f756e74223a317d2c22696e707574223a7b227468726561645f6964223a226b696c6c6564222c2272616e6765223a7b2266726f6d5f736571223a312c22746f5f736571223a317d7d2c226f7574707574223a7b227468726561645f6964223a226b696c6c6564222c2272616e6765223a7b2266726f6d5f736571223a322c22746f5f736571223a347d7d2c22737461747573223a2272756e6e696e67222c22637265617465645f6174223a313739353132323531342c22737461727465645f6174223a313739353132323531342c22757064617465645f6174223a313739353132323531342c227374657073223a312c22696e7075745f746f6b656e73223a302c226f75747075745f746f6b656e73223a302c227374617465223a6e756c6c2c227265766973696f6e223a342c226167656e745f66696e6765727072696e74223a2231326165333263623165633032643031656461333538316231323763316665657c64653063643966346535306135333736613232666236313138386364653630637c66756e6374696f6e222c22637265617465645f61745f6d73223a313739353132323531343134342c22737461727465645f61745f6d73223a313739353132323531343134342c22757064617465645f61745f6d73223a313739353132323531343135387d');
INSERT INTO office.text_uses VALUES
	(1, '\xd02e97316e6a030af012eccc6f8aeaa3', 2),
	(2, '\xd02e97316e6a030af012eccc6f8aeaa3', 2),
	(3, '\xd02e97316e6a030af012eccc6f8aeaa3', 2),
	(4, '\x7d4bd747a4e561bfd87d623d36df31d2', 2),
	(5, '\xd02e97316e6a030af012eccc6f8aeaa3', 2),
	(7, '\xd02e97316e6a030af012eccc6f8aeaa3', 2),
	(8, '\xd02e97316e6a030af012eccc6f8aeaa3', 2),
	(10, '\xf1dcb6d08ba16c24a99b16482ecbc479', 2),
	(11, '\xd02e97316e6a030af012eccc6f8aeaa3', 2),
	(12, '\x0c45198b696cc26e8043c54b5d36286a', 2),
	(13, '\xd02e97316e6a030af012eccc6f8aeaa3', 2);
INSERT INTO office.texts VALUES
	('\xd02e97316e6a030af012eccc6f8aeaa3', '\x5b7b226964223a226167656e745f72756e5f636c65726b222c226e616d65223a226167656e745f72756e5f636c65726b222c226465736372697074696f6e223a2247697665206167656e742027636c65726b272061207461736b20616e64206765742069747320616e737765722e222c22706172616d6574657273223a7b2274797065223a226f626a656374222c2270726f70657274696573223a7b2270726f6d7074223a7b2274797065223a22737472696e67222c226465736372697074696f6e223a22546865207461736b2c207769746820616c6c206974206e656564732e227d7d2c227265717569726564223a5b2270726f6d7074225d7d2c2263617465676f7279223a6e756c6c7d2c7b226964223a226167656e745f72756e5f7061636b6572222c226e616d65223a226167656e745f72756e5f7061636b6572222c226465736372697074696f6e223a2247697665206167656e7420277061636b6572272061207461736b20616e64206765742069747320616e737765722e5c6e52756e7320696e20746865206261636b67726f756e643a207468652063616c6c2072657475726e732061207461736b206964206174206f6e63652c2074686520726573756c7420666f6c6c6f7773206c617465722e222c22706172616d6574657273223a7b2274797065223a226f626a656374222c2270726f70657274696573223a7b2270726f6d7074223a7b2274797065223a22737472696e67222c226465736372697074696f6e223a22546865207461736b2c207769746820616c6c206974206e656564732e227d7d2c227265717569726564223a5b2270726f6d7074225d7d2c2263617465676f7279223a6e756c6c7d2c7b226964223a226167656e745f72756e5f706f72746572222c226e616d65223a226167656e745f72756e5f706f72746572222c226465736372697074696f6e223a2247697665206167656e742027706f72746572272061207461736b20616e64206765742069747320616e737765722e222c22706172616d6574657273223a7b2274797065223a226f626a656374222c2270726f70657274696573223a7b2270726f6d7074223a7b2274797065223a22737472696e67222c226465736372697074696f6e223a22546865207461736b2c207769746820616c6c206974206e656564732e227d7d2c227265717569726564223a5b2270726f6d7074225d7d2c2263617465676f7279223a6e756c6c7d2c7b226964223a2263616e63656c5f7461736b222c226e616d65223a2263616e63656c5f7461736b222c226465736372697074696f6e223a2253746f7020776f726b207468617420697320756e646572207761793a20796f757273656c6620616e642065766572797468696e6720796f7520737461727465642c206f72206f6e65206261636b67726f756e64207461736b207468617420796f7520737461727465642c20776974682065766572797468696e6720697420737461727465642e222c22706172616d6574657273223a7b2274797065223a226f626a656374222c2270726f70657274696573223a7b22746172676574223a7b2274797065223a226f626a656374222c2270726f70657274696573223a7b2272656c6174696f6e223a7b2274797065223a22737472696e67222c22656e756d223a5b2273656c66222c226368696c64225d2c226465736372697074696f6e223a226073656c66602c206f7220606368696c646020666f722061207461736b20796f7520737461727465642e227d2c226e616d65223a7b2274797065223a22737472696e67222c226465736372697074696f6e223a22546865206368696c642773206e616d65206f72207461736b2069642e227d7d2c227265717569726564223a5b2272656c6174696f6e225d7d7d2c227265717569726564223a5b22746172676574225d7d2c2263617465676f7279223a6e756c6c7d2c7b226964223a22636861726765222c226e616d65223a22636861726765222c226465736372697074696f6e223a2254616b6520746865206d6f6e65792e222c22706172616d6574657273223a7b2274797065223a226f626a656374222c2270726f70657274696573223a7b7d2c226164646974696f6e616c50726f70657274696573223a66616c73657d2c2263617465676f7279223a6e756c6c7d2c7b226964223a226578706c6f6465222c226e616d65223a226578706c6f6465222c226465736372697074696f6e223a2254616b65207468652070726f6365737320646f776e2e222c22706172616d6574657273223a7b2274797065223a226f626a656374222c2270726f70657274696573223a7b7d2c226164646974696f6e616c50726f70657274696573223a66616c73657d2c2263617465676f7279223a6e756c6c7d2c7b226964223a226c6973745f7461736b73222c226e616d65223a226c6973745f7461736b73222c226465736372697074696f6e223a224c69737420746865206261636b67726f756e64207461736b73206f66207468697320636f6e766572736174696f6e20616e6420686f772074686579207374616e642e222c22706172616d6574657273223a7b2274797065223a226f626a656374222c2270726f70657274696573223a7b22737461747573223a7b2274797065223a22737472696e67222c22656e756d223a5b2272756e6e696e67222c22636f6d706c65746564222c226661696c6564222c2263616e63656c6c6564225d7d2c226f6666736574223a7b2274797065223a22696e7465676572222c226d696e696d756d223a307d2c226c696d6974223a7b2274797065223a22696e7465676572222c226d696e696d756d223a312c226d6178696d756d223a3230307d7d2c227265717569726564223a5b5d7d2c2263617465676f7279223a6e756c6c7d2c7b226964223a226c6f6f6b222c226e616d65223a226c6f6f6b222c226465736372697074696f6e223a224c6f6f6b20696e746f207468652073746f636b2e222c22706172616d6574657273223a7b2274797065223a226f626a656374222c2270726f70657274696573223a7b7d2c226164646974696f6e616c50726f70657274696573223a66616c73657d2c2263617465676f7279223a6e756c6c7d2c7b226964223a227265636f7665725f6661696c65645f6d65737361676573222c226e616d65223a227265636f7665725f6661696c65645f6d65737361676573222c226465736372697074696f6e223a224c697374206d65737361676573207468617420636f756c64206e6f742062652064656c6976657265642c2073656e64207468656d20616761696e2c206f722064697363617264207468656d2e222c22706172616d6574657273223a7b2274797065223a226f626a656374222c2270726f70657274696573223a7b22616374696f6e223a7b2274797065223a22737472696e67222c22656e756d223a5b226c697374222c227265706c6179222c22636c656172225d7d7d2c227265717569726564223a5b5d7d2c2263617465676f7279223a6e756c6c7d2c7b226964223a227265736561726368222c226e616d65223a227265736561726368222c226465736372697074696f6e223a2246696e6420736f6d657468696e67206f75742c20696e20746865206261636b67726f756e642e5c6e52756e7320696e20746865206261636b67726f756e643a207468652063616c6c2072657475726e732061207461736b206964206174206f6e63652c2074686520726573756c7420666f6c6c6f7773206c617465722e222c22706172616d6574657273223a7b2274797065223a226f626a656374222c2270726f70657274696573223a7b7d2c226164646974696f6e616c50726f70657274696573223a66616c73657d2c2263617465676f7279223a6e756c6c7d2c7b226964223a2273656e645f6d657373616765222c226e616d65223a2273656e645f6d657373616765222c226465736372697074696f6e223a22577269746520746f20616e6f74686572206167656e743a20746f20746865206f6e652074686174207374617274656420796f752028706172656e74292c20746f2061206261636b67726f756e64207461736b20796f75207374617274656420286368696c642c206279206e616d65206f72207461736b206964292c206f7220746f20746865206167656e74206f6620616e6f7468657220636f6e766572736174696f6e20286167656e742c206279207468726561645f6964292e222c22706172616d6574657273223a7b2274797065223a226f626a656374222c2270726f70657274696573223a7b22746f223a7b2274797065223a226f626a656374222c2270726f70657274696573223a7b2272656c6174696f6e223a7b2274797065223a22737472696e67222c22656e756d223a5b22706172656e74222c226368696c64222c226167656e74225d7d2c226e616d65223a7b2274797065223a22737472696e67227d2c227468726561645f6964223a7b2274797065223a22737472696e67227d2c226167656e745f6964223a7b2274797065223a22737472696e67227d7d2c227265717569726564223a5b2272656c6174696f6e225d7d2c226d657373616765223a7b2274797065223a22737472696e67227d7d2c227265717569726564223a5b22746f222c226d657373616765225d7d2c2263617465676f7279223a6e756c6c7d2c7b226964223a2273686970222c226e616d65223a2273686970222c226465736372697074696f6e223a2253656e642074686520676f6f64732e222c22706172616d6574657273223a7b2274797065223a226f626a656374222c2270726f70657274696573223a7b7d2c226164646974696f6e616c50726f70657274696573223a66616c73657d2c2263617465676f7279223a6e756c6c7d2c7b226964223a22776169745f7461736b222c226e616d65223a22776169745f7461736b222c226465736372697074696f6e223a225761697420756e74696c206261636b67726f756e64207461736b73206861766520656e6465642c20616e64207265616420746865697220726573756c74732e20576974686f7574206964732c207761697420666f7220616c6c20746861742072756e2e2041206c6f6e6720726573756c7420636f6d657320696e2070616765733a2061736b20616761696e207769746820697473206e6578745f6f66667365742e222c22706172616d6574657273223a7b2274797065223a226f626a656374222c2270726f70657274696573223a7b22696473223a7b2274797065223a226172726179222c226974656d73223a7b2274797065223a22737472696e67227d2c226465736372697074696f6e223a225461736b20696473206f72206e616d65732e227d2c226d6f6465223a7b2274797065223a22737472696e67222c22656e756d223a5b22616e79222c22616c6c225d7d2c2274696d656f7574223a7b2274797065223a226e756d626572222c226d696e696d756d223a302c226465736372697074696f6e223a225365636f6e647320746f2077616974206174206d6f73742e227d2c226f6666736574223a7b2274797065223a22696e7465676572222c226d696e696d756d223a307d7d2c227265717569726564223a5b5d7d2c2263617465676f7279223a6e756c6c7d5d'),
	('\x7d4bd747a4e561bfd87d623d36df31d2', '\x5b7b226964223a22636861726765222c226e616d65223a22636861726765222c226465736372697074696f6e223a2254616b6520746865206d6f6e65792e222c22706172616d6574657273223a7b2274797065223a226f626a656374222c2270726f70657274696573223a7b7d2c226164646974696f6e616c50726f70657274696573223a66616c73657d2c2263617465676f7279223a6e756c6c7d2c7b226964223a2273686970222c226e616d65223a2273686970222c226465736372697074696f6e223a2253656e642074686520676f6f64732e222c22706172616d6574657273223a7b2274797065223a226f626a656374222c2270726f70657274696573223a7b7d2c226164646974696f6e616c50726f70657274696573223a66616c73657d2c2263617465676f7279223a6e756c6c7d5d'),
	('\xf1dcb6d08ba16c24a99b16482ecbc479', '\x5b7b226964223a2263616e63656c5f7461736b222c226e616d65223a2263616e63656c5f7461736b222c226465736372697074696f6e223a2253746f7020776f726b207468617420697320756e646572207761793a20796f757273656c6620616e642065766572797468696e6720796f7520737461727465642c206f72206f6e65206261636b67726f756e64207461736b207468617420796f7520737461727465642c20776974682065766572797468696e6720697420737461727465642e222c22706172616d6574657273223a7b2274797065223a226f626a656374222c2270726f70657274696573223a7b22746172676574223a7b2274797065223a226f626a656374222c2270726f70657274696573223a7b2272656c6174696f6e223a7b2274797065223a22737472696e67222c22656e756d223a5b2273656c66222c226368696c64225d2c226465736372697074696f6e223a226073656c66602c206f7220606368696c646020666f722061207461736b20796f7520737461727465642e227d2c226e616d65223a7b2274797065223a22737472696e67222c226465736372697074696f6e223a22546865206368696c642773206e616d65206f72207461736b2069642e227d7d2c227265717569726564223a5b2272656c6174696f6e225d7d7d2c227265717569726564223a5b22746172676574225d7d2c2263617465676f7279223a6e756c6c7d2c7b226964223a22636861726765222c226e616d65223a22636861726765222c226465736372697074696f6e223a2254616b6520746865206d6f6e65792e222c22706172616d6574657273223a7b2274797065223a226f626a656374222c2270726f70657274696573223a7b7d2c226164646974696f6e616c50726f70657274696573223a66616c73657d2c2263617465676f7279223a6e756c6c7d2c7b226964223a22636f756e74222c226e616d65223a22636f756e74222c226465736372697074696f6e223a22436f756e742074686520626f7865732e222c22706172616d6574657273223a7b2274797065223a226f626a656374222c2270726f70657274696573223a7b7d2c226164646974696f6e616c50726f70657274696573223a66616c73657d2c2263617465676f7279223a6e756c6c7d5d'),
	('\x0c45198b696cc26e8043c54b5d36286a', '\x5b7b226964223a22636861726765222c226e616d65223a22636861726765222c226465736372697074696f6e223a2254616b6520746865206d6f6e65792e222c22706172616d6574657273223a7b2274797065223a226f626a656374222c2270726f70657274696573223a7b7d2c226164646974696f6e616c50726f70657274696573223a66616c73657d2c2263617465676f7279223a6e756c6c7d2c7b226964223a22636f756e74222c226e616d65223a22636f756e74222c226465736372697074696f6e223a22436f756e742074686520626f7865732e222c22706172616d6574657273223a7b2274797065223a226f626a656374222c2270726f70657274696573223a7b7d2c226164646974696f6e616c50726f70657274696573223a66616c73657d2c2263617465676f7279223a6e756c6c7d5d');
INSERT INTO office.threads OVERRIDING SYSTEM VALUE VALUES
	(4, 'team~01a1f5a3-c561-75d1-9bf4-c213f0d91a8b:0', 'team', '', 'team', 1795122513290, 1795122513306, 1795122513306, 4, 12, 5, 0, 1, NULL, 'team~01a1f5a3-c561-75d1-9bf4-c213f0d91a8b:0', 'team~01a1f5a3-c561-75d1-9bf4-c213f0d91a8b:0', NULL, NULL, NULL),
	(3, 'team', NULL, '', 'team', 1795122513248, 1795122513330, 1795122513330, 2, 7, 3, 0, 1, NULL, '01a1f5a3-c560-71cb-ac35-97c096c59cdb', '01a1f5a3-c560-71cb-ac35-97c096c59cdb', NULL, NULL, NULL),
	(1, 'talk', NULL, '', 'talk', 1795122513021, 1795122513171, 1795122513171, 8, 20, 8, 0, 2, NULL, '01a1f5a3-c50f-77c9-93c2-b21123bf9f23', NULL, NULL, NULL, NULL),
	(2, 'approval', NULL, '', 'approval', 1795122513185, 1795122513191, 1795122513191, 4, 12, 5, 0, 1, NULL, '01a1f5a3-c520-737c-adf2-7f7cbd877fb9', '01a1f5a3-c520-737c-adf2-7f7cbd877fb9', NULL, NULL, NULL),
	(9, 'packer~task-01a1f5a3-c601-73c5-9320-636677855560:0', 'packer', '', 'packer', 1795122513428, 1795122513428, 1795122513428, 0, 1, 1, 0, 1, 1, 'packer~task-01a1f5a3-c601-73c5-9320-636677855560:0', 'packer~task-01a1f5a3-c601-73c5-9320-636677855560:0', 'packer~task-01a1f5a3-c601-73c5-9320-636677855560:0', NULL, NULL),
	(6, 'background~task-01a1f5a3-c5cd-745f-bf52-892b990128db:0', 'background', '', 'background', 1795122513366, 1795122513366, 1795122513366, 0, 1, 1, 0, 1, 1, 'background~task-01a1f5a3-c5cd-745f-bf52-892b990128db:0', 'background~task-01a1f5a3-c5cd-745f-bf52-892b990128db:0', 'background~task-01a1f5a3-c5cd-745f-bf52-892b990128db:0', NULL, NULL),
	(5, 'background', NULL, '', 'background', 1795122513351, 1795122513377, 1795122513377, 4, 10, 4, 0, 1, NULL, '01a1f5a3-c5c7-7277-be65-e1e5a07e09af', '01a1f5a3-c5c7-7277-be65-e1e5a07e09af', NULL, NULL, NULL),
	(7, 'copy', NULL, '', 'copy', 1795122513385, 1795122513385, 1795122513385, 2, 4, 2, 0, 0, NULL, NULL, NULL, NULL, 'talk', 4),
	(8, 'packer', NULL, '', 'packer', 1795122513406, 1795122513451, 1795122513451, 4, 10, 4, 0, 1, NULL, '01a1f5a3-c5fe-7626-ab4e-32fa9f8b1dee', '01a1f5a3-c5fe-7626-ab4e-32fa9f8b1dee', NULL, NULL, NULL),
	(10, 'packer~01a1f5a3-c601-73c5-9320-636677855560:0', 'packer~task-01a1f5a3-c601-73c5-9320-636677855560:0', '', 'packer', 1795122513464, 1795122513485, 1795122513464, 4, 9, 4, 0, 1, 1, 'packer~01a1f5a3-c601-73c5-9320-636677855560:0', 'packer~01a1f5a3-c601-73c5-9320-636677855560:0', 'packer~01a1f5a3-c601-73c5-9320-636677855560:0', NULL, NULL),
	(11, 'porter', NULL, '', 'porter', 1795122513490, 1795122513494, 1795122513490, 2, 4, 2, 0, 1, 1, '01a1f5a3-c651-724e-8e7f-bfdcc59ef9c2', '01a1f5a3-c651-724e-8e7f-bfdcc59ef9c2', '01a1f5a3-c651-724e-8e7f-bfdcc59ef9c2', NULL, NULL),
	(12, 'porter~01a1f5a3-c656-7373-b836-f90d98a153ef:0', 'porter', '', 'porter', 1795122513983, 1795122514120, 1795122513983, 4, 9, 4, 0, 1, 1, 'porter~01a1f5a3-c656-7373-b836-f90d98a153ef:0', 'porter~01a1f5a3-c656-7373-b836-f90d98a153ef:0', 'porter~01a1f5a3-c656-7373-b836-f90d98a153ef:0', NULL, NULL),
	(13, 'killed', NULL, '', 'killed', 1795122514144, 1795122514161, 1795122514144, 4, 9, 4, 0, 1, 1, '01a1f5a3-c8e0-7363-8d13-23b47d751fdc', '01a1f5a3-c8e0-7363-8d13-23b47d751fdc', '01a1f5a3-c8e0-7363-8d13-23b47d751fdc', NULL, NULL);
INSERT INTO office.tickets OVERRIDING SYSTEM VALUE VALUES
	(1, 2, '', '01a1f5a3-c527-7550-b86c-573c627bdc37:0', 'approval_c1', 'c1', '01a1f5a3-c520-737c-adf2-7f7cbd877fb9', 'open', 1795122513191, NULL, '\x7b226b6579223a2230316131663561332d633532372d373535302d623836632d3537336336323762646333373a30222c227469636b65745f6964223a22617070726f76616c5f6331222c22746f6f6c5f6e616d65223a2273686970222c22617267756d656e7473223a7b7d2c22726561736f6e223a22746f6f6c3a73686970222c22646967657374223a223232323465643932343633346534383936633665666530386437393130616333222c226d657373616765223a22417070726f766520736869703f222c227468726561645f6964223a22617070726f76616c222c2272756e5f6964223a2230316131663561332d633532302d373337632d616466322d376637636264383737666239222c2263616c6c5f6964223a226331222c2261736b65645f6174223a313739353132323531333139312c22706172616d6574657273223a7b2274797065223a226f626a656374222c2270726f70657274696573223a7b7d2c226164646974696f6e616c50726f70657274696573223a66616c73657d7d'),
	(2, 4, '', '01a1f5a3-c597-746b-bf75-cffce882a301:0', 'approval_c1', 'c1', 'team~01a1f5a3-c561-75d1-9bf4-c213f0d91a8b:0', 'open', 1795122513303, NULL, '\x7b226b6579223a2230316131663561332d633539372d373436622d626637352d6366666365383832613330313a30222c227469636b65745f6964223a22617070726f76616c5f6331222c22746f6f6c5f6e616d65223a2273686970222c22617267756d656e7473223a7b7d2c22726561736f6e223a22746f6f6c3a73686970222c22646967657374223a226334646565396564393037343261373234316435336138656462326432393431222c226d657373616765223a22417070726f766520736869703f222c227468726561645f6964223a227465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c2272756e5f6964223a227465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c2263616c6c5f6964223a226331222c2261736b65645f6174223a313739353132323531333330332c22706172616d6574657273223a7b2274797065223a226f626a656374222c2270726f70657274696573223a7b7d2c226164646974696f6e616c50726f70657274696573223a66616c73657d7d'),
	(3, 3, '', '01a1f5a3-c561-75d1-9bf4-c213f0d91a8b:0', 'delegate_run:team~01a1f5a3-c561-75d1-9bf4-c213f0d91a8b:0', 'c0', '01a1f5a3-c560-71cb-ac35-97c096c59cdb', 'open', 1795122513330, NULL, '\x7b226b6579223a2230316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c227469636b65745f6964223a2264656c65676174655f72756e3a7465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c22746f6f6c5f6e616d65223a2273686970222c22617267756d656e7473223a7b7d2c22726561736f6e223a226167656e745f64656c65676174653a73757370656e646564222c22646967657374223a223139303437303832303039393464613935326439613564303563653037386431222c2261736b6572223a7b227468726561645f6964223a227465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c2272756e5f6964223a227465616d7e30316131663561332d633536312d373564312d396266342d6332313366306439316138623a30222c226167656e745f6964223a22636c65726b222c22746f6f6c5f6e616d65223a2273686970222c22617267756d656e7473223a7b7d2c227469636b6574223a2230316131663561332d633539372d373436622d626637352d6366666365383832613330313a30222c22726561736f6e223a22746f6f6c3a73686970227d2c226d657373616765223a226167656e742027636c65726b272061736b733a20417070726f766520736869703f222c227468726561645f6964223a227465616d222c2272756e5f6964223a2230316131663561332d633536302d373163622d616333352d393763303936633539636462222c2263616c6c5f6964223a226330222c2261736b65645f6174223a313739353132323531333333307d');
SELECT pg_catalog.setval('office.audit_number_seq', 1, false);
SELECT pg_catalog.setval('office.blob_uploads_pk_seq', 1, false);
SELECT pg_catalog.setval('office.commands_id_seq', 1, true);
SELECT pg_catalog.setval('office.nodes_id_seq', 1, true);
SELECT pg_catalog.setval('office.runs_pk_seq', 13, true);
SELECT pg_catalog.setval('office.threads_pk_seq', 13, true);
SELECT pg_catalog.setval('office.tickets_pk_seq', 3, true);
ALTER TABLE ONLY office.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (number);
ALTER TABLE ONLY office.blob_parts
    ADD CONSTRAINT blob_parts_pkey PRIMARY KEY (upload, number);
ALTER TABLE ONLY office.blob_uploads
    ADD CONSTRAINT blob_uploads_pkey PRIMARY KEY (pk);
ALTER TABLE ONLY office.blob_uses
    ADD CONSTRAINT blob_uses_pkey PRIMARY KEY (thread, blob);
ALTER TABLE ONLY office.blobs
    ADD CONSTRAINT blobs_pkey PRIMARY KEY (id);
ALTER TABLE ONLY office.command_keys
    ADD CONSTRAINT command_keys_pkey PRIMARY KEY (thread, key);
ALTER TABLE ONLY office.commands
    ADD CONSTRAINT commands_pkey PRIMARY KEY (id);
ALTER TABLE ONLY office.commits
    ADD CONSTRAINT commits_pkey PRIMARY KEY (thread, "position");
ALTER TABLE ONLY office.commits_0
    ADD CONSTRAINT commits_0_pkey PRIMARY KEY (thread, "position");
ALTER TABLE ONLY office.commits_10
    ADD CONSTRAINT commits_10_pkey PRIMARY KEY (thread, "position");
ALTER TABLE ONLY office.commits_11
    ADD CONSTRAINT commits_11_pkey PRIMARY KEY (thread, "position");
ALTER TABLE ONLY office.commits_12
    ADD CONSTRAINT commits_12_pkey PRIMARY KEY (thread, "position");
ALTER TABLE ONLY office.commits_13
    ADD CONSTRAINT commits_13_pkey PRIMARY KEY (thread, "position");
ALTER TABLE ONLY office.commits_14
    ADD CONSTRAINT commits_14_pkey PRIMARY KEY (thread, "position");
ALTER TABLE ONLY office.commits_15
    ADD CONSTRAINT commits_15_pkey PRIMARY KEY (thread, "position");
ALTER TABLE ONLY office.commits_1
    ADD CONSTRAINT commits_1_pkey PRIMARY KEY (thread, "position");
ALTER TABLE ONLY office.commits_2
    ADD CONSTRAINT commits_2_pkey PRIMARY KEY (thread, "position");
ALTER TABLE ONLY office.commits_3
    ADD CONSTRAINT commits_3_pkey PRIMARY KEY (thread, "position");
ALTER TABLE ONLY office.commits_4
    ADD CONSTRAINT commits_4_pkey PRIMARY KEY (thread, "position");
ALTER TABLE ONLY office.commits_5
    ADD CONSTRAINT commits_5_pkey PRIMARY KEY (thread, "position");
ALTER TABLE ONLY office.commits_6
    ADD CONSTRAINT commits_6_pkey PRIMARY KEY (thread, "position");
ALTER TABLE ONLY office.commits_7
    ADD CONSTRAINT commits_7_pkey PRIMARY KEY (thread, "position");
ALTER TABLE ONLY office.commits_8
    ADD CONSTRAINT commits_8_pkey PRIMARY KEY (thread, "position");
ALTER TABLE ONLY office.commits_9
    ADD CONSTRAINT commits_9_pkey PRIMARY KEY (thread, "position");
ALTER TABLE ONLY office.deleted_threads
    ADD CONSTRAINT deleted_threads_pkey PRIMARY KEY (id);
ALTER TABLE ONLY office.keys
    ADD CONSTRAINT keys_pkey PRIMARY KEY (id);
ALTER TABLE ONLY office.migrations
    ADD CONSTRAINT migrations_pkey PRIMARY KEY (number);
ALTER TABLE ONLY office.nodes
    ADD CONSTRAINT nodes_pkey PRIMARY KEY (id);
ALTER TABLE ONLY office.outboxes
    ADD CONSTRAINT outboxes_pkey PRIMARY KEY (thread);
ALTER TABLE ONLY office.profiles
    ADD CONSTRAINT profiles_pkey PRIMARY KEY (owner, key);
ALTER TABLE ONLY office.rewinds
    ADD CONSTRAINT rewinds_pkey PRIMARY KEY (thread, "position");
ALTER TABLE ONLY office.runs
    ADD CONSTRAINT runs_id_key UNIQUE (id);
ALTER TABLE ONLY office.runs
    ADD CONSTRAINT runs_pkey PRIMARY KEY (pk);
ALTER TABLE ONLY office.secrets
    ADD CONSTRAINT secrets_pkey PRIMARY KEY (name);
ALTER TABLE ONLY office.sessions
    ADD CONSTRAINT sessions_pkey PRIMARY KEY (id);
ALTER TABLE ONLY office.snapshots
    ADD CONSTRAINT snapshots_pkey PRIMARY KEY (thread, "position");
ALTER TABLE ONLY office.streams
    ADD CONSTRAINT streams_pkey PRIMARY KEY (thread, number);
ALTER TABLE ONLY office.submission_keys
    ADD CONSTRAINT submission_keys_pkey PRIMARY KEY (thread, key);
ALTER TABLE ONLY office.text_uses
    ADD CONSTRAINT text_uses_pkey PRIMARY KEY (thread, digest);
ALTER TABLE ONLY office.texts
    ADD CONSTRAINT texts_pkey PRIMARY KEY (digest);
ALTER TABLE ONLY office.thread_metadata
    ADD CONSTRAINT thread_metadata_pkey PRIMARY KEY (thread);
ALTER TABLE ONLY office.threads
    ADD CONSTRAINT threads_id_key UNIQUE (id);
ALTER TABLE ONLY office.threads
    ADD CONSTRAINT threads_pkey PRIMARY KEY (pk);
ALTER TABLE ONLY office.tickets
    ADD CONSTRAINT tickets_pkey PRIMARY KEY (pk);
ALTER TABLE ONLY office.tickets
    ADD CONSTRAINT tickets_thread_key_key UNIQUE (thread, key);
CREATE INDEX audit_by_age ON office.audit USING btree (at_ms);
CREATE INDEX audit_of_scope ON office.audit USING btree (scope, number);
CREATE INDEX blobs_by_age ON office.blobs USING btree (put_at);
CREATE INDEX children_by_activity ON office.threads USING btree (parent, active_at DESC) WHERE (parent IS NOT NULL);
CREATE INDEX commands_by_kind ON office.commands USING btree (kind, thread);
CREATE INDEX commands_by_thread ON office.commands USING btree (thread);
CREATE INDEX deleted_threads_by_age ON office.deleted_threads USING btree (at_ms);
CREATE INDEX roots_of_scope ON office.threads USING btree (scope, active_at DESC, id) WHERE ((active_at IS NOT NULL) AND (parent IS NULL));
CREATE INDEX runs_by_agent ON office.runs USING btree (agent, pk);
CREATE INDEX runs_by_parent ON office.runs USING btree (parent) WHERE (parent IS NOT NULL);
CREATE INDEX runs_by_scope ON office.runs USING btree (scope, agent, pk);
CREATE INDEX runs_by_thread ON office.runs USING btree (thread);
CREATE INDEX runs_ended ON office.runs USING btree (changed_at) WHERE (status = 'done'::text);
CREATE INDEX runs_of_tasks ON office.runs USING btree (pk) WHERE (kind = 'task'::text);
CREATE INDEX runs_of_users ON office.runs USING hash (user_id);
CREATE INDEX runs_open ON office.runs USING btree (status, thread) WHERE (status <> 'done'::text);
CREATE INDEX sessions_by_end ON office.sessions USING btree (expires_at);
CREATE INDEX submission_keys_by_age ON office.submission_keys USING btree (at_ms);
CREATE INDEX threads_by_activity ON office.threads USING btree (active_at DESC, id) WHERE (active_at IS NOT NULL);
CREATE INDEX threads_by_owner ON office.threads USING btree (owner) WHERE (owner IS NOT NULL);
CREATE INDEX threads_of_scope ON office.threads USING btree (scope, active_at DESC, id) WHERE (active_at IS NOT NULL);
CREATE INDEX threads_of_users ON office.thread_metadata USING hash (user_id);
CREATE INDEX tickets_by_run ON office.tickets USING btree (run_id);
CREATE INDEX tickets_by_time ON office.tickets USING btree (scope, asked_at, pk);
CREATE INDEX tickets_expiring ON office.tickets USING btree (expires_at) WHERE ((status = 'open'::text) AND (expires_at IS NOT NULL));
CREATE INDEX tickets_open ON office.tickets USING btree (thread, run_id) WHERE (status = 'open'::text);
CREATE INDEX uses_of_blobs ON office.blob_uses USING btree (blob);
CREATE INDEX uses_of_texts ON office.text_uses USING btree (digest);
ALTER INDEX office.commits_pkey ATTACH PARTITION office.commits_0_pkey;
ALTER INDEX office.commits_pkey ATTACH PARTITION office.commits_10_pkey;
ALTER INDEX office.commits_pkey ATTACH PARTITION office.commits_11_pkey;
ALTER INDEX office.commits_pkey ATTACH PARTITION office.commits_12_pkey;
ALTER INDEX office.commits_pkey ATTACH PARTITION office.commits_13_pkey;
ALTER INDEX office.commits_pkey ATTACH PARTITION office.commits_14_pkey;
ALTER INDEX office.commits_pkey ATTACH PARTITION office.commits_15_pkey;
ALTER INDEX office.commits_pkey ATTACH PARTITION office.commits_1_pkey;
ALTER INDEX office.commits_pkey ATTACH PARTITION office.commits_2_pkey;
ALTER INDEX office.commits_pkey ATTACH PARTITION office.commits_3_pkey;
ALTER INDEX office.commits_pkey ATTACH PARTITION office.commits_4_pkey;
ALTER INDEX office.commits_pkey ATTACH PARTITION office.commits_5_pkey;
ALTER INDEX office.commits_pkey ATTACH PARTITION office.commits_6_pkey;
ALTER INDEX office.commits_pkey ATTACH PARTITION office.commits_7_pkey;
ALTER INDEX office.commits_pkey ATTACH PARTITION office.commits_8_pkey;
ALTER INDEX office.commits_pkey ATTACH PARTITION office.commits_9_pkey;
