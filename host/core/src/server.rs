//! Registered servers and their credentials as values: what the journal stores, and what the daemon starts from.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::entry::{Draft, Kind};
use crate::identity::{BadName, Server, ServerName, id};

/// How many servers may be registered: a person has a few dozen.
pub const SERVERS_MAX: usize = 256;
/// How many variables one server may have from credentials.
pub const VARIABLES_MAX: usize = 16;
/// The longest command, bytes, all its words together.
pub const COMMAND_BYTES_MAX: usize = 64 * 1024;
/// The longest name of a variable, bytes.
const VARIABLE_BYTES_MAX: usize = 128;

id!(
    /// A registered server, for good. A name can be given again, an id never is.
    ServerId,
    "srv_",
    "server id"
);

/// The name of an environment variable, as shells take it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct VariableName(String);

impl VariableName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for VariableName {
    type Error = BadName;

    fn try_from(name: String) -> Result<Self, BadName> {
        let is_first = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
        let good = name.len() <= VARIABLE_BYTES_MAX
            && name.bytes().next().is_some_and(is_first)
            && name.bytes().all(|byte| is_first(byte) || byte.is_ascii_digit());
        if good {
            return Ok(Self(name));
        }
        // Whoever writes `--env TOKEN=value` has put the value where every process can read it; it is not repeated here.
        let name = name.split('=').next().unwrap_or_default().to_owned();
        let expected = "letters, digits and `_`, not a digit first, and no value: that is read from stdin";
        Err(BadName { kind: "variable's name", name, expected })
    }
}

impl std::str::FromStr for VariableName {
    type Err = BadName;

    fn from_str(name: &str) -> Result<Self, BadName> {
        Self::try_from(name.to_owned())
    }
}

impl From<VariableName> for String {
    fn from(name: VariableName) -> Self {
        name.0
    }
}

impl fmt::Display for VariableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A registered server: a name, and the one command that its credentials are for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerEntry {
    /// Which it is, for good.
    pub id: ServerId,
    /// What rules and clients name.
    pub name: ServerName,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The variables that come from credentials. It is not started unless each of them has one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<VariableName>,
}

impl ServerEntry {
    /// As decisions name it.
    pub fn as_server(&self) -> Server {
        Server { id: self.id.to_string(), name: self.name.clone() }
    }
}

/// Where a secret is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StoreKind {
    /// The operating system's store of the user.
    System,
    /// The sealed file.
    SealedFile,
}

impl StoreKind {
    /// As it is stored, and as scripts see it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::SealedFile => "sealed-file",
        }
    }
}

impl fmt::Display for StoreKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::System => "the system's secret store",
            Self::SealedFile => "the sealed file",
        })
    }
}

/// That a server has a credential, and where; never what it is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credential {
    /// The server whose command it is for.
    pub server: ServerId,
    /// The variable that it is given in.
    pub variable: VariableName,
    /// Where it is kept.
    pub store: StoreKind,
}

impl Credential {
    /// What its secret is called in a store. Made of the id, so that a server that gets a used name gets no used secret.
    pub fn store_name(server: &ServerId, variable: &VariableName) -> String {
        format!("server/{server}/{variable}")
    }
}

/// The body of a [`Kind::ServerAdd`] and a [`Kind::ServerRemove`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ServerBody {
    /// The server.
    pub server: ServerEntry,
}

/// The body of a [`Kind::CredentialSet`] and a [`Kind::CredentialRemove`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CredentialBody {
    /// The server.
    pub server: Server,
    /// The variable.
    pub variable: VariableName,
    /// Where the secret is kept, or was.
    pub store: StoreKind,
}

/// One change of the registry: an entry of the journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ServerStep {
    /// A server is registered.
    Add(ServerEntry),
    /// A server is registered no more. Its credentials went before.
    Remove(ServerEntry),
    /// A credential is there from now on, or another one in its place.
    SetCredential(CredentialBody),
    /// A credential is there no more.
    RemoveCredential(CredentialBody),
}

