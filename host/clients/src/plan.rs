//! What becomes of a file: of each of its servers, and of its text. A value made of values; nothing is written here.

use std::path::Path;

use callgate_core::identity::ServerName;
use callgate_core::secret::Secret;
use callgate_core::server::{COMMAND_BYTES_MAX, VARIABLES_MAX, VariableName};

use crate::client::{Form, Format, Place};
use crate::diff;
use crate::edit::{Edit, edited};
use crate::entry::{self, Found, NoServers, Reading, Started, Wrapped};
use crate::secrets::has_variable;
use crate::syntax::{self, Node, Unreadable};

/// What is wanted of a file.
pub struct Wanted<'a> {
    /// The program that is put in front of the servers, as the client is to start it.
    pub callgate: &'a str,
    /// Whether entries that start another Callgate are to start this one.
    pub repoint: bool,
    /// Whether a program is there.
    pub exists: &'a dyn Fn(&Path) -> bool,
    /// Which entries' secrets are to be taken out.
    pub moving: &'a dyn Fn(&EntryName) -> bool,
    /// Which entries are to be left alone, since a server of their name is registered that is another one: it would be started in
    /// their place.
    pub taken: &'a dyn Fn(&EntryName) -> bool,
}

/// Which entry of a file.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct EntryName {
    /// The project's folder, of an entry that counts for one project of a file for all.
    pub project: Option<String>,
    /// The server's name in the file.
    pub name: String,
}

/// What becomes of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Callgate is put in front of it.
    Wrapped,
    /// Callgate is in front of it already.
    Already,
    /// Another Callgate was in front of it, and now this one is.
    Repointed,
    /// Another Callgate is in front of it, which is left so.
    OtherPath,
    /// A Callgate that is not there is in front of it, so that it does not start.
    StalePath,
    /// It is reached at an address, and left alone.
    Http,
    /// The client signs in to it, and it is left alone.
    #[serde(rename = "oauth")]
    OAuth,
    /// It is a part of the client itself.
    BuiltIn,
    /// Its name is none that rules can name.
    InvalidName,
    /// Its name stands for another registered server.
    NameTaken,
    /// It is not understood, and left alone.
    Unrecognised,
}

/// An entry, and what becomes of it.
pub struct Planned {
    /// Which it is.
    pub entry: EntryName,
    /// What becomes of it.
    pub status: Status,
    /// Why, where the status does not say it all.
    pub why: Option<String>,
    /// The names of the variables whose values look like secrets and stay in the file.
    pub secrets: Vec<String>,
    /// What has to be registered before the file is written, since the file has it no more.
    pub moved: Option<Move>,
    /// Why secrets that were to be taken out cannot be.
    pub unmoved: Option<&'static str>,
}

/// A server whose secrets are taken out of a file.
pub struct Move {
    /// Its name for rules.
    pub server: ServerName,
    /// Its own command and arguments.
    pub command: Vec<String>,
    /// The variables.
    pub variables: Vec<VariableName>,
    /// Their values, in the same order.
    pub values: Vec<Secret>,
}

/// Why a file is not edited.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PlanError {
    /// It cannot be read.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// It has no servers where they belong.
    #[error(transparent)]
    NoServers(#[from] NoServers),
    /// Read back, the edited text was not what it was meant to be.
    #[error("it is written in a form that Callgate does not edit")]
    Form,
}

/// What becomes of a file.
pub struct Plan {
    /// Its entries, in their order.
    pub entries: Vec<Planned>,
    format: Format,
    old: String,
    new: Option<String>,
}

impl Plan {
    /// What becomes of a file that holds these bytes.
    pub fn of(place: &Place, bytes: &[u8], wanted: &Wanted<'_>) -> Result<Self, PlanError> {
        let old = std::str::from_utf8(bytes).map_err(|_| Unreadable::NotText)?;
        let format = place.client.format();
        let top = syntax::parse(format.dialect, old)?;
        let reader = Reader { place, form: format.form, wanted };
        let mut entries = Vec::new();
        let mut edits = Vec::new();
        for found in entry::found(format.section, &top)? {
            let Some(node) = top.at(&found.places) else { continue };
            let (planned, edit) = reader.planned(found, node);
            edits.extend(edit);
            entries.push(planned);
        }
        let new = if edits.is_empty() { None } else { Some(edited(format, old, &top, &edits).ok_or(PlanError::Form)?) };
        Ok(Self { entries, format, old: old.to_owned(), new })
    }

    /// The whole file as it is to be, if it is to be another.
    pub fn text(&self) -> Option<&str> {
        self.new.as_deref()
    }

    /// The edit in the unified format, with everything that may be a secret left out; empty if nothing changes.
    pub fn diff(&self, name: &str) -> String {
        self.new.as_ref().map(|new| diff::unified(self.format, name, &self.old, new)).unwrap_or_default()
    }
}

struct Reader<'a> {
    place: &'a Place,
    form: Form,
    wanted: &'a Wanted<'a>,
}

