//! Grants: what an agent may do with a server's tools, by live calls of agents that are enrolled.

use callgate_tests::home::Home;
use callgate_tests::relay::{self, Relay};
use serde_json::json;

use crate::kill::is_sound;

/// A session of `agent`, or of one that says nothing of itself.
fn session(home: &Home, server: &str, agent: Option<&str>) -> Relay {
    let launch = home.relay(server);
    let launch = match agent {
        Some(agent) => launch.option("--agent").option(agent),
        None => launch,
    };
    launch.start(relay::fixture(&home.path().join("received")))
}

/// Whether a call passes, and the code of its refusal if not.
fn outcome(relay: &mut Relay, id: &str, tool: &str, arguments: &str) -> Result<(), String> {
    let answer = relay.call(&json!(id).to_string(), tool, arguments);
    let code = answer["result"]["_meta"]["dev.callgate/decision"]["code"].as_str();
    code.map_or(Ok(()), |code| Err(code.to_owned()))
}

fn refused(code: &str) -> Result<(), String> {
    Err(format!("arguments/{code}"))
}

#[test]
fn an_agent_that_has_a_grant_gets_what_is_granted_and_nothing_else() {
    let home = Home::knowing(&["my-agent", "other"]);
    let (mut mine, mut others) = (session(&home, "git", Some("my-agent")), session(&home, "git", Some("other")));
    let mut unknown = session(&home, "git", None);
    let path = |path: &str| json!({ "repo_path": path }).to_string();
    assert_eq!(outcome(&mut mine, "a", "git_log", &path("/etc")), Ok(()), "without a grant nothing changes");

    let granted =
        home.ok(&["grant", "my-agent", "git", "--tool", "git_log", "--args", "repo_path=/home/user/projects/**"]);
    assert!(granted.stderr.is_empty(), "{granted:?}");
    let expected = "granted: git_log on git (agent my-agent, repo_path=/home/user/projects/**) (entry ";
    assert!(granted.stdout.starts_with(expected), "{granted:?}");
    assert_eq!(outcome(&mut mine, "b", "git_log", &path("/home/user/projects/x")), Ok(()));
    assert_eq!(outcome(&mut mine, "c", "git_log", &path("/home/user/projects/../x")), refused("argument"));
    assert_eq!(outcome(&mut mine, "d", "git_log", "{}"), Ok(()), "an argument is checked where a call has it");
    assert_eq!(outcome(&mut mine, "e", "git_push", "{}"), refused("no-grant"));
    let elsewhere = &mut session(&home, "fs", Some("my-agent"));
    assert_eq!(outcome(elsewhere, "f", "echo", "{}"), refused("no-grant"));
    assert_eq!(outcome(&mut others, "g", "git_push", "{}"), Ok(()), "nor does anything for an agent without one");
    assert_eq!(outcome(&mut unknown, "h", "git_push", "{}"), Ok(()));

    let told = mine.call("9", "git_log", &path("/etc"));
    assert_eq!(
        told["result"]["content"][0]["text"],
        "Callgate refused this call (arguments): the argument `repo_path` has to match `/home/user/projects/**`. Other \
         arguments may pass."
    );
    let body = home.decisions().pop().unwrap();
    let id = home.ok(&["agent", "show", "my-agent", "--json"]).json()["id"].clone();
    assert_eq!(body["agent"], json!({ "id": id, "name": "my-agent", "evidence": "executable" }));

    let revoked = home.ok(&["revoke", "my-agent", "git"]);
    assert!(revoked.stdout.starts_with("revoked: git_log on git (agent my-agent, "), "{revoked:?}");
    let unbound = "warning: agent my-agent has no grant any more: only rules and budgets limit it now\n";
    assert_eq!(revoked.stderr, unbound, "who revokes the last grant may think that nothing is left");
    assert_eq!(outcome(&mut mine, "i", "git_push", "{}"), Ok(()));
    let kinds: Vec<_> =
        home.entries().into_iter().map(|entry| entry.kind).filter(|kind| kind.starts_with("grant.")).collect();
    assert_eq!(kinds, ["grant.add", "grant.remove"]);
    is_sound(&home);
}

