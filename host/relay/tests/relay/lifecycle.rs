//! Processes: they start, they end, they leave nobody behind.

use std::io::Read;
use std::process::Stdio;

use callgate_ipc::message::{Close, FromRelay};
use rustix::process::Signal;

use crate::fake_daemon::{FakeDaemon, by_name};
use crate::ping;
use crate::process::{Relay, Setup, gone, pid_of, runs, shell, until};

#[test]
fn the_exit_code_is_the_servers_or_its_signals_and_its_last_words_come_through() {
    let setup = Setup::new();
    let mut relay = setup.relay(&shell("echo last; exit 7"));
    assert_eq!(relay.line(), "last\n");
    assert_eq!(relay.exit_code(), Some(7));
    assert_eq!(setup.relay(&shell("kill -9 $$")).exit_code(), Some(137));
}

#[test]
fn a_server_that_cannot_be_started_gives_126_or_127_one_line_of_error_and_no_output() {
    let setup = Setup::new();
    std::fs::write(setup.path("plain"), "not a program").unwrap();
    for (program, code) in [("callgate-no-such-program", 127), (setup.path("plain").to_str().unwrap(), 126)] {
        let mut command = setup.command(&[program.into()]);
        let output = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(code));
        assert_eq!(output.stdout, b"");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), format!("callgate: cannot start {program}\n"));
    }
}

#[test]
fn the_server_has_the_environment_the_folder_and_the_arguments_as_they_are() {
    let setup = Setup::new();
    let script = "echo \"$CALLGATE_TEST\"; pwd -P; printf '%s\\n' \"$@\"";
    let mut server = shell(script);
    server.extend(["sh".into(), "--flag=a b".into(), "*".into(), "".into()]);
    let mut command = setup.command(&server);
    let folder = setup.folder.path().canonicalize().unwrap();
    command.env("CALLGATE_TEST", "äö $x").current_dir(&folder);
    let mut relay = Relay::spawn(command);
    let lines: Vec<_> = (0..5).map(|_| relay.line().trim_end().to_owned()).collect();
    assert_eq!(lines, ["äö $x", folder.to_str().unwrap(), "--flag=a b", "*", ""]);
}

#[test]
fn closing_the_input_ends_a_server_that_heeds_it_and_a_wrapper_around_it() {
    let setup = Setup::new();
    let mut relay = setup.relay(&shell("cat; true"));
    relay.write(&ping(1));
    assert_eq!(relay.line(), ping(1));
    relay.finish();
    assert_eq!(relay.exit_code(), Some(0));
}

#[test]
fn a_server_that_heeds_neither_the_end_of_input_nor_sigterm_is_killed() {
    let setup = Setup::new();
    let mut relay = setup.relay(&shell("trap '' TERM HUP INT; echo $$; while :; do sleep 1000; done"));
    let server = pid_of(&relay.line());
    relay.finish();
    assert_eq!(relay.exit_code(), Some(137));
    gone(server);
}

#[test]
fn a_server_that_heeds_sigterm_may_clean_up_and_its_exit_code_counts() {
    let setup = Setup::new();
    let script = "trap 'echo cleaned; exit 5' TERM; echo ready; while :; do sleep 1000 & wait $!; done";
    let mut relay = setup.relay(&shell(script));
    assert_eq!(relay.line(), "ready\n");
    assert_eq!(relay.finish(), "cleaned\n");
    assert_eq!(relay.exit_code(), Some(5));
}

#[test]
fn nothing_of_the_server_outlives_a_client_that_is_gone() {
    let setup = Setup::new();
    let mut relay = setup.relay(&shell("trap '' TERM; sleep 1000 & echo $!; sleep 1000"));
    let grandchild = pid_of(&relay.line());
    let server = relay.children()[0];
    // What a client that is killed leaves: both of its ends closed at once.
    relay.input = None;
    relay.output = std::io::BufReader::new(std::io::pipe().unwrap().0);
    relay.end();
    gone(server);
    gone(grandchild);
}

