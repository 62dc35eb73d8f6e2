//! What another program of the same user can try, each with what comes of it: those that are refused, and those that are not.
//! docs/security.md says the same in words.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use callgate_tests::home::Home;
use callgate_tests::relay::{Relay, fixture};
use callgate_tests::{program, wait};
use serde_json::{Value, json};

use super::{Programs, START, enrol, installed, shell, start_of, started_by, starts, unknown, who};
use crate::servers::given;

const SECRET: &str = "what-only-a-relay-may-have";

/// A process that connects to the daemon and wants the secret of a registered server.
///
/// Alone it asks by itself. With `child` it forks once it is connected, becomes a genuine relay, and has its child ask over the same
/// connection. With `early` it asks while the daemon sleeps, becomes the relay, and has its child wake the daemon and read the answer.
const IMPOSTOR: &str = r#"
import json, os, signal, socket, struct, sys
home, callgate, build, how, answer = sys.argv[1:]
daemon = json.load(open(home + "/daemon.lock"))["pid"]

def message(head):
    head = json.dumps(head).encode()
    return struct.pack(">II", len(head) + 4, len(head)) + head

hello, wanted = message({"build": build, "purpose": "servers"}), message({"launch": "secret"})
line = socket.socket(socket.AF_UNIX)
line.connect(home + "/run/daemon.sock")
line.settimeout(30)

got = bytearray()

def until(word):
    while word not in got:
        part = line.recv(4096)
        if not part:
            break
        got.extend(part)

def ask(send):
    try:
        if send:
            line.sendall(hello)
            until(b"welcome")
            line.sendall(wanted)
        until(b"launch")
    except OSError as error:
        got.extend(repr(error).encode())
    open(answer + ".part", "wb").write(got)
    os.rename(answer + ".part", answer)

if how == "alone":
    ask(True)
else:
    if how == "early":
        os.kill(daemon, signal.SIGSTOP)
        line.sendall(hello + wanted)
    us = os.getpid()
    if os.fork() == 0:
        while os.readlink(f"/proc/{us}/exe") != callgate:
            pass
        if how == "early":
            os.kill(daemon, signal.SIGCONT)
        ask(how == "child")
        os._exit(0)
    line.set_inheritable(True)
    os.execv(callgate, ["callgate", "run", "--server", "fs", "--", "cat"])
"#;

/// What the impostor was answered.
fn impostor(home: &Home, python: &Path, how: &str) -> Vec<u8> {
    let script = home.path().join("impostor.py");
    fs::write(&script, IMPOSTOR).unwrap();
    let answer = home.path().join(format!("answer-{how}"));
    let callgate = fs::canonicalize(program::callgate()).unwrap();
    let mut command = Command::new(python);
    command.arg(script).arg(home.path()).arg(callgate).args([callgate::BUILD, how]).arg(&answer);
    command.env("CALLGATE_HOME", home.path()).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut running: Child = command.spawn().unwrap();
    let answered = wait::until("the answer", || fs::read(&answer).ok());
    // The relay that it became ends with its client.
    drop(running.stdin.take());
    running.wait().unwrap();
    answered
}

/// A home with a secret, which its relays get.
fn home_with_a_secret() -> Home {
    let home = Home::new();
    let _ = given(&home, &["credential", "store", "init", "--sealed-file"], "a passphrase\n").exits(0);
    let fixture = program::fixture();
    let add = ["server", "add", "secret", "--env", "TOKEN", "--", fixture.to_str().unwrap()];
    let _ = given(&home, &add, &format!("{SECRET}\n")).exits(0);
    home
}

fn holds(answer: &[u8], text: &str) -> bool {
    callgate_tests::session::contains(answer, text.as_bytes())
}

/// Refused: whoever speaks has to be the process that connected, and has to be a relay already when it is greeted.
#[test]
fn a_connection_is_no_use_in_the_hands_of_another_process() {
    let Some(python) = installed("python3") else { return crate::skipped("python", "there is no python3") };
    let home = home_with_a_secret();
    let alone = impostor(&home, &python, "alone");
    assert!(holds(&alone, "welcome") && holds(&alone, "not-launched"), "{}", String::from_utf8_lossy(&alone));
    for how in ["child", "early"] {
        let answer = impostor(&home, &python, how);
        let text = String::from_utf8_lossy(&answer);
        assert!(!holds(&answer, SECRET) && !holds(&answer, "launch") && !holds(&answer, "welcome"), "{how}: {text}");
    }
    let log = fs::read_to_string(home.path().join("daemon.log")).unwrap();
    assert!(log.contains("another process sends than the one that connected"), "{log}");
    assert!(log.contains("the other end spoke before it was greeted"), "{log}");
}

/// Refused: a program that speaks as a relay and is not one has a session, and it is nobody's.
#[test]
fn a_program_that_is_no_relay_is_nobody() {
    let (home, programs) = (Home::new(), Programs::new());
    let this = std::env::current_exe().unwrap();
    enrol(&home, "tests", &this, &[]);
    home.start_daemon();
    assert_eq!(who(&start_of(&home, home.relay("fs").start(fixture(&home.path().join("received"))))), "tests");
    // The very bytes of a relay, in another file.
    let copy = programs.at("callgate");
    fs::copy(program::callgate(), &copy).unwrap();
    let mut command = Command::new(copy);
    command.args(["run", "--server", "fs", "--"]).args(fixture(&home.path().join("received")));
    command.env("CALLGATE_HOME", home.path()).env_remove("CALLGATE_LOG");
    assert_eq!(who(&start_of(&home, Relay::of(&mut command))), unknown("not-our-relay"));
}