#[test]
fn grants_of_every_form_allow_together() {
    let home = Home::knowing(&["my-agent", "other"]);
    let mut mine = session(&home, "database", Some("my-agent"));
    let _ = home.ok(&[
        "grant",
        "my-agent",
        "database",
        "--tool",
        "query",
        "--args",
        r"sql=re:^SELECT\s.*",
        "db=production",
    ]);
    let query = |sql: &str, db: &str| json!({ "sql": sql, "db": db }).to_string();
    assert_eq!(outcome(&mut mine, "a", "query", &query("SELECT 1", "production")), Ok(()));
    assert_eq!(outcome(&mut mine, "b", "query", &query("DROP x", "production")), refused("argument"));
    assert_eq!(outcome(&mut mine, "c", "query", &query("SELECT 1", "staging")), refused("argument"));
    assert_eq!(outcome(&mut mine, "d", "list", "{}"), refused("no-grant"));
    let _ = home.ok(&["grant", "my-agent", "database", "--tool", "query", "--args", "db=staging"]);
    assert_eq!(outcome(&mut mine, "e", "query", &query("DROP x", "staging")), Ok(()), "any one grant allows");
    assert_eq!(outcome(&mut mine, "f", "query", &query("DROP x", "production")), refused("argument"));
    let _ = home.ok(&["policy", "deny", "query", "--agent", "my-agent"]);
    assert_eq!(outcome(&mut mine, "g", "query", &query("SELECT 1", "production")), Err("rules/deny".to_owned()));
    let _ = home.ok(&["policy", "remove", "query", "--agent", "my-agent"]);

    // A grant of everything is the default, and says what it opens.
    let widened = home.ok(&["grant", "my-agent", "database"]);
    assert!(widened.stderr.starts_with("warning: ") && widened.stderr.contains("no longer binds"), "{widened:?}");
    assert_eq!(outcome(&mut mine, "h", "list", "{}"), Ok(()));
    assert_eq!(outcome(&mut mine, "i", "query", &query("DROP x", "production")), Ok(()));
    let revoked = home.ok(&["revoke", "my-agent", "database", "--tool", "*"]);
    assert_eq!(revoked.stderr, "", "there are others");
    assert_eq!(outcome(&mut mine, "j", "list", "{}"), refused("no-grant"));

    // A budget narrows what is granted.
    let _ = home.ok(&["policy", "budget", "1", "--tool", "query", "--agent", "my-agent", "--shared-by", "agent"]);
    assert_eq!(outcome(&mut mine, "k", "query", "{}"), Ok(()));
    assert_eq!(outcome(&mut mine, "l", "query", "{}"), Err("budget/budget".to_owned()));
    let again = &mut session(&home, "database", Some("my-agent"));
    assert_eq!(
        outcome(again, "m", "query", "{}"),
        Err("budget/budget".to_owned()),
        "all sessions of the agent share it"
    );
    let usage = home.ok(&["policy", "usage"]).stdout;
    assert!(
        usage.contains("    1     0  agent my-agent  at most 1 call of query an agent (agent my-agent)\n"),
        "{usage}"
    );
    is_sound(&home);
}

