//! The daemon's connections: one thread each, so that a call which takes its plugin's whole deadline holds up nobody else,
//! and a lone call is read, decided, committed and answered without a hop to another thread.

use std::collections::HashMap;
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use callgate_identity::{Peer, SystemPeer};
use callgate_ipc::message::{Greeting, Hello, Purpose};
use callgate_ipc::peer;

use super::gate::Gate;
use super::identity::Caller;
use super::{orders, servers, session};
use crate::BUILD;
use crate::failure::Failure;
use crate::wire::{Broken, Wire};

/// Connections at once. A person has a few clients with a few servers each; a thousand is a runaway.
const CONNECTIONS_MAX: usize = 1024;
/// Who connects says at once who they are.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// Who takes nothing of what it is sent for this long is given up on: nobody who waits for answers leaves them unread, and
/// the daemon cannot stop before every connection is done.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// How often one who waits for the plugins to be compiled is told that they still are.
const STARTING_EVERY: Duration = Duration::from_millis(250);

/// The accepting thread and the connections.
pub(super) struct Server {
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
    listener: UnixListener,
}

struct Shared {
    gate: Arc<Gate>,
    stop: tokio::sync::mpsc::Sender<()>,
    stopping: AtomicBool,
    next: AtomicU64,
    open: Mutex<HashMap<u64, Open>>,
}

struct Open {
    /// A second handle on the socket, to end it with.
    stream: UnixStream,
    thread: JoinHandle<()>,
}

impl Server {
    /// Begins to accept. `stop` is told when a command asks the daemon to stop.
    pub(super) fn start(
        listener: &UnixListener,
        gate: &Arc<Gate>,
        stop: tokio::sync::mpsc::Sender<()>,
    ) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::environment(format!("cannot accept connections: {error}"));
        let shared = Arc::new(Shared {
            gate: Arc::clone(gate),
            stop,
            stopping: AtomicBool::new(false),
            next: AtomicU64::new(1),
            open: Mutex::new(HashMap::new()),
        });
        let accepting = {
            let (listener, shared) = (listener.try_clone().map_err(failed)?, Arc::clone(&shared));
            thread::Builder::new()
                .name("accept".to_owned())
                .spawn(move || accept(&listener, &shared))
                .map_err(failed)?
        };
        Ok(Self { shared, accepting, listener: listener.try_clone().map_err(failed)? })
    }

    /// Ends every connection after what it is deciding now, and waits for that.
    pub(super) fn stop(self) {
        self.shared.stopping.store(true, Ordering::Release);
        // Wakes the accepting thread; a listener that is shut accepts nothing more.
        if let Err(error) = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both) {
            log::warn!("cannot shut the listening socket: {error}");
        }
        if self.accepting.join().is_err() {
            log::error!("the accepting thread panicked");
        }
        let open: Vec<Open> = lock(&self.shared.open).drain().map(|(_, open)| open).collect();
        for connection in &open {
            // Reading ends; a reply that is being written still goes out.
            connection.stream.shutdown(std::net::Shutdown::Read).ok();
        }
        for connection in open {
            // A panic is logged where it happens.
            connection.thread.join().ok();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // What the mutexes here guard is whole between any two statements.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn accept(listener: &UnixListener, shared: &Arc<Shared>) {
    while !shared.stopping.load(Ordering::Acquire) {
        match listener.accept() {
            Ok((stream, _)) => {
                if let Err(error) = begin(stream, shared) {
                    log::warn!("cannot serve a connection: {error}");
                }
            }
            Err(_) if shared.stopping.load(Ordering::Acquire) => break,
            Err(error) => {
                log::warn!("cannot accept a connection: {error}");
                // Out of descriptors, most likely: some are given back as connections end.
                thread::sleep(STARTING_EVERY);
            }
        }
    }
}

