//! `callgate run`: the relay. From here on stdout is MCP and nothing else.

use std::io;
use std::path::PathBuf;

use callgate_core::identity::SessionId;
use callgate_relay::{Daemon, Error as RelayError};
use callgate_stdio::detached::Detached;

use crate::BUILD;
use crate::cli::Run;
use crate::config::Config;
use crate::failure::{Exit, Failure, Outcome};
use crate::home::Home;
use crate::{launch, lock};

pub(super) fn run(run: Run, home: Home) -> Outcome {
    let config = Config::load(&home.config_file())?;
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).map_err(|error| Failure::environment(format!("no randomness to be had: {error}")))?;
    let exit = callgate_relay::run(callgate_relay::Config {
        server: run.server,
        command: run.command,
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