/// Refused: what an agent's own shell starts is not the agent. Where the agent lists shells as wrappers it is: then this is how it
/// starts its servers, and nothing tells the two apart.
#[test]
fn a_shell_command_of_an_agent_is_the_agent_only_where_shells_are_looked_through() {
    let (home, programs) = (Home::new(), Programs::new());
    let claude = programs.client("claude");
    enrol(&home, "claude", &claude, &[]);
    let tool = [&shell(&claude)[..], &["bash".into(), "-c".into(), START.into(), "tool".into()]].concat();
    assert_eq!(
        who(&start_of(&home, started_by(&home, &tool, Some("claude")))),
        unknown(json!({ "claim-unfit": "claude" }))
    );
    let _ = home.ok(&["agent", "remove", "claude"]);
    enrol(&home, "claude", &claude, &["--via", "sh"]);
    assert_eq!(who(&start_of(&home, started_by(&home, &tool, None))), "claude");
}

/// Refused: another script of the interpreter that runs an agent. Not refused: the agent's own script, run with what makes it run
/// something else; who starts an interpreter chooses its arguments and its environment.
#[test]
fn an_interpreter_s_other_script_is_not_the_agent_and_its_arguments_are_believed() {
    let (home, programs) = (Home::new(), Programs::new());
    let agent = programs.script("agent.sh", "exit 1\n");
    let evil = programs.script("evil.sh", &format!("{START}\n"));
    enrol(&home, "agent", Path::new("bash"), &["--script", agent.to_str().unwrap()]);
    let other = [Path::new("bash"), &evil];
    assert_eq!(who(&start_of(&home, started_by(&home, &other, None))), unknown("not-enrolled"));
    // The shell reads the evil file first, which starts the relay and never comes to the agent's own script.
    let relay = home.relay("fs").command_line(fixture(&home.path().join("received")));
    let mut command = Command::new("bash");
    command.arg(&agent).args(relay).env("BASH_ENV", &evil).env("CALLGATE_HOME", home.path()).env_remove("CALLGATE_LOG");
    assert_eq!(who(&start_of(&home, Relay::of(&mut command))), "agent");
}

/// Not refused: a program that starts a relay and then becomes the enrolled program is, for the kernel, that program.
#[test]
fn a_program_that_becomes_the_agent_s_is_taken_for_the_agent() {
    let (home, programs) = (Home::new(), Programs::new());
    let (cursor, evil) = (programs.client("cursor"), programs.client("evil"));
    enrol(&home, "cursor", &cursor, &[]);
    home.start_daemon();
    let become_it = format!(
        r#"exec 3<&0
(until [ "$(readlink /proc/$$/exe)" = {cursor} ]; do :; done; exec "$@" <&3) &
exec {cursor} -c 'while :; do sleep 0.05; done' <&-"#,
        cursor = cursor.display()
    );
    let words = [evil.as_os_str(), "-c".as_ref(), become_it.as_ref(), "start".as_ref()];
    let mut relay = started_by(&home, &words, None);
    let _ = relay.call("1", "echo", "{}");
    assert_eq!(who(&starts(&home).pop().unwrap()), "cursor");
    relay.close_stdin();
    wait::until_true("the relay's end", || home.entries().iter().any(|entry| entry.kind == "session.end"));
    relay.kill();
}

/// Not refused: code that is loaded into a genuine relay is the relay, and is given what it is given.
#[test]
fn code_that_is_loaded_into_a_relay_is_the_relay() {
    let Some(gcc) = installed("gcc") else { return crate::skipped("preload", "there is no gcc") };
    let home = home_with_a_secret();
    let (source, library) = (home.path().join("preload.c"), home.path().join("preload.so"));
    // What is written here reads what the relay keeps for its server: the secret, in the environment that it gives to `execve`.
    let code = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <unistd.h>
static void steal(char *const environment[]) {
    int file = open(getenv_stolen(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    for (; file >= 0 && *environment; environment++)
        if (!strncmp(*environment, "TOKEN=", 6)) write(file, *environment, strlen(*environment));
    close(file);
}
int execve(const char *path, char *const arguments[], char *const environment[]) {
    steal(environment);
    return ((int (*)(const char *, char *const[], char *const[]))dlsym(RTLD_NEXT, "execve"))(path, arguments, environment);
}
extern char **environ;
int execvp(const char *path, char *const arguments[]) {
    steal(environ);
    return ((int (*)(const char *, char *const[]))dlsym(RTLD_NEXT, "execvp"))(path, arguments);
}
"#;
    let stolen = home.path().join("stolen");
    fs::write(&source, code.replace("getenv_stolen()", &format!("{:?}", stolen.to_str().unwrap()))).unwrap();
    let built =
        Command::new(gcc).args(["-shared", "-fPIC", "-w", "-o"]).arg(&library).arg(&source).arg("-ldl").status();
    assert!(built.unwrap().success());
    enrol(&home, "tests", &std::env::current_exe().unwrap(), &[]);
    let mut relay = Relay::of(home.prepare(&["run", "--server", "secret"]).env("LD_PRELOAD", &library));
    assert_eq!(relay.call("1", "echo", "{}")["result"]["isError"], Value::Null);
    assert_eq!(relay.close().code(), 0);
    assert_eq!(who(&starts(&home).pop().unwrap()), "tests");
    let stolen = fs::read_to_string(stolen).unwrap_or_default();
    assert!(stolen.contains(SECRET), "it was not this easy: {stolen:?}");
}
