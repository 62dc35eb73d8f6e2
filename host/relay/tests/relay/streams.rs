//! Bytes: nothing lost, nothing changed, nothing spliced, nobody stuck.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::sync_channel;

use callgate_ipc::message::{Anomaly, FromRelay};
use serde_json::json;

use crate::fake_daemon::{FakeDaemon, by_name};
use crate::process::{Relay, Setup, shell, until};
use crate::{call, ping};

const MIB: usize = 1024 * 1024;

/// A notification of `bytes` bytes.
fn notification(bytes: usize) -> String {
    let frame = |padding: &str| format!(r#"{{"jsonrpc":"2.0","method":"x","params":{{"x":"{padding}"}}}}"#) + "\n";
    frame(&"x".repeat(bytes - frame("").len()))
}

#[test]
fn one_byte_at_a_time_comes_through_whole_and_a_denied_call_never_arrives() {
    let setup = Setup::new();
    let _daemon = FakeDaemon::start(setup.folder.path(), "one", by_name);
    let mut relay = setup.serving();
    let frames = [ping(1), call(2, "allowed"), call(3, "denied"), "\r\n".to_owned(), call(4, "allowed")];
    for byte in frames.concat().as_bytes() {
        relay.input.as_mut().unwrap().write_all(&[*byte]).unwrap();
    }
    let mut ids: Vec<_> = (0..4).map(|_| relay.message()["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.iter().filter(|id| **id != 3).collect::<Vec<_>>(), [&1, &2, &4], "released ones keep their order");
    ids.sort_unstable();
    assert_eq!(ids, [1, 2, 3, 4]);
    relay.finish();
    let (blank, rest): (Vec<_>, Vec<_>) =
        setup.log().split_inclusive('\n').map(str::to_owned).partition(|line| line == "\r\n");
    assert_eq!((blank.len(), rest.concat()), (1, frames[0].clone() + &frames[1] + &frames[4]));
}

#[test]
fn a_hundred_frames_in_one_write_arrive_calls_and_messages_each_in_order() {
    let setup = Setup::new();
    let _daemon = FakeDaemon::start(setup.folder.path(), "one", by_name);
    let mut relay = setup.serving();
    let frames: String = (1..=100).map(|id| if id % 3 == 0 { call(id, "allowed") } else { ping(id) }).collect();
    relay.write(&frames);
    let (calls, pings): (Vec<_>, Vec<_>) =
        (1..=100).map(|_| relay.message()["id"].as_u64().unwrap()).partition(|id| id % 3 == 0);
    assert_eq!(calls, (1..=100).filter(|id| id % 3 == 0).collect::<Vec<_>>());
    assert_eq!(pings, (1..=100).filter(|id| id % 3 != 0).collect::<Vec<_>>());
    relay.finish();
    assert_eq!(setup.log().len(), frames.len());
}

#[test]
fn requests_written_before_the_input_is_closed_are_answered() {
    let setup = Setup::new();
    let _daemon = FakeDaemon::start(setup.folder.path(), "one", by_name);
    let mut relay = setup.serving();
    relay.write(&(ping(1) + &call(2, "allowed") + &call(3, "denied")));
    let rest = relay.finish();
    assert_eq!(rest.lines().count(), 3, "{rest}");
    assert_eq!(relay.exit_code(), Some(0));
}

#[test]
fn an_unterminated_last_line_is_not_given_to_the_server() {
    let setup = Setup::new();
    let daemon = FakeDaemon::start(setup.folder.path(), "one", by_name);
    let mut relay = setup.serving();
    relay.write(&(ping(1) + call(2, "allowed").trim_end()));
    assert_eq!(relay.finish().lines().count(), 1);
    assert_eq!(setup.log(), ping(1));
    let told = daemon.hear_until(|told| matches!(told, FromRelay::Close(_)));
    assert!(told.iter().any(|told| matches!(told, FromRelay::Anomaly(_))), "{told:?}");
}

#[test]
fn a_frame_beyond_the_bound_is_dropped_and_the_next_one_is_whole() {
    let mut setup = Setup::new();
    setup.frame_bytes_max = 100_000;
    let daemon = FakeDaemon::start(setup.folder.path(), "one", by_name);
    let mut relay = setup.serving();
    relay.write(&(notification(2 * MIB) + &ping(1)));
    assert_eq!(relay.message()["id"], json!(1));
    let told = daemon.hear_until(|told| matches!(told, FromRelay::Anomaly(_)));
    let bytes = u64::try_from(2 * MIB).unwrap();
    assert!(matches!(told.last(), Some(FromRelay::Anomaly(Anomaly { bytes: told, .. })) if *told == bytes), "{told:?}");
    relay.finish();
    assert_eq!(setup.log(), ping(1));
}

#[test]
fn a_server_line_beyond_the_bound_is_passed_on_and_refusals_stay_outside_it() {
    let mut setup = Setup::new();
    setup.frame_bytes_max = 100_000;
    let _daemon = FakeDaemon::start(setup.folder.path(), "one", by_name);
    let long = notification(3 * MIB);
    std::fs::write(setup.path("long"), &long).unwrap();
    let script = format!("cat {0}; cat {0}; exec sleep 1000", setup.path("long").display());
    let mut relay = setup.relay(&shell(&script));
    (1..=50).for_each(|id| relay.write(&call(id, "denied")));
    let lines: Vec<String> = (0..52).map(|_| relay.line()).collect();
    assert_eq!(lines.iter().filter(|line| **line == long).count(), 2);
    assert!(lines.iter().all(|line| *line == long || line.contains("default-deny")));
    assert!(relay.resident_bytes() < 24 * MIB, "{} bytes", relay.resident_bytes());
}

#[test]
fn four_mebibytes_to_a_server_that_does_not_read_wait_in_bounded_room_and_the_clients_end_is_noticed() {
    let setup = Setup::new();
    let mut relay = setup.relay(&shell("exec sleep 1000"));
    until("the server is started", || !relay.children().is_empty());
    let server = relay.children()[0];
    let mut input = relay.input.take().unwrap();
    rustix::io::ioctl_fionbio(&input, true).unwrap();
    let frame = notification(10_000);
    let mut written = 0;
    let mut refused = 0;
    // The relay has taken all it will when the pipe stays full.
    while refused < 200 {
        if let Ok(bytes) = input.write(frame.as_bytes()) {
            (written, refused) = (written + bytes, 0);
        } else {
            refused += 1;
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(written < 4 * MIB, "there is a bound");
    }
    assert!(relay.resident_bytes() < 24 * MIB, "{} bytes", relay.resident_bytes());
    drop(input);
    relay.end();
    assert!(!crate::process::runs(server));
}

#[test]
fn four_mebibytes_to_a_client_that_does_not_read_wait_in_bounded_room_and_arrive_whole() {
    let setup = Setup::new();
    let text = notification(1000).repeat(4 * MIB / 1000);
    std::fs::write(setup.path("text"), &text).unwrap();
    let mut relay = setup.relay(&shell(&format!("cat {}; cat", setup.path("text").display())));
    relay.write("\n");
    until("the server is started", || !relay.children().is_empty());
    assert!(relay.resident_bytes() < 24 * MIB, "{} bytes", relay.resident_bytes());
    let mut got = vec![0; text.len()];
    relay.output.read_exact(&mut got).unwrap();
    assert!(got == text.as_bytes());
    assert_eq!(relay.finish(), "\n");
}

#[test]
fn both_pipes_full_at_once_and_nobody_is_stuck_when_the_client_reads_again() {
    let setup = Setup::new();
    let _daemon = FakeDaemon::start(setup.folder.path(), "one", by_name);
    // A server that gives back what it gets: its output stops when ours does, and then its input.
    let mut relay = setup.relay(&shell("exec cat"));
    let mut frames = String::new();
    while frames.len() < 4 * MIB {
        frames += &notification(2000);
        frames += &call(u64::try_from(frames.len()).unwrap(), "denied");
    }
    let mut input = relay.input.take().unwrap();
    let (tell, half) = sync_channel(1);
    let (lines, bytes) = (frames.lines().count(), frames.clone().into_bytes());
    let writer = std::thread::spawn(move || {
        let (first, rest) = bytes.split_at(100_000);
        input.write_all(first).unwrap();
        tell.send(()).unwrap();
        input.write_all(rest).unwrap();
        input
    });
    half.recv().unwrap();
    let mut echoed = 0;
    let mut denied = 0;
    for _ in 0..lines {
        let line = relay.line();
        if line == notification(2000) {
            echoed += 1;
        } else {
            assert!(line.contains("default-deny"), "{line}");
            denied += 1;
        }
    }
    assert_eq!((echoed, denied), (lines / 2, lines / 2));
    drop(writer.join().unwrap());
    assert_eq!(relay.finish(), "");
}

#[test]
fn standard_streams_may_be_sockets_as_node_makes_them() {
    let setup = Setup::new();
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut command = setup.command(&shell("exec cat"));
    let mut child = {
        command.stdin(std::os::fd::OwnedFd::from(theirs.try_clone().unwrap()));
        command.stdout(std::os::fd::OwnedFd::from(theirs));
        command.spawn().unwrap()
    };
    drop(command);
    let frames = ping(1).repeat(10_000);
    let (mut reader, mut writer) = (ours.try_clone().unwrap(), ours);
    let bytes = frames.clone();
    let writer = std::thread::spawn(move || {
        writer.write_all(bytes.as_bytes()).unwrap();
        writer.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let mut got = String::new();
    reader.read_to_string(&mut got).unwrap();
    writer.join().unwrap();
    assert!(got == frames);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn standard_streams_may_be_files() {
    let setup = Setup::new();
    let frames = ping(1).repeat(10_000);
    std::fs::write(setup.path("in"), &frames).unwrap();
    let mut command = setup.command(&shell("exec cat"));
    command.stdin(std::fs::File::open(setup.path("in")).unwrap());
    command.stdout(std::fs::File::create(setup.path("out")).unwrap());
    assert_eq!(command.status().unwrap().code(), Some(0));
    assert!(std::fs::read_to_string(setup.path("out")).unwrap() == frames);
}

#[test]
fn standard_error_is_the_servers_byte_for_byte_and_stays_blocking_when_it_shares_a_pipe_with_the_output() {
    let setup = Setup::new();
    let (mut output, shared) = std::io::pipe().unwrap();
    let (stdin, input) = std::io::pipe().unwrap();
    let script = "printf 'a\\377b\\n' >&2; head -c 1000000 /dev/zero >&2; echo out; exec cat";
    let mut command = setup.command(&shell(script));
    command.stdin(stdin).stdout(shared.try_clone().unwrap()).stderr(shared.try_clone().unwrap());
    let mut child = command.spawn().unwrap();
    drop((command, shared, input));
    let mut got = Vec::new();
    output.read_to_end(&mut got).unwrap();
    assert_eq!(&got[..4], b"a\xffb\n");
    assert_eq!(got.len(), 4 + 1_000_000 + 4);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn an_end_of_output_without_a_line_feed_is_passed_on_as_it_is() {
    let setup = Setup::new();
    let mut relay: Relay = setup.relay(&shell("printf 'tail'"));
    let mut rest = String::new();
    relay.output.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "tail");
}
