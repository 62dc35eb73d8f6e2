//! What can be wrong with a store, in words and with a way out.

/// Why a store does not give or take a secret.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Trouble {
    /// It is locked, and nobody unlocked it.
    #[error("the system's secret store is locked")]
    Locked,
    /// There is no session bus to reach it by.
    #[error("there is no session bus, by which the system's secret store would be reached")]
    NoBus,
    /// Nobody on the bus keeps secrets.
    #[error("no program that keeps secrets runs on the session bus")]
    NoDaemon,
    /// It says no.
    #[error("the system's secret store denies access: {0}")]
    Denied(String),
    /// It does not answer.
    #[error("the system's secret store does not answer")]
    Hangs,
    /// This build knows no store of this system.
    #[error("this build knows no secret store of this system")]
    Unsupported,
    /// Something else.
    #[error("the system's secret store failed: {0}")]
    Failed(String),
    /// The sealed file's key is not known.
    #[error("the sealed file is locked: its passphrase was not given since the daemon started")]
    SealedLocked,
    /// The key is another one.
    #[error("this is not the passphrase or key of the sealed file")]
    WrongKey,
    /// The sealed file, or a record in it, is not what was written.
    #[error("the sealed file is damaged: {0}")]
    Damaged(String),
    /// There is no sealed file.
    #[error("there is no sealed file")]
    Absent,
    /// There is one.
    #[error("there is a sealed file already")]
    AlreadyThere,
    /// The key is too short to protect anything.
    #[error("a passphrase or key has to have at least {0} bytes")]
    ShortKey(usize),
    /// A key was to be given, and none was.
    #[error("the daemon was given no key for the sealed file")]
    NoGivenKey,
    /// The sealed file cannot be read or written.
    #[error("cannot use the sealed file: {0}")]
    File(String),
}

/// The ways to a store where the system has none that can be used.
const REMEDIES: &str = "start or unlock the desktop's secret store; or keep credentials in a sealed file: callgate credential store init --sealed-file; or, without a person, \
     seal it with the systemd credential callgate-key";

impl Trouble {
    /// A word for scripts, `status` and `doctor`.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Locked | Self::SealedLocked => "locked",
            Self::NoBus => "no-bus",
            Self::NoDaemon => "no-daemon",
            Self::Denied(_) | Self::WrongKey => "denied",
            Self::Hangs => "hangs",
            Self::Unsupported => "unsupported",
            Self::Damaged(_) => "damaged",
            Self::Absent => "absent",
            Self::Failed(_) | Self::AlreadyThere | Self::ShortKey(_) | Self::NoGivenKey | Self::File(_) => "failed",
        }
    }

    /// The next step.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Locked
            | Self::NoBus
            | Self::NoDaemon
            | Self::Denied(_)
            | Self::Hangs
            | Self::Unsupported
            | Self::Failed(_) => REMEDIES,
            Self::SealedLocked => "callgate credential store unlock",
            Self::WrongKey => "try again; without it the secrets in the file are lost and have to be set anew",
            Self::Damaged(_) => "put the file back from a backup, or move it away and set the credentials anew",
            Self::Absent => "callgate credential store init --sealed-file",
            Self::AlreadyThere => "to begin anew, move it away: the secrets in it are then gone",
            Self::ShortKey(_) => "take a longer one: it is all that protects the file",
            Self::NoGivenKey => {
                "run the daemon as a systemd service with LoadCredentialEncrypted=callgate-key:…, or give a passphrase"
            }
            Self::File(_) => "check that the file and its folder belong to this user",
        }
    }
}
