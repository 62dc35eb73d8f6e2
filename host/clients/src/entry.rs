//! The servers that a file has, and what its client does with each.

use callgate_core::identity::ServerName;

use crate::client::{Form, Section};
use crate::secrets::is_secret;
use crate::syntax::Node;

/// The members that hold a server's address, as the clients call them.
const ADDRESSES: [&str; 4] = ["url", "serverUrl", "httpUrl", "uri"];
/// The members by which a server is signed in to.
const SIGNED_IN: [&str; 4] = ["oauth", "auth", "authProviderType", "scopes"];
/// What Goose calls the extensions that are part of it.
const BUILT_IN: [&str; 4] = ["builtin", "platform", "frontend", "inline_python"];

/// Where a server's entry is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub(crate) name: String,
    /// The project's folder, of an entry that counts for one project of a file for all.
    pub(crate) project: Option<String>,
    /// The way to it from the top, each a member's place in the one before.
    pub(crate) places: Vec<usize>,
}

/// A section is there, and is no table of servers.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("its {0:?} is not a table of servers that can be edited")]
pub struct NoServers(String);

/// All entries, in the file's order.
pub(crate) fn found(section: Section, top: &Node) -> Result<Vec<Found>, NoServers> {
    let mut all = Vec::new();
    match section {
        Section::Key(key) => collect(top, &[], key, None, &mut all)?,
        Section::WithProjects => {
            collect(top, &[], "mcpServers", None, &mut all)?;
            let Some(at) = place(top, "projects") else { return Ok(all) };
            let projects = top.at(&[at]).and_then(Node::members).unwrap_or_default();
            for (project, member) in projects.iter().enumerate() {
                collect(&member.value, &[at, project], "mcpServers", Some(&member.key), &mut all)?;
            }
        }
        Section::OpenCode => {
            let inner =
                top.value("mcp").and_then(|mcp| mcp.value("servers")).filter(|inner| inner.value("type").is_none());
            match (place(top, "mcp"), inner) {
                (Some(at), Some(_)) => {
                    let mcp = top.at(&[at]).unwrap_or(top);
                    collect(mcp, &[at], "servers", None, &mut all)?;
                }
                _ => collect(top, &[], "mcp", None, &mut all)?,
            }
        }
    }
    Ok(all)
}

fn collect(
    table: &Node,
    way: &[usize],
    key: &str,
    project: Option<&str>,
    all: &mut Vec<Found>,
) -> Result<(), NoServers> {
    let Some(at) = place(table, key) else { return Ok(()) };
    let Some(section) = table.at(&[at]) else { return Ok(()) };
    if section.is_nothing() {
        return Ok(());
    }
    let members = section.members().ok_or_else(|| NoServers(key.to_owned()))?;
    all.extend(members.iter().enumerate().map(|(entry, member)| Found {
        name: member.key.clone(),
        project: project.map(str::to_owned),
        places: [way, &[at, entry]].concat(),
    }));
    Ok(())
}

fn place(table: &Node, key: &str) -> Option<usize> {
    table.members()?.iter().position(|member| member.key == key)
}

/// What an entry is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Reading {
    /// A command that the client starts.
    Starts(Started),
    /// A server that is reached at an address.
    Http,
    /// One that the client signs in to.
    OAuth,
    /// A part of the client itself, or of an extension of it.
    BuiltIn,
    /// Nothing that is understood, and why.
    Unrecognised(&'static str),
}

/// A command and its arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Started {
    pub(crate) command: String,
    pub(crate) args: Vec<String>,
}

/// Reads an entry.
pub(crate) fn read(form: Form, entry: &Node) -> Reading {
    if entry.members().is_none() {
        return Reading::Unrecognised("it is not a table");
    }
    let is =
        |key: &str, words: &[&str]| entry.value(key).and_then(Node::text).is_some_and(|word| words.contains(&word));
    if is("type", &BUILT_IN) || is("source", &["extension"]) {
        return Reading::BuiltIn;
    }
    let has = |keys: &[&str]| keys.iter().any(|key| entry.value(key).is_some());
    match (entry.value(form.command), has(&ADDRESSES)) {
        (Some(_), true) => Reading::Unrecognised("it has both a command and an address"),
        (None, true) if has(&SIGNED_IN) => Reading::OAuth,
        (None, true) => Reading::Http,
        (None, false) if entry.value("settings").is_some() => Reading::BuiltIn,
        (None, false) => Reading::Unrecognised("it has neither a command nor an address"),
        (Some(command), false) => started(form, entry, command).unwrap_or_else(Reading::Unrecognised),
    }
}

fn started(form: Form, entry: &Node, command: &Node) -> Result<Reading, &'static str> {
    let texts = |node: &Node| node.texts().map(|texts| texts.into_iter().map(str::to_owned).collect::<Vec<_>>());
    let (command, args) = if let Some(key) = form.args {
        let args = entry.value(key).map(|args| texts(args).ok_or("its arguments are not a list of texts"));
        (command.text().ok_or("its command is not a text")?.to_owned(), args.transpose()?.unwrap_or_default())
    } else {
        let mut words = texts(command).ok_or("its command is not a list of texts")?;
        let args = words.split_off(words.len().min(1));
        (words.pop().unwrap_or_default(), args)
    };
    if command.is_empty() {
        return Err("its command is empty");
    }
    Ok(Reading::Starts(Started { command, args }))
}

/// A command that is Callgate already.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Wrapped {
    /// What rules name.
    pub(crate) server: Option<ServerName>,
    /// The server's own command and arguments; empty where the registered one is started.
    pub(crate) original: Vec<String>,
}

impl Started {
    /// What it starts through Callgate, if it is Callgate that it starts.
    pub(crate) fn wrapped(&self, callgate: &str) -> Option<Wrapped> {
        let file = self.command.rsplit(['/', '\\']).next().unwrap_or_default();
        let is_callgate = self.command == callgate || matches!(file, "callgate" | "callgate.exe");
        if !is_callgate || self.args.first().is_none_or(|first| first != "run") {
            return None;
        }
        let end = self.args.iter().position(|arg| arg == "--").unwrap_or(self.args.len());
        let (options, original) = self.args.split_at(end);
        let separate = options.iter().zip(options.iter().skip(1)).find(|(option, _)| *option == "--server");
        let joined = options.iter().find_map(|option| option.strip_prefix("--server="));
        let server = separate.map(|(_, name)| name.as_str()).or(joined)?;
        Some(Wrapped { server: server.parse().ok(), original: original.iter().skip(1).cloned().collect() })
    }
}

/// The places and names of the variables of an entry whose values look like secrets.
pub(crate) fn secrets(form: Form, entry: &Node) -> Vec<(usize, String)> {
    let variables = entry.value(form.env).and_then(Node::members).unwrap_or_default();
    let looks = |(place, member): (usize, &crate::syntax::Member)| {
        let secret = member.value.text().is_some_and(|value| is_secret(&member.key, value));
        secret.then(|| (place, member.key.clone()))
    };
    variables.iter().enumerate().filter_map(looks).collect()
}