impl ServerStep {
    /// The step as an entry of the journal.
    pub fn draft(&self) -> Draft {
        let server = |server: &ServerEntry| ServerBody { server: server.clone() };
        match self {
            Self::Add(added) => Draft::of(Kind::ServerAdd, &server(added)),
            Self::Remove(removed) => Draft::of(Kind::ServerRemove, &server(removed)),
            Self::SetCredential(body) => Draft::of(Kind::CredentialSet, body),
            Self::RemoveCredential(body) => Draft::of(Kind::CredentialRemove, body),
        }
    }
}

/// A registry does not admit a step.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotAdmitted {
    /// The name is taken.
    #[error("there is a server named {0} already")]
    NameTaken(ServerName),
    /// The id is taken, which no daemon ever asks for.
    #[error("there is a server with the id {0} already")]
    IdTaken(ServerId),
    /// There are as many as there may be.
    #[error("{SERVERS_MAX} servers are registered, the most there may be")]
    Full,
    /// There is no such server.
    #[error("no server named {0} is registered")]
    NoServer(ServerName),
    /// It still has credentials, which no daemon ever asks for.
    #[error("the server {0} still has credentials")]
    StillHasCredentials(ServerName),
    /// The server's registration does not have the variable.
    #[error("the server {server} is registered without a variable {variable}")]
    NoVariable {
        /// The server.
        server: ServerName,
        /// The variable.
        variable: VariableName,
    },
    /// There is no such credential.
    #[error("the server {server} has no credential {variable}")]
    NoCredential {
        /// The server.
        server: ServerName,
        /// The variable.
        variable: VariableName,
    },
}

/// The registered servers, in the order in which they were added, and their credentials.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Registry {
    /// The servers.
    pub servers: Vec<ServerEntry>,
    /// The credentials.
    pub credentials: Vec<Credential>,
}

impl Registry {
    /// The server of this name.
    pub fn named(&self, name: &ServerName) -> Option<&ServerEntry> {
        self.servers.iter().find(|server| server.name == *name)
    }

    /// The credential of a server in this variable.
    pub fn credential(&self, server: &ServerId, variable: &VariableName) -> Option<&Credential> {
        self.credentials.iter().find(|there| there.server == *server && there.variable == *variable)
    }

    /// The credentials of a server.
    pub fn credentials_of<'a>(&'a self, server: &'a ServerId) -> impl Iterator<Item = &'a Credential> {
        self.credentials.iter().filter(move |there| there.server == *server)
    }

    /// Takes a step, or refuses it and stays as it is.
    pub fn apply(&mut self, step: &ServerStep) -> Result<(), NotAdmitted> {
        match step {
            ServerStep::Add(server) => self.add(server),
            ServerStep::Remove(server) => self.remove(server),
            ServerStep::SetCredential(body) => {
                let credential = self.belonging(body)?;
                self.credentials.retain(|there| !same(there, &credential));
                self.credentials.push(credential);
                Ok(())
            }
            ServerStep::RemoveCredential(body) => {
                let credential = self.belonging(body)?;
                let place = self.credentials.iter().position(|there| *there == credential);
                let place = place.ok_or_else(|| NotAdmitted::NoCredential {
                    server: body.server.name.clone(),
                    variable: body.variable.clone(),
                })?;
                self.credentials.remove(place);
                Ok(())
            }
        }
    }

    fn add(&mut self, server: &ServerEntry) -> Result<(), NotAdmitted> {
        if self.named(&server.name).is_some() {
            return Err(NotAdmitted::NameTaken(server.name.clone()));
        }
        if self.servers.iter().any(|there| there.id == server.id) {
            return Err(NotAdmitted::IdTaken(server.id.clone()));
        }
        if self.servers.len() >= SERVERS_MAX {
            return Err(NotAdmitted::Full);
        }
        self.servers.push(server.clone());
        Ok(())
    }

    fn remove(&mut self, server: &ServerEntry) -> Result<(), NotAdmitted> {
        let place = self.servers.iter().position(|there| there == server);
        let place = place.ok_or_else(|| NotAdmitted::NoServer(server.name.clone()))?;
        if self.credentials_of(&server.id).next().is_some() {
            return Err(NotAdmitted::StillHasCredentials(server.name.clone()));
        }
        self.servers.remove(place);
        Ok(())
    }

