#!/usr/bin/env python3
"""Verifies a Callgate journal by docs/reference/journal-format.md and nothing else: no code is shared with Callgate.

usage: verify_journal.py JOURNAL.DB [HEAD]      exits 0 sound, 1 broken, 3 unverifiable; needs SQLite 3.37 or newer
"""
import hashlib, json, pathlib, sqlite3, struct, sys

KINDS = {"daemon.start", "daemon.stop", "clock.jump", "session.start", "session.end", "call.decision", "call.outcome",
         "outcome.unknown", "anomaly", "rule.add", "rule.remove",
         "plugin.add", "plugin.change", "plugin.remove", "plugin.order", "plugin.reset"}


class Broken(Exception):
    pass


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def check(holds, seq, what):
    if not holds:
        raise Broken(f"entry {seq}: {what}")


def verify(db, wanted):
    install, generation = db.execute("SELECT install, generation FROM meta").fetchone()
    chain = sha256(b"\x03callgate-chain/1", struct.pack(">Q", len(install)), install.encode())
    seq, time_ms, heads, rules, changes, calls, sessions, plugins, step = 0, -(2**63), {chain}, {}, 0, {}, {}, {}, None
    for number, at, kind, body, stored, salt, form, value in db.execute("SELECT * FROM entry ORDER BY seq"):
        seq += 1
        check(number == seq, seq, f"missing, {number} comes next")
        check(kind in KINDS, seq, f"unknown kind {kind!r}")
        leaf = sha256(b"\x00callgate-entry/1", struct.pack(">Qq", seq, at), bytes([len(kind)]), kind.encode(),
                      struct.pack(">Q", len(body)), body)
        chain = sha256(b"\x02", chain, leaf)
        check(chain == stored, seq, "not what was hashed")
        check(at >= time_ms, seq, "earlier than the one before")
        time_ms = at
        heads.add(chain)
        check(kind == "call.decision" or salt is None, seq, "arguments of no decision")
        said = json.loads(body)
        if kind == "call.decision":
            if form == "full" and value is not None:
                check(sha256(salt, value).hex() == said["arguments"]["digest"], seq, "other arguments")
            if said["decision"] == "allowed":
                calls[seq] = [said["session"], None]
        elif kind in ("call.outcome", "outcome.unknown"):
            check(calls.get(said["decision"], [None])[0] == said["session"], seq, "outcome of no allowed call")
            calls[said["decision"]][1] = seq
        elif kind == "session.start":
            check(said["resumed"] or said["session"] not in sessions, seq, "session id used again")
            sessions.setdefault(said["session"], seq)
        elif kind in ("rule.add", "rule.remove"):
            rule, changes = said["rule"], changes + 1
            key = (rule.get("tool"), rule.get("agent"), rule.get("server"))
            before = rules.pop(key, None)
            check(said["generation"] == changes, seq, "generation out of order")
            check(before is None if kind == "rule.add" else before and before[1] == rule["effect"], seq, "rule change")
            if kind == "rule.add":
                rules[key] = (seq, rule["effect"])
        elif kind.startswith("plugin.") and kind != "plugin.reset":
            changes += (seq - 1, said["generation"]) != step
            step = (seq, said["generation"])
            check(said["generation"] == changes, seq, "generation out of order")
            if kind == "plugin.order":
                check(sorted(said["order"]) == sorted(plugins), seq, "order of other plugins")
                plugins = {name: plugins[name] for name in said["order"]}
            elif kind == "plugin.remove":
                check(plugins.pop(said["plugin"]["name"], None) == said["plugin"], seq, "plugin change")
            else:
                check((said["plugin"]["name"] in plugins) == (kind == "plugin.change"), seq, "plugin change")
                plugins[said["plugin"]["name"]] = said["plugin"]
    for sql, expected in (
        ("SELECT added, effect, tool, agent, server FROM rule", {(*rule, *key) for key, rule in rules.items()}),
        ("SELECT * FROM open_call", {(seq, session) for seq, (session, last) in calls.items() if last is None}),
        ("SELECT * FROM outcome", {(seq, last) for seq, (session, last) in calls.items() if last is not None}),
        ("SELECT id, started FROM session", set(sessions.items())),
        ("SELECT generation FROM meta", {(changes,)}),
    ):
        check(set(db.execute(sql)) == expected, 0, f"{sql!r} is not what the entries say")
    there = [json.loads(plugin) for plugin, in db.execute("SELECT entry FROM plugin ORDER BY position")]
    check(there == list(plugins.values()), 0, "the plugins are not what the entries say")
    check(wanted is None or bytes.fromhex(wanted) in heads, 0, f"head {wanted} is nowhere in the chain")
    return f"entries={seq} head={chain.hex()}"


def main(path, wanted=None):
    try:
        db = sqlite3.connect(f"{pathlib.Path(path).absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
        db.execute("BEGIN")
        marks = [db.execute(f"PRAGMA {mark}").fetchone()[0] for mark in ("application_id", "user_version")]
    except sqlite3.Error as error:
        return print(f"unverifiable: {error}") or 3
    if marks != [0x43474A4C, 1]:
        return print(f"unverifiable: not a journal of version 1: {marks}") or 3
    try:
        return print(f"sound {verify(db, wanted)}") or 0
    except (Broken, sqlite3.DatabaseError, ValueError, KeyError, TypeError, AttributeError) as error:
        return print(f"broken: {error}") or 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
