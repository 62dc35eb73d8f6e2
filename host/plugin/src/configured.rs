//! A plugin with settings: what the chain asks.

use std::sync::Arc;

use callgate_core::call::Call;
use callgate_core::digest::Digest;
use callgate_core::evaluate::Member;
use callgate_core::verdict::{Answer, Failure};

use crate::breaker::{Breakers, OpenBreaker};
use crate::instance::Unconfigured;
use crate::load::Plugin;
use crate::pool::{Life, Pool};
use crate::settings::{Refused, SettingsWarning};

/// Why settings are not in force. Those that were before still are.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConfigureError {
    /// The plugin refuses them.
    #[error("{0}")]
    Refused(Refused),
    /// The plugin failed on them.
    #[error("{0}")]
    Failed(Failure),
    /// They are larger than a plugin is given.
    #[error("the settings take {bytes} bytes, more than the {bytes_max} that a plugin is given")]
    TooLarge {
        /// What they take.
        bytes: usize,
        /// The limit in force.
        bytes_max: usize,
    },
}

/// A plugin with its settings. Cheap to clone; may be asked from many threads at once.
#[derive(Clone)]
pub struct Configured {
    pool: Arc<Pool>,
    breakers: Arc<Breakers>,
    member: Member,
    warnings: Arc<[SettingsWarning]>,
}

/// What came of asking a plugin once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Measured {
    /// Its answer, or why there is none.
    pub outcome: Result<Answer, Failure>,
    /// The fuel that it took; 0 when it was never asked.
    pub fuel: u64,
}

impl Plugin {
    /// Gives an instance called `name` its settings, JSON text; `{}` for none.
    pub fn configure(&self, name: &str, settings: &str, life: Life) -> Result<Configured, ConfigureError> {
        let bytes_max = self.0.limits.settings_bytes;
        if settings.len() > bytes_max {
            return Err(ConfigureError::TooLarge { bytes: settings.len(), bytes_max });
        }
        let member =
            Member { plugin: name.to_owned(), component: self.digest(), settings: Digest::of(settings.as_bytes()) };
        let (pool, warnings) =
            Pool::new(Arc::clone(&self.0), name.to_owned(), settings.to_owned(), life).map_err(|unconfigured| {
                match unconfigured {
                    Unconfigured::Refused(refused) => ConfigureError::Refused(refused),
                    Unconfigured::Failed(failure) => ConfigureError::Failed(failure),
                }
            })?;
        Ok(Configured { pool, breakers: Arc::default(), member, warnings: warnings.into() })
    }
}

impl Configured {
    /// What the plugin says of a call. A plugin without the call hook abstains. Runs on the calling thread and needs 1 MiB of
    /// its stack. Where it failed too often for the call's agent it is not asked, and neither where it is kept
    /// ([`Life::Kept`]) and gave an answer to the same caller and tool that holds whatever the arguments.
    pub fn decide(&self, call: &Call) -> Result<Answer, Failure> {
        let agent = call.caller.agent.as_ref();
        self.breakers.check(agent)?;
        let outcome = self.pool.decide(call);
        // An answer that was given again counts like any other: what is weighed is how many of an agent's calls fail.
        self.breakers.note(agent, &outcome);
        outcome
    }

    /// What the plugin would say of a call that nobody makes: whether it fails is not held against it, nor for it. It is asked
    /// in any case, so that a person hears its own words and not those of an earlier call.
    pub fn imagine(&self, call: &Call) -> Result<Answer, Failure> {
        self.breakers.look(call.caller.agent.as_ref())?;
        self.pool.ask(call).map(|said| said.answer)
    }

    /// For whom it is not asked any more.
    pub fn open_breakers(&self) -> Vec<OpenBreaker> {
        self.breakers.open()
    }

    /// Asks it again for everybody; for how many agents it was not asked any more.
    pub fn reset(&self) -> usize {
        self.breakers.reset()
    }

    /// What the plugin says of a call, and what it took. Asks a fresh instance and nothing that was kept.
    pub fn measure(&self, call: &Call) -> Measured {
        let (outcome, fuel) = self.pool.measure(call);
        Measured { outcome, fuel }
    }

    /// Whether the other is a clone of this one.
    pub(crate) fn is_the_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.pool, &other.pool)
    }

    /// Who it is: its name, and the digests of its component and its settings.
    pub fn member(&self) -> &Member {
        &self.member
    }

    /// What a person should look at in its settings.
    pub fn warnings(&self) -> &[SettingsWarning] {
        &self.warnings
    }
}

impl std::fmt::Debug for Configured {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Configured").field("member", &self.member).finish_non_exhaustive()
    }
}
