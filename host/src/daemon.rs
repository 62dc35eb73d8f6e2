//! The daemon: one process a user that decides, journals and, later, holds secrets. Wires the crates; decides nothing.

mod clock;
mod gate;
mod identity;
mod log_file;
mod orders;
mod plugins;
mod policies;
mod server;
mod servers;
mod session;

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval};

use crate::BUILD;
use crate::config::Config;
use crate::environment::Environment;
use crate::failure::{Exit, Failure, Outcome};
use crate::home::{Home, PRIVATE_FILE_MODE};
use crate::lock::{self, Announcement, Lock};
use crate::stores;

use self::gate::Gate;
use self::log_file::LogFile;
use self::server::Server;

/// How often the daemon looks whether its socket is still where it is looked for. Until it finds that it is not, whoever
/// comes is refused.
const SOCKET_LOOKED_AT_EVERY: Duration = Duration::from_secs(1);

/// Serves until it is told to stop. Listens before it compiles, so that whoever comes meanwhile waits instead of failing.
pub(crate) fn serve(home: &Home, environment: &Environment, detached: bool) -> Outcome {
    home.prepare()?;
    start_log(home, environment, detached)?;
    if detached {
        // Away from the terminal and the process group of whoever needed it first.
        rustix::process::setsid()
            .map_err(|error| Failure::environment(format!("cannot leave the session: {error}")))?;
    }
    let served = serve_here(home, environment);
    if detached && let Err(failure) = &served {
        // Nobody reads its stderr; `callgate daemon start` shows this line of the log.
        log::error!("{failure}");
    }
    served
}

fn serve_here(home: &Home, environment: &Environment) -> Outcome {
    keep_memory_off_disk();
    let config = Config::load(&home.config_file())?;
    let mut lock = take_lock(home)?;
    let socket = Socket::bind(home.socket()?)?;
    announce(&mut lock, home, &socket)?;

    let (stop, stopped) = tokio::sync::mpsc::channel(1);
    let gate = Arc::new(Gate::new(home.clone(), config, environment.path.clone(), stores::of(home, environment)?));
    let server = Server::start(&socket.listener, &gate, stop)?;
    gate.open();
    log::info!("serving: build {BUILD}, socket {}", socket.path.display());
    let why = wait(&socket, stopped)?;
    log::info!("stopping: {why}");
    server.stop();
    gate.close();
    Ok(Exit::Done)
}

/// Secrets are in our memory, so no picture of it is ever written. A limit of one byte is what the kernel also heeds for a program
/// that would take the picture through a pipe; of none, it does not.
///
/// That other processes of this user may not look into our memory either is not asked for (`PR_SET_DUMPABLE`): it would hide
/// which program we run from the relays that check it.
fn keep_memory_off_disk() {
    let limit = Rlimit { current: Some(1), maximum: Some(1) };
    if let Err(error) = setrlimit(Resource::Core, limit) {
        log::warn!("a crash might write the memory to the disk: {error}");
    }
}

fn start_log(home: &Home, environment: &Environment, detached: bool) -> Result<(), Failure> {
    let level = environment.log.as_deref().unwrap_or("info");
    let level: log::LevelFilter = level.parse().map_err(|_| {
        Failure::usage(format!("CALLGATE_LOG is {level:?}")).hint("it can be off, error, warn, info, debug or trace")
    })?;
    let mut builder = env_logger::Builder::new();
    builder.filter_level(level).format_target(false);
    if detached {
        let path = home.daemon_log();
        let file = LogFile::open(&path)
            .map_err(|error| Failure::environment(format!("cannot write {}: {error}", path.display())))?;
        builder.target(env_logger::Target::Pipe(Box::new(file)));
    }
    builder.init();
    Ok(())
}

fn take_lock(home: &Home) -> Result<Lock, Failure> {
    let path = home.lock_file();
    match Lock::take(&path) {
        Ok(Some(lock)) => Ok(lock),
        Ok(None) => {
            let pid = lock::announced(&path).map(|other| format!(" (pid {})", other.pid)).unwrap_or_default();
            Err(Failure::environment(format!("another daemon{pid} serves this home already"))
                .hint("callgate daemon status"))
        }
        Err(error) => Err(Failure::environment(format!("cannot lock {}: {error}", path.display()))),
    }
}

fn announce(lock: &mut Lock, home: &Home, socket: &Socket) -> Result<(), Failure> {
    let announcement = Announcement { pid: std::process::id(), build: BUILD.to_owned(), socket: socket.path.clone() };
    lock.announce(&announcement)
        .map_err(|error| Failure::environment(format!("cannot write {}: {error}", home.lock_file().display())))
}

/// Waits for a signal, for a command to stop, or until nobody can find the daemon any more, and says which it was. A daemon
/// that cannot be found would keep the lock, and with it every other from serving.
fn wait(socket: &Socket, mut stopped: tokio::sync::mpsc::Receiver<()>) -> Result<&'static str, Failure> {
    let failed = |error: io::Error| Failure::internal(format!("cannot wait for signals: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().map_err(failed)?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut hang_up = signal(SignalKind::hangup()).map_err(failed)?;
        Ok(tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
            _ = hang_up.recv() => "SIGHUP",
            _ = stopped.recv() => "asked to",
            () = lost(socket) => "the socket is gone",
        })
    })
}

/// Ends when the socket's path no longer leads to it.
async fn lost(socket: &Socket) {
    let mut look = interval(SOCKET_LOOKED_AT_EVERY);
    // A machine that slept does not look once for every second of it.
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while socket.is_in_place() {
        look.tick().await;
    }
}

/// The listening socket; its file goes when it does.
struct Socket {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the file.
    file: (u64, u64),
}

impl Socket {
    /// Listens at `path`. Whoever holds the lock may take the place of a socket that a dead daemon left.
    fn bind(path: PathBuf) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::environment(format!("cannot listen at {}: {error}", path.display()));
        remove_stale(&path).map_err(failed)?;
        let listener = UnixListener::bind(&path).map_err(failed)?;
        callgate_identity::name_senders(&listener).map_err(failed)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(PRIVATE_FILE_MODE)).map_err(failed)?;
        let file = identity(&path).map_err(failed)?;
        Ok(Self { listener, path, file })
    }

    fn is_in_place(&self) -> bool {
        identity(&self.path).is_ok_and(|file| file == self.file)
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Left behind, it does no harm: the next daemon takes its place. Another's is not ours to remove.
        if self.is_in_place() {
            fs::remove_file(&self.path).ok();
        }
    }
}

fn remove_stale(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
