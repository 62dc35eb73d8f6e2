//! `callgate run`: the relay. From here on stdout is MCP and nothing else.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use callgate_core::code::Code;
use callgate_core::identity::{ServerName, SessionId};
use callgate_core::refusal::Reason;
use callgate_core::secret::Secret;
use callgate_core::server::ServerId;
use callgate_core::verdict::Retry;
use callgate_ipc::servers::{Launch, ServersCommand, ServersReply};
use callgate_relay::{Daemon, Error as RelayError};
use callgate_stdio::detached::Detached;

use crate::BUILD;
use crate::cli::Run;
use crate::client::Client;
use crate::config::Config;
use crate::failure::{Exit, Failure, Outcome};
use crate::home::Home;
use crate::{launch, lock, output};

/// How long the daemon may take to say what to start: the store's own deadline, and a little for the way.
const LAUNCH_TIMEOUT: Duration = Duration::from_secs(6);

pub(super) fn run(run: Run, home: Home) -> Outcome {
    let config = Config::load(&home.config_file())?;
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).map_err(|error| Failure::environment(format!("no randomness to be had: {error}")))?;
    let start = match Start::find(&home, &run.server, run.command) {
        Ok(start) => start,
        Err(Declined { reason, exit }) => {
            output::tell(&format!("error: the server {} is not started: {}", run.server, reason.message));
            callgate_relay::decline(&reason, config.relay.frame_bytes_max).map_err(|error| not_run(&error))?;
            return Ok(exit);
        }
    };
    let exit = callgate_relay::run(callgate_relay::Config {
        server: run.server,
        command: start.command,
        secrets: start.secrets,
        registered: start.registered,
        claim: run.agent,
        frame_bytes_max: config.relay.frame_bytes_max,
        decision_deadline: config.relay.decision_deadline,
        build: BUILD.to_owned(),
        session: SessionId::from_random(bits),
        daemon: OnDemand(home),
    });
    match exit {
        Ok(exit) => Ok(Exit::Server(exit.code)),
        Err(error) => Err(not_run(&error)),
    }
}

/// What is started.
struct Start {
    command: Vec<OsString>,
    secrets: Vec<(OsString, Secret)>,
    registered: Option<ServerId>,
}

/// Why nothing is started.
struct Declined {
    reason: Reason,
    exit: Exit,
}

impl Start {
    /// The registered command of a registered server, else the given one. Only who is registered, or gave no command, waits for
    /// the daemon.
    fn find(home: &Home, name: &ServerName, given: Vec<OsString>) -> Result<Self, Declined> {
        if !given.is_empty() && !is_registered(home, name) {
            return Ok(Self::given(given));
        }
        match ask(home, name) {
            Ok(ServersReply::Launch(launch)) => Self::registered(launch, &given),
            Ok(ServersReply::NotRegistered) if given.is_empty() => {
                let message = format!(
                    "no server named {name} is registered, and no command was given; callgate server add {name} registers one"
                );
                Err(Declined { reason: Reason::of(Code::ServerUnregistered, message, Retry::Never), exit: Exit::Usage })
            }
            Ok(ServersReply::NotRegistered) => Ok(Self::given(given)),
            Ok(ServersReply::NotLaunched { message }) => Err(declined(Code::CredentialUnavailable, message)),
            Ok(ServersReply::Done { .. } | ServersReply::Stores(_) | ServersReply::Failed { .. }) => {
                Err(declined(Code::DaemonUnreachable, "the daemon answered another question".to_owned()))
            }
            Err(Failure { message, hint, .. }) => {
                let hint = hint.map(|hint| format!(" (hint: {hint})")).unwrap_or_default();
                Err(declined(Code::DaemonUnreachable, format!("its registration cannot be read: {message}{hint}")))
            }
        }
    }

    const fn given(command: Vec<OsString>) -> Self {
        Self { command, secrets: Vec::new(), registered: None }
    }

    fn registered(launch: Launch, given: &[OsString]) -> Result<Self, Declined> {
        let Launch { server, command, env, values } = launch;
        let command: Vec<OsString> = command.into_iter().map(OsString::from).collect();
        if !given.is_empty() && *given != *command {
            output::tell(&format!(
                "notice: {} is a registered server: its registered command is started, and the one given here is ignored",
                server.name
            ));
        }
        let values = values.apart().filter(|values| values.len() == env.len());
        let registered = ServerId::try_from(server.id).ok();
        let (Some(values), Some(registered)) = (values, registered) else {
            return Err(declined(Code::ReplyMismatch, "the daemon's answer is not one about this server".to_owned()));
        };
        let secrets = env.into_iter().map(|name| OsString::from(String::from(name))).zip(values).collect();
        Ok(Self { command, secrets, registered: Some(registered) })
    }
}

/// Whether the daemon last said that a server of this name is registered. A list that cannot be read says that every one is: then
/// the daemon is asked.
fn is_registered(home: &Home, name: &ServerName) -> bool {
    match std::fs::read_to_string(home.registered_names()) {
        Ok(names) => names.lines().any(|registered| registered == name.as_str()),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

fn ask(home: &Home, name: &ServerName) -> Result<ServersReply, Failure> {
    Client::connect_about_servers(home)?.ask_about_servers_within(&ServersCommand::Launch(name.clone()), LAUNCH_TIMEOUT)
}

fn declined(code: Code, message: String) -> Declined {
    Declined { reason: Reason::of(code, message, Retry::Later), exit: Exit::Environment }
}

fn not_run(error: &RelayError) -> Failure {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    let failure = Failure { exit: Exit::Server(error.exit_code()), message: format!("{error}{cause}"), hint: None };
    match error {
        RelayError::Spawn(_) => failure.hint("what follows `--` is started as it stands, without a shell"),
        RelayError::Setup(_) | RelayError::Streams(_) => failure,
    }
}

/// The daemon as the relay sees it: found through the lock, started when there is none.
struct OnDemand(Home);

impl Daemon for OnDemand {
    fn socket(&self) -> io::Result<Option<PathBuf>> {
        // A socket that nobody can bind is said to be the trouble, rather than that no daemon came.
        self.0.socket().map_err(|failure| io::Error::other(failure.message))?;
        // Whether anybody listens there is found out by connecting. To look at the lock would take it for a moment, and with
        // many relays looking a daemon that starts might not get it.
        Ok(lock::announced(&self.0.lock_file()).map(|announcement| announcement.socket))
    }

    fn start(&self) -> io::Result<Detached> {
        launch::spawn(&self.0).map_err(|failure| io::Error::other(failure.message))
    }
}