fn begin(stream: UnixStream, shared: &Arc<Shared>) -> io::Result<()> {
    peer::is_ours(&stream)?;
    let peer = Arc::new(SystemPeer::of(&stream)?);
    let pid = peer.pid();
    let second = stream.try_clone()?;
    let mut wire = Wire::serving(stream, Arc::clone(&peer), WRITE_TIMEOUT)?;
    let mut open = lock(&shared.open);
    if open.len() >= CONNECTIONS_MAX {
        drop(open);
        let message = format!("there are {CONNECTIONS_MAX} connections already");
        wire.send(&[Greeting::Unavailable { message }]).ok();
        return Ok(());
    }
    let number = shared.next.fetch_add(1, Ordering::Relaxed);
    let thread = {
        let shared = Arc::clone(shared);
        thread::Builder::new().name(format!("connection {number}")).spawn(move || {
            let connection = Connection { number, shared };
            match serve(wire, peer, &connection.shared) {
                Ok(()) | Err(Broken::Closed) => {}
                Err(broken) => log::warn!("connection {number} (pid {pid}): {broken}"),
            }
        })?
    };
    open.insert(number, Open { stream: second, thread });
    Ok(())
}

/// A connection that is counted among the open ones until its thread is done, however that comes about.
struct Connection {
    number: u64,
    shared: Arc<Shared>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        if thread::panicking() {
            log::error!("the thread of connection {} panicked", self.number);
        }
        lock(&self.shared.open).remove(&self.number);
    }
}

fn serve(mut wire: Wire, peer: Arc<SystemPeer>, shared: &Shared) -> Result<(), Broken> {
    let hello: Hello = wire.receive(Some(Instant::now() + HELLO_TIMEOUT))?;
    let caller = Caller::looked_at(peer);
    // Nobody speaks before they are greeted. What came already may be from a program that this process ran before it ran the one
    // that was just seen.
    if wire.has_more()? {
        return Err(Broken::TooEarly);
    }
    if hello.build != BUILD {
        log::warn!("pid {} is build {}, this daemon {BUILD}", caller.pid(), hello.build);
        return wire.send(&[Greeting::OtherBuild { build: BUILD.to_owned() }]);
    }
    // The first time at once: whoever waits has to hear in time that there is something to wait for.
    let mut patience = Duration::ZERO;
    while !shared.gate.wait_open(std::mem::replace(&mut patience, STARTING_EVERY)) {
        if shared.stopping.load(Ordering::Acquire) {
            return wire.send(&[Greeting::Unavailable { message: "the daemon is stopping".to_owned() }]);
        }
        wire.send(&[Greeting::Starting])?;
    }
    let connection = random()?;
    wire.send(&[Greeting::Welcome { connection }])?;
    match hello.purpose {
        Purpose::Relay => session::serve(wire, connection, &caller, &shared.gate),
        Purpose::Servers => servers::serve(wire, &caller, &shared.gate),
        Purpose::Command => orders::serve(wire, &shared.gate, &shared.stop),
    }
}

/// The number that a connection's permits are bound to: drawn, so that no two connections of any daemons share one.
fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(u64::from_be_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use callgate_credentials::Stores;

    use super::*;
    use crate::config::Config;
    use crate::environment::Environment;
    use crate::home::Home;

    #[test]
    fn a_connection_whose_thread_panics_is_counted_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let at = Some(folder.path().to_owned());
        let home = Home::find(&Environment { callgate_home: at, ..Environment::default() }).unwrap();
        let config = Config::load(&home.config_file()).unwrap();
        let shared = Arc::new(Shared {
            gate: {
                let stores = Stores::new(home.sealed_file(), None).unwrap();
                Arc::new(Gate::new(home, config, None, stores))
            },
            stop: tokio::sync::mpsc::channel(1).0,
            stopping: AtomicBool::new(false),
            next: AtomicU64::new(1),
            open: Mutex::default(),
        });
        let (stream, _other_end) = UnixStream::pair().unwrap();
        lock(&shared.open).insert(7, Open { stream, thread: thread::spawn(|| ()) });
        let panicking = Arc::clone(&shared);
        let ended = thread::spawn(move || {
            let _connection = Connection { number: 7, shared: panicking };
            panic!("as a fault of ours would");
        });
        assert!(ended.join().is_err());
        assert!(lock(&shared.open).is_empty());
    }
}