    /// The credential that a body is about, if it is one of a server's variables.
    fn belonging(&self, body: &CredentialBody) -> Result<Credential, NotAdmitted> {
        let CredentialBody { server, variable, store } = body;
        let there = self.servers.iter().find(|there| there.as_server() == *server);
        let there = there.ok_or_else(|| NotAdmitted::NoServer(server.name.clone()))?;
        if !there.env.contains(variable) {
            return Err(NotAdmitted::NoVariable { server: server.name.clone(), variable: variable.clone() });
        }
        Ok(Credential { server: there.id.clone(), variable: variable.clone(), store: *store })
    }
}

fn same(one: &Credential, other: &Credential) -> bool {
    one.server == other.server && one.variable == other.variable
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(id: u8, name: &str) -> ServerEntry {
        ServerEntry {
            id: ServerId::from_random([id; 16]),
            name: name.parse().unwrap(),
            command: vec!["true".to_owned()],
            env: vec!["TOKEN".parse().unwrap()],
        }
    }

    fn credential(server: &ServerEntry, variable: &str) -> CredentialBody {
        let variable = variable.parse().unwrap();
        CredentialBody { server: server.as_server(), variable, store: StoreKind::System }
    }

    #[test]
    fn a_name_is_free_again_and_an_id_is_another() {
        let (first, second) = (server(1, "a"), server(2, "a"));
        let mut registry = Registry::default();
        registry.apply(&ServerStep::Add(first.clone())).unwrap();
        let taken = registry.apply(&ServerStep::Add(second.clone()));
        assert_eq!(taken, Err(NotAdmitted::NameTaken("a".parse().unwrap())));
        registry.apply(&ServerStep::Remove(first)).unwrap();
        registry.apply(&ServerStep::Add(second.clone())).unwrap();
        assert_eq!(registry.named(&second.name), Some(&second));
    }

    #[test]
    fn a_credential_belongs_to_a_variable_of_one_registration() {
        let (there, gone) = (server(1, "a"), server(2, "a"));
        let mut registry = Registry::default();
        registry.apply(&ServerStep::Add(there.clone())).unwrap();
        let set = |registry: &mut Registry, body| registry.apply(&ServerStep::SetCredential(body));
        assert!(matches!(set(&mut registry, credential(&there, "OTHER")), Err(NotAdmitted::NoVariable { .. })));
        assert!(matches!(set(&mut registry, credential(&gone, "TOKEN")), Err(NotAdmitted::NoServer(_))));
        set(&mut registry, credential(&there, "TOKEN")).unwrap();
        let elsewhere = CredentialBody { store: StoreKind::SealedFile, ..credential(&there, "TOKEN") };
        set(&mut registry, elsewhere.clone()).unwrap();
        assert_eq!(registry.credentials.len(), 1, "a credential that is set again takes the old one's place");

        let still = registry.apply(&ServerStep::Remove(there.clone()));
        assert!(matches!(still, Err(NotAdmitted::StillHasCredentials(_))));
        let not_there = registry.apply(&ServerStep::RemoveCredential(credential(&there, "TOKEN")));
        assert!(matches!(not_there, Err(NotAdmitted::NoCredential { .. })));
        registry.apply(&ServerStep::RemoveCredential(elsewhere)).unwrap();
        registry.apply(&ServerStep::Remove(there)).unwrap();
        assert_eq!(registry, Registry::default());
    }

    #[test]
    fn a_variable_with_a_value_is_refused_and_the_value_not_repeated() {
        for good in ["A", "_", "GITHUB_TOKEN", "a1"] {
            assert!(good.parse::<VariableName>().is_ok(), "{good}");
        }
        for bad in ["", "1A", "A-B", "A B", "Ä"] {
            assert!(bad.parse::<VariableName>().is_err(), "{bad}");
        }
        let error = "TOKEN=hunter2".parse::<VariableName>().unwrap_err().to_string();
        assert!(error.contains("\"TOKEN\"") && error.contains("stdin") && !error.contains("hunter2"), "{error}");
    }
}
