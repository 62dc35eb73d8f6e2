//! Secrets out of the clients' files: registered and stored first, and only then taken out of the file.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use callgate_clients::plan::{EntryName, Move};
use callgate_core::escape::visible;
use callgate_core::identity::ServerName;
use callgate_ipc::servers::{AddServer, Secrets, ServersCommand};

use crate::command::servers;
use crate::failure::{Exit, Failure};
use crate::home::Home;
use crate::output;

/// The entries whose secrets are in the store, or would be.
#[derive(Default)]
pub(super) struct Moved {
    entries: HashSet<(PathBuf, EntryName)>,
    /// Those whose name stands for another server.
    left: HashSet<(PathBuf, EntryName)>,
    servers: HashMap<ServerName, Move>,
    worst: Option<Exit>,
}

impl Moved {
    pub(super) fn holds(&self, file: &Path, entry: &EntryName) -> bool {
        self.entries.contains(&(file.to_owned(), entry.clone()))
    }

    pub(super) fn leaves(&self, file: &Path, entry: &EntryName) -> bool {
        self.left.contains(&(file.to_owned(), entry.clone()))
    }

    /// How badly it went.
    pub(super) const fn exit(&self) -> Exit {
        match self.worst {
            Some(exit) => exit,
            None => Exit::Done,
        }
    }

    /// Without the daemon: what would be registered.
    pub(super) fn foresee(&mut self, file: &Path, entry: EntryName, server: Move) {
        if self.has_room(file, &entry, &server) {
            self.entries.insert((file.to_owned(), entry));
            self.servers.insert(server.server.clone(), server);
        }
    }

    /// Registers a server with its secrets. If that fails, its entry keeps them, and the others go on.
    pub(super) fn register(&mut self, home: &Home, file: &Path, entry: EntryName, server: Move) {
        if !self.has_room(file, &entry, &server) {
            return;
        }
        if !self.servers.contains_key(&server.server) {
            let adding = AddServer {
                name: server.server.clone(),
                command: server.command.clone(),
                env: server.variables.clone(),
                values: Secrets::of(&server.values),
            };
            let told = servers::changed(home, &ServersCommand::Add(adding));
            match told {
                Ok(told) => output::tell(&visible(&format!("registered: {}{told}", server.server))),
                Err(failure) => {
                    self.kept(&entry, file, &failure);
                    return;
                }
            }
        }
        self.entries.insert((file.to_owned(), entry));
        self.servers.insert(server.server.clone(), server);
    }

    /// Whether the name is free, or another entry's that starts the very same with the same secrets.
    fn has_room(&mut self, file: &Path, entry: &EntryName, server: &Move) -> bool {
        let Some(there) = self.servers.get(&server.server) else { return true };
        let same_values = there.values.len() == server.values.len()
            && there.values.iter().zip(&server.values).all(|(one, two)| one.expose() == two.expose());
        let same = there.command == server.command && there.variables == server.variables && same_values;
        if !same {
            let failure = Failure::usage("another entry of that name has another command or other secrets");
            self.kept(entry, file, &failure.hint("rename one of the two"));
        }
        same
    }

    /// Tells of secrets that stay in their file.
    fn kept(&mut self, entry: &EntryName, file: &Path, failure: &Failure) {
        let EntryName { name, .. } = entry;
        let Failure { message, hint, exit } = failure;
        output::tell(&visible(&format!("error: the secrets of {name} stay in {}: {message}", file.display())));
        if let Some(hint) = hint {
            output::tell(&format!("hint: {}", visible(hint)));
        }
        // What the store could not do is no matter of the name: the entry is wrapped all the same. A name that is taken would have
        // another server started in this one's place, with the secrets of that one.
        if *exit == Exit::Usage {
            self.left.insert((file.to_owned(), entry.clone()));
        }
        self.worst = Some(*exit);
    }
}
