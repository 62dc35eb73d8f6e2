#!/usr/bin/env python3
"""Verifies a Callgate journal by docs/reference/journal-format.md and nothing else: no code is shared with Callgate.

usage: verify_journal.py JOURNAL.DB [HEAD]      exits 0 sound, 1 broken, 3 unverifiable; needs SQLite 3.37 or newer
"""
import hashlib, json, pathlib, sqlite3, struct, sys

KINDS = {"daemon.start", "daemon.stop", "clock.jump", "session.start", "session.end", "call.decision", "call.outcome",
         "outcome.unknown", "anomaly", "rule.add", "rule.remove", "budget.add", "budget.remove", "grant.add", "grant.remove",
         "plugin.add", "plugin.change", "plugin.remove", "plugin.order", "plugin.reset",
         "server.add", "server.remove", "credential.set", "credential.remove",
         "agent.add", "agent.refresh", "agent.remove"}


class Broken(Exception):
    pass


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def check(holds, seq, what):
    if not holds:
        raise Broken(f"entry {seq}: {what}")


def without_value(of, item):
    return {name: value for name, value in item.items() if (of, name) not in (("rule", "effect"), ("budget", "limit"))}


def key_of(of, item):
    return of, json.dumps(without_value(of, item), sort_keys=True)


def verify(db, wanted):
    install, counted = db.execute("SELECT install, counted FROM meta").fetchone()
    chain = sha256(b"\x03callgate-chain/1", struct.pack(">Q", len(install)), install.encode())
    seq, time_ms, heads, policy, changes, changed, calls, sessions, pending = 0, -(2**63), {chain}, {}, 0, 0, {}, {}, set()
    plugins, servers, credentials, agents = {}, {}, {}, {}
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
        elif kind.startswith(("rule.", "budget.", "grant.")):
            of, step = kind.split(".")
            item, key = said[of], key_of(of, said[of])
            before = policy.pop(key, None)
            check(before is None if step == "add" else before and before[1] == item, seq, "change of the policy")
            if step == "add":
                policy[key] = (seq, item)
        elif kind.startswith("plugin.") and kind != "plugin.reset":
            if kind == "plugin.order":
                check(sorted(said["order"]) == sorted(plugins), seq, "order of other plugins")
                plugins = {name: plugins[name] for name in said["order"]}
            elif kind == "plugin.remove":
                check(plugins.pop(said["plugin"]["name"], None) == said["plugin"], seq, "plugin change")
            else:
                check((said["plugin"]["name"] in plugins) == (kind == "plugin.change"), seq, "plugin change")
                plugins[said["plugin"]["name"]] = said["plugin"]
        elif kind == "server.add":
            taken = [there for there in servers.values() if said["server"]["id"] == there["id"]]
            check(said["server"]["name"] not in servers and not taken, seq, "server registered twice")
            servers[said["server"]["name"]] = said["server"]
        elif kind == "server.remove":
            check(servers.pop(said["server"]["name"], None) == said["server"], seq, "server was another one")
            check(all(server != said["server"]["id"] for server, _ in credentials), seq, "server has credentials")
        elif kind.startswith("credential."):
            server, key = servers.get(said["server"]["name"], {}), (said["server"]["id"], said["variable"])
            check(server.get("id") == key[0] and key[1] in server.get("env", []), seq, "credential of no server")
            before = credentials.pop(key, None)
            if kind == "credential.set":
                credentials[key] = (seq, said["store"])
            else:
                check(before is not None and before[1] == said["store"], seq, "credential was another one")
        elif kind.startswith("agent."):
            agent, there = said["agent"], agents.get(said["agent"]["name"])
            if kind == "agent.add":
                taken = any(agent["id"] == other["id"] for other in agents.values())
                check(there is None and not taken, seq, "agent enrolled twice")
            elif kind == "agent.refresh":
                check(there is not None and there["id"] == agent["id"], seq, "agent was another one")
            else:
                check(agents.pop(agent["name"], None) == agent, seq, "agent was another one")
            if kind != "agent.remove":
                agents[agent["name"]] = agent
        if kind.startswith(("rule.", "budget.", "grant.", "plugin.")) and kind != "plugin.reset":
            same_change = changed and changed == seq - 1 and said["generation"] == changes
            check(same_change or said["generation"] == changes + 1, seq, "generation out of order")
            changes, changed = said["generation"], seq
        if seq == counted:
            pending = {(seq, session) for seq, (session, last) in calls.items() if last is None}
    check(counted <= seq, 0, f"entry {counted} was counted and is not there")
    check(counted or not db.execute("SELECT * FROM counter").fetchone(), 0, "counters of nothing")
    rows = {key_of(of, json.loads(item)): (added, json.loads(item), json.loads(key))
            for added, of, key, item in db.execute("SELECT added, kind, key, item FROM policy")}
    expected = {key: (added, item, without_value(key[0], item)) for key, (added, item) in policy.items()}
    check(rows == expected, 0, "the policy is not what the entries say")
    for sql, expected in (
        ("SELECT * FROM open_call", pending),
        ("SELECT * FROM outcome", {(seq, last) for seq, (session, last) in calls.items() if last is not None}),
        ("SELECT id, started FROM session", set(sessions.items())),
        ("SELECT generation FROM meta", {(changes,)}),
    ):
        check(set(db.execute(sql)) == expected, 0, f"{sql!r} is not what the entries say")
    there = [json.loads(plugin) for plugin, in db.execute("SELECT entry FROM plugin ORDER BY position")]
    check(there == list(plugins.values()), 0, "the plugins are not what the entries say")
    there = [(id, name, json.loads(entry)) for id, name, entry in db.execute("SELECT id, name, entry FROM server ORDER BY added")]
    check(there == [(said["id"], name, said) for name, said in servers.items()], 0, "the servers are not what the entries say")
    there = {(server, variable): (seq, store) for seq, server, variable, store in db.execute("SELECT * FROM credential")}
    check(there == credentials, 0, "the credentials are not what the entries say")
    there = [(id, name, json.loads(entry)) for id, name, entry in db.execute("SELECT id, name, entry FROM agent ORDER BY added")]
    check(there == [(said["id"], name, said) for name, said in agents.items()], 0, "the agents are not what the entries say")
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