impl Reader<'_> {
    fn planned(&self, found: Found, node: &Node) -> (Planned, Option<Edit>) {
        let Found { name, project, places } = found;
        let entry = EntryName { project, name };
        let secrets = entry::secrets(self.form, node);
        let names = secrets.iter().map(|(_, name)| name.clone()).collect();
        let mut planned =
            Planned { entry, status: Status::Unrecognised, why: None, secrets: names, moved: None, unmoved: None };
        let started = match entry::read(self.form, node) {
            Reading::Starts(started) => started,
            Reading::Http => return (planned.with(Status::Http), None),
            Reading::OAuth => return (planned.with(Status::OAuth), None),
            Reading::BuiltIn => return (planned.with(Status::BuiltIn), None),
            Reading::Unrecognised(why) => {
                planned.why = Some(why.to_owned());
                return (planned, None);
            }
        };
        if (self.wanted.taken)(&planned.entry) {
            return (planned.with(Status::NameTaken), None);
        }
        let mut edit = match started.wrapped(self.wanted.callgate) {
            Some(wrapped) => self.repointed(&mut planned, &started, &wrapped),
            None => self.wrapped(&mut planned, &started),
        };
        if !secrets.is_empty() && (self.wanted.moving)(&planned.entry) {
            self.move_out(&mut planned, &mut edit, &started, node, secrets);
        }
        let edit = edit.is_any().then_some(Edit { places, ..edit });
        (planned, edit)
    }

    fn wrapped(&self, planned: &mut Planned, started: &Started) -> Edit {
        match planned.entry.name.parse::<ServerName>() {
            Ok(server) => {
                planned.status = Status::Wrapped;
                let mut words = self.words(&server);
                words.push("--".to_owned());
                words.push(started.command.clone());
                Edit { command: Some(self.wanted.callgate.to_owned()), in_front: words, ..Edit::default() }
            }
            Err(error) => {
                planned.status = Status::InvalidName;
                planned.why = Some(error.to_string());
                Edit::default()
            }
        }
    }

    fn repointed(&self, planned: &mut Planned, started: &Started, wrapped: &Wrapped) -> Edit {
        let path = Path::new(&started.command);
        if wrapped.server.is_none() {
            planned.status = Status::InvalidName;
            planned.why = Some("it names its server with --server in a form that Callgate does not take".to_owned());
            return Edit::default();
        }
        if started.command == self.wanted.callgate {
            planned.status = Status::Already;
            return Edit::default();
        }
        planned.why = Some(format!("it starts {}", started.command));
        if self.wanted.repoint {
            planned.status = Status::Repointed;
            return Edit { command: Some(self.wanted.callgate.to_owned()), ..Edit::default() };
        }
        let is_stale = path.is_absolute() && !(self.wanted.exists)(path);
        planned.status = if is_stale { Status::StalePath } else { Status::OtherPath };
        Edit::default()
    }

    /// What stands behind Callgate's own name.
    fn words(&self, server: &ServerName) -> Vec<String> {
        let mut words = vec!["run".to_owned(), "--server".to_owned(), server.to_string()];
        if !self.place.shared {
            words.extend(["--agent".to_owned(), self.place.client.name().to_owned()]);
        }
        words
    }

    /// Takes the secrets out: the server is started as it is registered.
    fn move_out(
        &self,
        planned: &mut Planned,
        edit: &mut Edit,
        started: &Started,
        node: &Node,
        secrets: Vec<(usize, String)>,
    ) {
        let moved = match self.movable(planned, started, node, &secrets) {
            Ok(moved) => moved,
            Err(why) => {
                planned.unmoved = Some(why);
                return;
            }
        };
        edit.in_front = Vec::new();
        edit.all_args = Some(self.words(&moved.server));
        edit.without = secrets.into_iter().map(|(place, _)| place).collect();
        planned.secrets.clear();
        planned.moved = Some(moved);
    }

    fn movable(
        &self,
        planned: &Planned,
        started: &Started,
        node: &Node,
        secrets: &[(usize, String)],
    ) -> Result<Move, &'static str> {
        let (server, command) = if let Some(Wrapped { server, original }) = started.wrapped(self.wanted.callgate) {
            (server, original)
        } else {
            let words = std::iter::once(&started.command).chain(&started.args).cloned().collect();
            (planned.entry.name.parse().ok(), words)
        };
        let server = server.ok_or("the server has no name that it can be registered by")?;
        if command.is_empty() {
            return Err("it starts what is registered already, which the file does not say");
        }
        if command.iter().any(|word| has_variable(word)) {
            return Err("its command has a variable that only the client fills in");
        }
        if command.iter().map(String::len).sum::<usize>() > COMMAND_BYTES_MAX {
            return Err("its command is too long to be registered");
        }
        if secrets.len() > VARIABLES_MAX {
            return Err("it has more secrets than one server can have credentials");
        }
        let value = |place: usize| Some(Secret::copied(node.value(self.form.env)?.at(&[place])?.text()?.as_bytes()));
        let values: Vec<Secret> = secrets.iter().filter_map(|(place, _)| value(*place)).collect();
        if values.iter().any(|value| value.check().is_err()) {
            return Err("a value is none that a credential can have");
        }
        let variables = secrets.iter().map(|(_, name)| name.parse()).collect::<Result<Vec<VariableName>, _>>();
        let variables = variables.map_err(|_| "a variable's name is none that a credential can have")?;
        Ok(Move { server, command, variables, values })
    }
}

impl Planned {
    fn with(mut self, status: Status) -> Self {
        self.status = status;
        self
    }
}
