//! A daemon in the test's own process: speaks the real protocol, decides as the test says, journals nothing.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use callgate_core::code::Code;
use callgate_core::permit::Binding;
use callgate_core::refusal::Reason;
use callgate_core::verdict::Retry;
use callgate_ipc::frame::{Message, decode, encode};
use callgate_ipc::message::{Decide, FromRelay, Greeting, Hello, Refused, ToRelay};
use rustix::process::Uid;
use serde_json::json;

/// What the daemon does when it is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    Allow,
    Deny,
    Nothing,
    HangUp,
}

pub(crate) type Policy = fn(&Decide) -> Answer;

/// Denies the tool `denied`, allows all others.
pub(crate) fn by_name(decide: &Decide) -> Answer {
    if decide.tool == "denied" { Answer::Deny } else { Answer::Allow }
}

/// A daemon; it stops listening when this is dropped, and its connections end.
pub(crate) struct FakeDaemon {
    heard: Receiver<FromRelay>,
    stopped: Arc<AtomicBool>,
    socket: PathBuf,
    connections: Arc<Mutex<Vec<UnixStream>>>,
}

impl FakeDaemon {
    /// Listens at `folder/name` and names that in `folder/socket`.
    pub(crate) fn start(folder: &Path, name: &str, policy: Policy) -> Self {
        let listener = UnixListener::bind(folder.join(name)).unwrap();
        Self::serve(folder, name, listener, policy)
    }

    /// The same as another user, which only root can. The kernel remembers who began to listen.
    pub(crate) fn start_as(user: Uid, folder: &Path, name: &str, policy: Policy) -> Self {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o777)).unwrap();
        let socket = folder.join(name);
        let listening = std::thread::spawn(move || {
            // This thread's alone, and it ends here.
            rustix::thread::set_thread_res_uid(user, user, user).unwrap();
            UnixListener::bind(socket).unwrap()
        });
        Self::serve(folder, name, listening.join().unwrap(), policy)
    }

    fn serve(folder: &Path, name: &str, listener: UnixListener, policy: Policy) -> Self {
        let socket = folder.join(name);
        let (tell, heard) = sync_channel(100_000);
        let stopped = Arc::new(AtomicBool::new(false));
        let connections = Arc::new(Mutex::new(Vec::new()));
        let daemon = Self { heard, stopped: stopped.clone(), socket: socket.clone(), connections: connections.clone() };
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if stopped.load(Ordering::SeqCst) {
                    break;
                }
                connections.lock().unwrap().push(stream.try_clone().unwrap());
                let tell = tell.clone();
                std::thread::spawn(move || Connection::new(stream).serve(policy, &tell));
            }
        });
        let named = folder.join("socket.new");
        std::fs::write(&named, socket.as_os_str().as_encoded_bytes()).unwrap();
        std::fs::rename(named, folder.join("socket")).unwrap();
        daemon
    }

    /// The next thing the relay says.
    pub(crate) fn hear(&self) -> FromRelay {
        self.heard.recv_timeout(Duration::from_secs(20)).expect("the relay says something")
    }

    /// Whether the relay has said anything.
    pub(crate) fn has_heard(&self) -> bool {
        self.heard.try_recv().is_ok()
    }

    /// What the relay says until `last` is among it.
    pub(crate) fn hear_until(&self, last: impl Fn(&FromRelay) -> bool) -> Vec<FromRelay> {
        let mut heard = Vec::new();
        while !heard.last().is_some_and(&last) {
            heard.push(self.hear());
        }
        heard
    }
}

impl Drop for FakeDaemon {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::SeqCst);
        drop(UnixStream::connect(&self.socket));
        std::fs::remove_file(&self.socket).ok();
        for connection in self.connections.lock().unwrap().drain(..) {
            connection.shutdown(std::net::Shutdown::Both).ok();
        }
    }
}

struct Connection {
    stream: UnixStream,
    bytes: Vec<u8>,
    number: u64,
}

impl Connection {
    fn new(stream: UnixStream) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        Self { stream, bytes: Vec::new(), number: NUMBERS.fetch_add(1, Ordering::SeqCst) }
    }

    fn serve(mut self, policy: Policy, tell: &SyncSender<FromRelay>) {
        let Some(Hello { .. }) = self.receive() else { return };
        self.send(&Greeting::Starting);
        self.send(&Greeting::Welcome { connection: self.number });
        while let Some(message) = self.receive::<FromRelay>() {
            match &message {
                FromRelay::Open(_) => self.send(&ToRelay::Opened),
                FromRelay::Decide(decide) => match policy(decide) {
                    Answer::Allow => self.send(&self.permit(decide)),
                    Answer::Deny => self.send(&denial(decide)),
                    Answer::Nothing => {}
                    Answer::HangUp => {
                        tell.send(message).ok();
                        return self.stream.shutdown(std::net::Shutdown::Both).unwrap_or_default();
                    }
                },
                FromRelay::Outcome(_) | FromRelay::Anomaly(_) | FromRelay::Close(_) => {}
            }
            if tell.send(message).is_err() {
                return;
            }
        }
    }

    fn permit(&self, decide: &Decide) -> ToRelay {
        let binding = Binding { connection: self.number, sequence: decide.sequence, frame: decide.frame };
        let permit = json!({ "binding": binding, "entry": 1000 * self.number + decide.sequence });
        ToRelay::Permitted(serde_json::from_value(permit).unwrap())
    }

    fn send<M: Message>(&mut self, message: &M) {
        let mut bytes = Vec::new();
        encode(message, &mut bytes).unwrap();
        self.stream.write_all(&bytes).ok();
    }

    fn receive<M: Message>(&mut self) -> Option<M> {
        loop {
            if let Some((message, length)) = decode(&self.bytes).unwrap() {
                self.bytes.drain(..length);
                return Some(message);
            }
            let mut chunk = vec![0; 64 * 1024];
            let length = self.stream.read(&mut chunk).ok().filter(|length| *length > 0)?;
            self.bytes.extend_from_slice(&chunk[..length]);
        }
    }
}

fn denial(decide: &Decide) -> ToRelay {
    let reason = Reason::of(Code::DefaultDeny, "no", Retry::Never);
    ToRelay::Refused(Refused { sequence: decide.sequence, reason, entry: Some(1) })
}