#[test]
fn several_grants_are_revoked_together() {
    let home = Home::new();
    for arguments in [
        &["my-agent", "git"][..],
        &["my-agent", "git", "--tool", "git_log", "--args", "path=/a"],
        &["my-agent", "git", "--tool", "git_log", "--args", "path=/b"],
        &["my-agent", "fs", "--tool", "git_log"],
        &["ci-bot", "git", "--tool", "git_log"],
    ] {
        let _ = home.ok(&[&["grant"], arguments].concat());
    }
    let listed = home.ok(&["grants"]).stdout;
    assert_eq!(
        listed,
        "* on git (agent my-agent)\ngit_log on git (agent my-agent, path=/a)\ngit_log on git (agent my-agent, \
         path=/b)\ngit_log on fs (agent my-agent)\ngit_log on git (agent ci-bot)\n"
    );
    assert_eq!(home.ok(&["grants", "--agent", "ci-bot"]).stdout, "git_log on git (agent ci-bot)\n");
    assert_eq!(home.ok(&["grants", "--agent", "nobody"]).stdout, "no grants\n");
    assert_eq!(
        home.ok(&["grants", "--agent", "my-agent", "--json"]).json()["grants"][1],
        json!({ "agent": "my-agent", "server": "git", "tool": "git_log", "args": { "path": "/a" } })
    );
    let list = home.ok(&["policy", "list"]);
    assert!(list.stdout == "no rules: every call is allowed\n" && list.stderr.contains("callgate grants"), "{list:?}");
    home.stop_daemon();
    assert_eq!(home.ok(&["grants"]).stdout, listed, "without a daemon too");

    let revoked = home.ok(&["revoke", "my-agent", "git", "--tool", "git_log"]);
    assert_eq!(revoked.stdout.lines().count(), 2, "{revoked:?}");
    let removed: Vec<_> = home.entries().into_iter().filter(|entry| entry.kind == "grant.remove").collect();
    assert_eq!(removed.iter().map(|entry| entry.body["generation"].as_u64()).collect::<Vec<_>>(), [Some(6), Some(6)]);
    let _ = home.ok(&["revoke", "my-agent", "git"]);
    let gone = home.run(&["revoke", "my-agent", "git"]).exits(2);
    assert!(gone.stderr.contains("agent my-agent has no grant on server git\nhint: callgate grants"), "{gone:?}");
    assert_eq!(home.ok(&["grants"]).stdout.lines().count(), 2);
    is_sound(&home);
}

#[test]
fn what_is_wrong_with_a_grant_is_said_and_an_unknown_server_is_warned_of() {
    let home = Home::new();
    let unseen = home.ok(&["grant", "my-agent", "gti", "--tool", "git_log"]);
    assert!(unseen.stderr.contains("warning: no session was ever opened for a server named gti"), "{unseen:?}");
    assert!(unseen.stderr.contains("warning: no agent named my-agent is enrolled"), "{unseen:?}");
    let wrong: &[(&[&str], &str)] = &[
        (&["my-agent", "gti", "--tool", "git_log"], "there is that grant already: git_log on gti (agent my-agent)"),
        (&["my-agent", "git", "--args", "path=/srv/[a"], "the arguments plugin does not take this grant: args/path: "),
        (&["my-agent", "git", "--args", "path=re:("], "the arguments plugin does not take this grant: args/path: "),
        (&["my-agent", "git", "--args", "path=/a/../*"], "the arguments plugin does not take this grant: args/path: "),
        (&["my-agent", "git", "--args", "path"], "there is no `=`; write NAME=PATTERN"),
        (&["my-agent", "git", "--args", "=x"], "there is no name in front of the `=`"),
        (&["my-agent", "git", "--args", "a=1", "a=2"], "the argument \"a\" has two patterns\nhint: make two grants"),
        (&["my-agent", "git", "--tool", ""], "the arguments plugin does not take this grant: tool: "),
        (&["*", "git"], "agent name"),
        (&["my-agent", "not a name"], "server name"),
        (&["my-agent"], "SERVER"),
    ];
    for (arguments, message) in wrong {
        let told = home.run(&[&["grant"], *arguments].concat()).exits(2);
        assert!(told.stdout.is_empty() && told.stderr.contains(message), "{arguments:?}: {told:?}");
    }
    assert_eq!(home.ok(&["grants"]).stdout.lines().count(), 1);
}

#[test]
fn explain_shows_what_the_grants_say() {
    let home = Home::new();
    let _ = home.ok(&["grant", "my-agent", "git", "--tool", "git_log", "--args", "path=/srv/**"]);
    let explain = |code: i32, arguments: &[&str]| {
        home.run(&[&["policy", "explain"], arguments, &["--agent", "my-agent", "--server", "git"]].concat())
            .exits(code)
            .stdout
    };
    let allowed = explain(0, &["git_log", "--args", r#"{"path":"/srv/x"}"#]);
    assert!(
        allowed.contains("\n  arguments: allow by grant git_log on git (agent my-agent, path=/srv/**)\n"),
        "{allowed}"
    );
    let refused = explain(1, &["git_log", "--args", r#"{"path":"/etc"}"#]);
    assert!(refused.starts_with("deny: git_log (arguments: grant git_log on git"), "{refused}");
    assert!(explain(1, &["git_push"]).contains("(arguments/no-grant)"));
}
