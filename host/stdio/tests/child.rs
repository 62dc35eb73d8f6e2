//! Children and their kin, as real processes.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a helper of a test fails the test")]

use std::ffi::{OsStr, OsString};
use std::future::poll_fn;
use std::io::IoSlice;
use std::os::fd::AsRawFd;

use callgate_stdio::child::{Ended, Group, SpawnError, Spawned, spawn};
use callgate_stdio::detached::spawn_detached;
use callgate_stdio::frames::{Frames, Piece};
use rustix::process::{Pid, Signal};
use tokio::signal::unix::{SignalKind, signal};

fn shell(script: &str) -> Vec<OsString> {
    ["/bin/sh", "-c", script].map(OsString::from).to_vec()
}

fn start(script: &str) -> Spawned {
    spawn(&shell(script), &[]).unwrap()
}

async fn end_of(group: &Group) -> Ended {
    let mut changes = signal(SignalKind::child()).unwrap();
    loop {
        if let Some(ended) = group.ended().unwrap() {
            return ended;
        }
        changes.recv().await.unwrap();
    }
}

async fn line(frames: &mut Frames) -> String {
    match frames.next_piece().await.unwrap() {
        Some(Piece::Frame(line)) => String::from_utf8(line).unwrap().trim_end().to_owned(),
        other => panic!("no line but {other:?}"),
    }
}

fn alive(pid: Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    status.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

async fn gone(pid: Pid) {
    while alive(pid) {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

fn pid(text: &str) -> Pid {
    Pid::from_raw(text.parse().unwrap()).unwrap()
}

#[tokio::test]
async fn the_exit_code_is_the_childs_or_its_signals() {
    assert_eq!(end_of(&start("exit 7").group).await.exit_code(), 7);
    assert_eq!(end_of(&start("kill -9 $$").group).await, Ended::Signal(9));
    assert_eq!(Ended::Signal(15).exit_code(), 143);
}

#[tokio::test]
async fn a_program_that_is_not_there_gives_127_and_one_that_cannot_run_126() {
    let missing = spawn(&[OsString::from("callgate-no-such-program")], &[]).unwrap_err();
    assert_eq!((missing.exit_code(), missing.to_string().as_str()), (127, "cannot start callgate-no-such-program"));
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(spawn(&[folder.path().into()], &[]).unwrap_err().exit_code(), 126);
    assert!(matches!(spawn(&[], &[]), Err(SpawnError::NoCommand)));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_child_has_its_arguments_unchanged_and_a_group_of_its_own() {
    let command = ["/bin/sh", "-c", "printf '%s\\n' \"$1\" $$; cut -d' ' -f5 /proc/$$/stat", "sh", "a  b*\"'"];
    let Spawned { stdout, group, stdin: _stdin } = spawn(&command.map(OsString::from), &[]).unwrap();
    let mut lines = Frames::new(stdout, 1024);
    assert_eq!(line(&mut lines).await, "a  b*\"'");
    assert_eq!(line(&mut lines).await, group.pid().to_string());
    assert_eq!(line(&mut lines).await, group.pid().to_string());
}

#[tokio::test]
async fn what_is_written_comes_back_and_closing_the_input_ends_the_child() {
    let Spawned { mut stdin, stdout, group } = start("cat; exit 3");
    poll_fn(|context| stdin.poll_write(context, &[IoSlice::new(b"a\n"), IoSlice::new(b"b\n")])).await.unwrap();
    let mut lines = Frames::new(stdout, 1024);
    assert_eq!((line(&mut lines).await, line(&mut lines).await), ("a".to_owned(), "b".to_owned()));
    drop(stdin);
    assert_eq!(lines.next_piece().await.unwrap(), None);
    assert_eq!(end_of(&group).await, Ended::Status(3));
}

#[tokio::test]
async fn a_signal_reaches_the_whole_group() {
    let Spawned { stdout, group, stdin: _stdin } = start("sleep 1000 & echo $!; wait");
    let grandchild = pid(&line(&mut Frames::new(stdout, 1024)).await);
    group.signal(Signal::TERM).unwrap();
    assert_eq!(end_of(&group).await, Ended::Signal(15));
    gone(grandchild).await;
}

#[tokio::test]
async fn what_the_child_leaves_behind_is_killed() {
    let Spawned { stdout, group, stdin: _stdin } = start("trap '' TERM; sleep 1000 & echo $!");
    let grandchild = pid(&line(&mut Frames::new(stdout, 1024)).await);
    assert_eq!(end_of(&group).await, Ended::Status(0));
    assert!(alive(grandchild));
    drop(group);
    gone(grandchild).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_child_dies_with_the_thread_that_started_it() {
    let starter = std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _reactor = runtime.enter();
        let spawned = start("trap '' TERM HUP; while :; do sleep 1000; done");
        let child = pid(&spawned.group.pid().to_string());
        std::mem::forget(spawned);
        child
    });
    gone(starter.join().unwrap()).await;
}

#[cfg(target_os = "linux")]
#[test]
fn what_is_detached_inherits_no_descriptor() {
    let folder = tempfile::tempdir().unwrap();
    let (leaked, _other) = std::io::pipe().unwrap();
    let leaked = rustix::io::dup(&leaked).unwrap();
    let list = folder.path().join("list");
    let script = "ls -l /proc/$$/fd > \"$0.tmp\"; mv \"$0.tmp\" \"$0\"";
    let arguments = ["-c".into(), script.into(), list.clone().into_os_string()];
    let mut detached = spawn_detached(OsStr::new("/bin/sh"), &arguments).unwrap();
    while detached.ended().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let list = std::fs::read_to_string(list).unwrap();
    assert!(list.contains("0 -> /dev/null"), "{list}");
    assert!(!list.contains(&format!(" {} -> pipe", leaked.as_raw_fd())), "{list}");
}
