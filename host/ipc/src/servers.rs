//! What is said about registered servers and their credentials. A secret travels raw, beside the head, and in no other message;
//! a value that may hold one has no `Debug`.

use callgate_core::identity::{Server, ServerName};
use callgate_core::secret::Secret;
use callgate_core::server::{StoreKind, VariableName};
use serde::{Deserialize, Serialize};
use zeroize::Zeroize;

use crate::frame::{Malformed, Message};
use crate::message::Fault;

/// Secrets in their order, as one run of bytes.
#[derive(Default, Serialize, Deserialize)]
pub struct Secrets {
    /// How long each is.
    lengths: Vec<usize>,
    #[serde(skip)]
    bytes: Secret,
}

impl Secrets {
    /// Copies secrets, to be sent.
    pub fn of(secrets: &[Secret]) -> Self {
        let lengths: Vec<usize> = secrets.iter().map(|secret| secret.expose().len()).collect();
        // As long as it will get, so that it never moves and leaves a copy behind.
        let mut bytes = Vec::with_capacity(lengths.iter().sum());
        for secret in secrets {
            bytes.extend_from_slice(secret.expose());
        }
        Self { lengths, bytes: Secret::new(bytes) }
    }

    /// Each by itself. `None` when the lengths are not those of the bytes.
    pub fn apart(&self) -> Option<Vec<Secret>> {
        let mut rest = self.bytes.expose();
        let mut apart = Vec::with_capacity(self.lengths.len());
        for length in &self.lengths {
            let (secret, after) = rest.split_at_checked(*length)?;
            apart.push(Secret::copied(secret));
            rest = after;
        }
        rest.is_empty().then_some(apart)
    }
}

/// What is asked on a connection about servers.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServersCommand {
    /// Registers a server.
    Add(AddServer),
    /// Registers a server no more, and removes its credentials.
    Remove(ServerName),
    /// Sets one credential.
    SetCredential(SetCredential),
    /// Removes one credential.
    RemoveCredential {
        /// The server.
        server: ServerName,
        /// The variable.
        variable: VariableName,
    },
    /// How the stores are.
    StoreStatus,
    /// Makes a sealed file, under a passphrase or, when it is empty, under the key that the daemon was given.
    InitSealedFile(Secrets),
    /// Opens the sealed file.
    Unlock(Secrets),
    /// What a relay is to start for a server.
    Launch(ServerName),
}

/// A server to be registered.
#[derive(Serialize, Deserialize)]
pub struct AddServer {
    /// Its name.
    pub name: ServerName,
    /// Its command.
    pub command: Vec<String>,
    /// The variables that come from credentials.
    pub env: Vec<VariableName>,
    /// Their values, in the same order.
    pub values: Secrets,
}

/// A credential to be set.
#[derive(Serialize, Deserialize)]
pub struct SetCredential {
    /// The server.
    pub server: ServerName,
    /// The variable.
    pub variable: VariableName,
    /// Its value: one.
    pub value: Secrets,
}

/// What is answered.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServersReply {
    /// It was done, and these entries say so.
    Done {
        /// The journal's entries.
        entries: Vec<u64>,
        /// Where the secrets are kept now, where there are any.
        store: Option<StoreKind>,
        /// What a person should look at.
        warnings: Vec<String>,
    },
    /// How the stores are.
    Stores(StoreStates),
    /// What to start.
    Launch(Launch),
    /// No server of this name is registered.
    NotRegistered,
    /// The server is not to be started.
    NotLaunched {
        /// Why, as a sentence.
        message: String,
    },
    /// It was not done.
    Failed {
        /// What failed, as a sentence.
        message: String,
        /// The next step.
        hint: Option<String>,
        /// Whose fault it is.
        fault: Fault,
    },
}

/// What a relay starts for a registered server, with all that only this one child's environment may hold.
#[derive(Serialize, Deserialize)]
pub struct Launch {
    /// The server.
    pub server: Server,
    /// Its registered command.
    pub command: Vec<String>,
    /// The variables that come from credentials.
    pub env: Vec<VariableName>,
    /// Their values, in the same order.
    pub values: Secrets,
}

/// How the stores are.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StoreStates {
    /// Where a credential that is set now is kept.
    pub in_use: StoreKind,
    /// The stores.
    pub stores: Vec<StoreState>,
}

