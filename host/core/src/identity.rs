//! Who calls what: sessions, agents, servers. Newtypes, so that no name is compared with another kind of name.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(std::sync::Arc<str>);

        impl $name {
            /// An id from 128 random bits.
            pub fn from_random(bits: [u8; 16]) -> Self {
                Self(format!(concat!($prefix, "{:032x}"), u128::from_be_bytes(bits)).into())
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = BadName;

            fn try_from(text: String) -> Result<Self, BadName> {
                let digits = text.strip_prefix($prefix).unwrap_or_default().as_bytes();
                if digits.len() == 32 && digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')) {
                    return Ok(Self(text.into()));
                }
                let expected = concat!($prefix, " and 32 lower-case hex digits");
                Err(BadName { kind: $kind, name: text, expected })
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.as_str().to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}
pub(crate) use id;

id!(
    /// One stdio session of one client with one server, drawn at random by the relay. It outlives a restart of the daemon and is
    /// never used again.
    SessionId,
    "ses_",
    "session id"
);
/// A name that is not of its kind's form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is not a {kind}: it has to be {expected}")]
pub struct BadName {
    /// What it should have been, for example `server name`.
    pub kind: &'static str,
    /// What was given.
    pub name: String,
    /// The form of the kind.
    pub expected: &'static str,
}

/// The longest server, agent or plugin name, bytes.
pub const NAME_BYTES_MAX: usize = 64;

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = BadName;

            fn try_from(name: String) -> Result<Self, BadName> {
                if is_name(&name) {
                    return Ok(Self(name));
                }
                let expected = "1 to 64 letters, digits, `-`, `_` or `.`, with a letter or digit first and last";
                Err(BadName { kind: $kind, name, expected })
            }
        }

        impl std::str::FromStr for $name {
            type Err = BadName;

            fn from_str(name: &str) -> Result<Self, BadName> {
                Self::try_from(name.to_owned())
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(
    /// The operator's name for a server, as rules are written against it.
    ServerName,
    "server name"
);
name!(
    /// The operator's name for an agent, as rules are written against it.
    AgentName,
    "agent name"
);
name!(
    /// A program that stands between an agent and its relay and is looked through: a shell, a package runner.
    WrapperName,
    "wrapper's name"
);
name!(
    /// The operator's name for a plugin's instance in the chain.
    PluginName,
    "plugin name"
);

fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    bytes.len() <= NAME_BYTES_MAX
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

/// An established agent. There is no value for "anonymous": a call whose agent is not established carries none.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Agent {
    /// Immutable, `agt_…`.
    pub id: String,
    /// What rules name.
    pub name: AgentName,
    /// How it was established; an open vocabulary (`wit/`, `types.agent.evidence`).
    pub evidence: String,
}

/// The server a call goes to.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Server {
    /// Immutable, `srv_…`; empty for a server that nobody registered.
    pub id: String,
    /// What rules name.
    pub name: ServerName,
}

impl Server {
    /// Some server, in a question about no particular one: its name is one that no server and no rule can have.
    pub fn unnamed() -> Self {
        Self { id: String::new(), name: ServerName("-".to_owned()) }
    }
}

/// An additive fact about a caller for which there is no typed field (`wit/`, `types.attribute`).
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Attribute {
    /// Lower-case kebab, dotted by topic.
    pub name: String,
    /// Any text.
    pub value: String,
}

/// The side that asks.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Caller {
    /// `None` while no agent is established.
    pub agent: Option<Agent>,
    /// The client program's own name from its MCP handshake, self-declared; empty when it gave none.
    pub client: String,
    /// The server that is asked.
    pub server: Server,
    /// Additive facts, each name at most once.
    pub attributes: Vec<Attribute>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_to_one_form() {
        for good in ["a", "my-server", "a.b_c", &"x".repeat(64)] {
            assert_eq!(good.parse::<ServerName>().map(String::from).as_deref(), Ok(good));
        }
        for bad in ["", "-a", "a-", "a b", "ä", "a/b", "*", &"x".repeat(65)] {
            assert!(bad.parse::<ServerName>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_session_id_reads_back() {
        let id = SessionId::from_random([7; 16]);
        assert_eq!(SessionId::try_from(id.to_string()), Ok(id));
        assert!(SessionId::try_from("ses_1".to_owned()).is_err());
    }
}
