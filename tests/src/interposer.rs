//! A man in the middle of the daemon's socket: what a relay does when the daemon's messages are late, lost or wrong.
//!
//! Works on the frames of `callgate-ipc` and the JSON in their heads, not on its types, so that it can also say what no
//! honest end would.

use std::fs;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use serde_json::Value;

use crate::home::Home;

/// One message on the socket.
#[derive(Clone, PartialEq, Debug)]
pub struct Message {
    /// Its JSON head.
    pub head: Value,
    /// The raw bytes behind it.
    pub tail: Vec<u8>,
}

/// What becomes of a message.
#[derive(Debug)]
pub enum Fate {
    /// These go on in its place: none, itself, another, several.
    Pass(Vec<Message>),
    /// These bytes go on in its place.
    Raw(Vec<u8>),
    /// The connection is closed, both ways.
    Close,
}

impl Fate {
    /// The message goes on as it is.
    pub fn as_it_is(message: &Message) -> Self {
        Self::Pass(vec![message.clone()])
    }
}

/// Decides about the messages of one direction.
pub type Judge = Arc<dyn Fn(&Message) -> Fate + Send + Sync>;

/// Stands between the daemon's socket and whoever connects, until it is dropped.
#[derive(Debug)]
pub struct Interposer {
    /// The file by which the daemon is found.
    lock: PathBuf,
    /// What it said before.
    announced: String,
    /// What it says meanwhile.
    interposed: String,
}

impl Interposer {
    /// Has whoever looks for the daemon find the interposer. The daemon has to run, and knows nothing of it.
    pub fn new(home: &Home, towards_daemon: Judge, towards_relay: Judge) -> Self {
        let daemon = home.socket();
        let between = daemon.with_extension("between");
        let listener = UnixListener::bind(&between).expect("a socket can be made beside the daemon's");
        let lock = home.path().join("daemon.lock");
        let announced = fs::read_to_string(&lock).expect("the daemon has announced itself");
        let mut interposed: Value = serde_json::from_str(&announced).expect("an announcement is JSON");
        interposed["socket"] = between.to_str().expect("the path is text").into();
        let interposed = interposed.to_string();
        fs::write(&lock, &interposed).expect("the lock file can be written");
        thread::spawn(move || {
            for relay in listener.incoming() {
                let Ok(relay) = relay else { return };
                // Once the daemon is gone, whoever connects finds the line dead.
                let Ok(daemon) = UnixStream::connect(&daemon) else { continue };
                pump(&relay, &daemon, Arc::clone(&towards_daemon));
                pump(&daemon, &relay, Arc::clone(&towards_relay));
            }
        });
        Self { lock, announced, interposed }
    }

    /// Changes what the daemon says to relays.
    pub fn of_answers(home: &Home, judge: impl Fn(&Message) -> Fate + Send + Sync + 'static) -> Self {
        Self::new(home, Arc::new(Fate::as_it_is), Arc::new(judge))
    }

    /// Changes what relays say to the daemon.
    pub fn of_questions(home: &Home, judge: impl Fn(&Message) -> Fate + Send + Sync + 'static) -> Self {
        Self::new(home, Arc::new(judge), Arc::new(Fate::as_it_is))
    }
}

impl Drop for Interposer {
    fn drop(&mut self) {
        // Another daemon has announced itself meanwhile when this one was killed.
        if fs::read_to_string(&self.lock).is_ok_and(|announced| announced == self.interposed) {
            restore(&self.lock, &self.announced);
        }
    }
}

fn restore(lock: &Path, announced: &str) {
    fs::write(lock, announced).expect("the lock file can be written");
}

fn pump(from: &UnixStream, to: &UnixStream, judge: Judge) {
    let from = from.try_clone().expect("a socket has a second handle");
    let to = to.try_clone().expect("a socket has a second handle");
    thread::spawn(move || {
        // Either end may go at any time; then the other is told.
        let _: io::Result<()> = pass(&from, &to, &judge);
        let _: io::Result<()> = from.shutdown(Shutdown::Both);
        let _: io::Result<()> = to.shutdown(Shutdown::Both);
    });
}

fn pass(mut from: &UnixStream, mut to: &UnixStream, judge: &Judge) -> io::Result<()> {
    loop {
        let message = receive(&mut from)?;
        match judge(&message) {
            Fate::Pass(messages) => messages.iter().try_for_each(|message| to.write_all(&encoded(message)))?,
            Fate::Raw(bytes) => to.write_all(&bytes)?,
            Fate::Close => return Ok(()),
        }
    }
}

fn receive(from: &mut impl Read) -> io::Result<Message> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let mut body = vec![0; as_usize(length)];
    from.read_exact(&mut body)?;
    let (head_length, rest) = body.split_first_chunk::<4>().expect("a message has a head");
    let (head, tail) = rest.split_at(as_usize(*head_length));
    Ok(Message { head: serde_json::from_slice(head)?, tail: tail.to_owned() })
}

fn as_usize(length: [u8; 4]) -> usize {
    usize::try_from(u32::from_be_bytes(length)).expect("32 bits fit")
}

fn encoded(message: &Message) -> Vec<u8> {
    let head = message.head.to_string().into_bytes();
    let length = |bytes: usize| u32::try_from(bytes).expect("a message is bounded").to_be_bytes();
    let all = length(4 + head.len() + message.tail.len());
    [&all[..], &length(head.len())[..], &head, &message.tail].concat()
}