#[test]
fn what_a_server_leaves_behind_when_it_exits_is_killed() {
    let setup = Setup::new();
    let mut relay = setup.relay(&shell("trap '' TERM; sleep 1000 & echo $!; exit 3"));
    let grandchild = pid_of(&relay.line());
    assert_eq!(relay.exit_code(), Some(3));
    gone(grandchild);
}

#[test]
fn when_only_the_output_is_closed_the_relay_ends_with_the_next_thing_it_has_to_say() {
    let setup = Setup::new();
    let mut relay = setup.relay(&shell("exec cat"));
    relay.output = std::io::BufReader::new(std::io::pipe().unwrap().0);
    relay.write(&ping(1));
    relay.end();
}

#[test]
fn signals_go_to_the_servers_group_and_end_the_session() {
    for (signal, name) in [(Signal::TERM, "TERM"), (Signal::INT, "INT"), (Signal::HUP, "HUP")] {
        let setup = Setup::new();
        let script = format!("trap 'echo got; exit 9' {name}; echo ready; while :; do sleep 1000 & wait $!; done");
        let mut relay = setup.relay(&shell(&script));
        assert_eq!(relay.line(), "ready\n");
        relay.signal(signal);
        assert_eq!(relay.line(), "got\n", "{name}");
        assert_eq!(relay.exit_code(), Some(9), "{name}");
    }
}

#[test]
fn a_signal_ends_a_session_whose_client_and_server_are_both_stuck() {
    let setup = Setup::new();
    let mut relay = setup.relay(&shell("trap '' TERM; yes"));
    assert_eq!(relay.line(), "y\n");
    let server = relay.children()[0];
    relay.signal(Signal::TERM);
    assert_eq!(relay.exit_code(), Some(137));
    assert!(!runs(server));
}

#[test]
fn a_relay_that_is_killed_takes_the_server_with_it() {
    let setup = Setup::new();
    let mut relay = setup.relay(&shell("trap '' TERM HUP; echo $$; while :; do sleep 1000; done"));
    let server = pid_of(&relay.line());
    relay.signal(Signal::KILL);
    relay.end();
    gone(server);
}

#[test]
fn a_server_that_closes_its_output_and_stays_is_ended() {
    let setup = Setup::new();
    let mut relay = setup.relay(&shell("echo $$; exec >&-; trap '' TERM; while :; do sleep 1000; done"));
    let server = pid_of(&relay.line());
    assert_eq!(relay.exit_code(), Some(137));
    gone(server);
}

#[test]
fn the_daemon_is_told_how_the_session_ended() {
    for how in ["client-closed", "signal", "server-exited"] {
        let setup = Setup::new();
        let daemon = FakeDaemon::start(setup.folder.path(), "one", by_name);
        let mut relay = setup.relay(&shell("echo ready; read -r line"));
        relay.line();
        daemon.hear_until(|told| matches!(told, FromRelay::Open(_)));
        match how {
            "client-closed" => drop(relay.finish()),
            "signal" => relay.signal(Signal::TERM),
            _ => relay.write(&ping(1)),
        }
        let told = daemon.hear_until(|told| matches!(told, FromRelay::Close(_)));
        assert_eq!(told.last(), Some(&FromRelay::Close(Close { how: how.to_owned(), lost_events: 0 })));
        relay.end();
    }
}

#[test]
fn a_client_that_reads_slowly_gets_all_that_a_server_wrote_before_it_exited() {
    let setup = Setup::new();
    // More than the relay and the client's pipe take: the end of it stays in the server's pipe.
    let mut relay = setup.relay(&shell("head -c 380000 /dev/zero"));
    until("the server has exited", || relay.children().first().is_some_and(|child| !runs(*child)));
    std::thread::sleep(callgate_stdio::ladder::Ladder::STANDARD.leave);
    let mut got = Vec::new();
    relay.output.read_to_end(&mut got).unwrap();
    assert_eq!(got.len(), 380_000);
    assert_eq!(relay.exit_code(), Some(0));
}