/// How one store is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StoreState {
    /// Which.
    pub store: StoreKind,
    /// A word: `ok`, `locked`, `no-bus`, `no-daemon`, `denied`, `hangs`, `unsupported`, `damaged`, `failed` or `absent`.
    pub state: String,
    /// The same as a sentence; absent where it is ok.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The next step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl ServersCommand {
    fn secrets(&mut self) -> Option<&mut Secrets> {
        match self {
            Self::Add(add) => Some(&mut add.values),
            Self::SetCredential(set) => Some(&mut set.value),
            Self::InitSealedFile(secrets) | Self::Unlock(secrets) => Some(secrets),
            Self::Remove(_) | Self::RemoveCredential { .. } | Self::StoreStatus | Self::Launch(_) => None,
        }
    }
}

impl Message for ServersCommand {
    fn tail(&self) -> &[u8] {
        match self {
            Self::Add(add) => add.values.bytes.expose(),
            Self::SetCredential(set) => set.value.bytes.expose(),
            Self::InitSealedFile(secrets) | Self::Unlock(secrets) => secrets.bytes.expose(),
            Self::Remove(_) | Self::RemoveCredential { .. } | Self::StoreStatus | Self::Launch(_) => &[],
        }
    }

    fn attach(mut self, tail: &[u8]) -> Result<Self, Malformed> {
        attach(self.secrets(), tail)?;
        Ok(self)
    }
}

impl Message for ServersReply {
    fn tail(&self) -> &[u8] {
        match self {
            Self::Launch(launch) => launch.values.bytes.expose(),
            Self::Done { .. }
            | Self::Stores(_)
            | Self::NotRegistered
            | Self::NotLaunched { .. }
            | Self::Failed { .. } => &[],
        }
    }

    fn attach(mut self, tail: &[u8]) -> Result<Self, Malformed> {
        let secrets = match &mut self {
            Self::Launch(launch) => Some(&mut launch.values),
            Self::Done { .. }
            | Self::Stores(_)
            | Self::NotRegistered
            | Self::NotLaunched { .. }
            | Self::Failed { .. } => None,
        };
        attach(secrets, tail)?;
        Ok(self)
    }
}

fn attach(secrets: Option<&mut Secrets>, tail: &[u8]) -> Result<(), Malformed> {
    let Some(secrets) = secrets else {
        return if tail.is_empty() { Ok(()) } else { Err(Malformed::Tail("it has none")) };
    };
    secrets.bytes = Secret::copied(tail);
    if secrets.apart().is_some() { Ok(()) } else { Err(Malformed::Tail("secrets of the lengths that were said")) }
}

/// Wipes a buffer that a secret went through.
pub fn wipe(buffer: &mut Vec<u8>) {
    buffer.zeroize();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame;

    fn launch(values: &[Secret]) -> ServersReply {
        let server = Server { id: "srv_1".to_owned(), name: "github".parse().unwrap() };
        let env = vec!["A".parse().unwrap(), "B".parse().unwrap()];
        ServersReply::Launch(Launch { server, command: vec!["npx".to_owned()], env, values: Secrets::of(values) })
    }

    #[test]
    fn secrets_travel_beside_the_head_and_come_apart_again() {
        let mut bytes = Vec::new();
        frame::encode(&launch(&[Secret::copied(b"one\xff"), Secret::copied(b"")]), &mut bytes).unwrap();
        let (reply, taken) = frame::decode::<ServersReply>(&bytes).unwrap().unwrap();
        let ServersReply::Launch(launch) = reply else { panic!("another reply") };
        let values: Vec<Vec<u8>> = launch.values.apart().unwrap().iter().map(|value| value.expose().to_vec()).collect();
        assert_eq!((taken, values), (bytes.len(), vec![b"one\xff".to_vec(), Vec::new()]));
        assert!(bytes.ends_with(b"}one\xff"), "the head ends where the secrets begin");
    }

    #[test]
    fn secrets_of_other_lengths_are_no_message() {
        let mut bytes = Vec::new();
        frame::encode(&launch(&[Secret::copied(b"one")]), &mut bytes).unwrap();
        bytes.push(b'x');
        let length = u32::try_from(bytes.len() - 4).unwrap().to_be_bytes();
        bytes[..4].copy_from_slice(&length);
        assert!(frame::decode::<ServersReply>(&bytes).is_err());
    }
}
