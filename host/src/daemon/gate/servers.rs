//! The registered servers: what is changed of them, and what a relay is told to start. Secrets are passed on and never kept.

use callgate_core::identity::ServerName;
use callgate_core::port::LedgerFailure;
use callgate_core::secret::Secret;
use callgate_core::server::{
    COMMAND_BYTES_MAX, Credential, CredentialBody, NotAdmitted, Registry, ServerEntry, ServerId, ServerStep, StoreKind,
    VARIABLES_MAX, VariableName,
};
use callgate_credentials::{Trouble, Urgency};
use callgate_ipc::message::{CommandReply, Fault};
use callgate_ipc::servers::{AddServer, Launch, Secrets, ServersReply, SetCredential};
use callgate_journal::ServersError;

use super::{Gate, Open, lock, random_bits};
use crate::plugins::store;
use crate::stores;

impl Gate {
    /// The server that is registered under this name.
    pub(in crate::daemon) fn registered(&self, name: &ServerName) -> Result<Option<ServerEntry>, LedgerFailure> {
        Ok(self.serving()?.journal.registry()?.named(name).cloned())
    }

    /// Registers a server. Its secrets are in their store before the registration is in the journal, and are taken out again if
    /// it does not get there.
    pub(in crate::daemon) fn add_server(&self, add: AddServer) -> ServersReply {
        let _one_at_a_time = lock(&self.registering);
        answer(self.try_add_server(add))
    }

    fn try_add_server(&self, add: AddServer) -> Result<ServersReply, ServersReply> {
        let AddServer { name, command, env, values } = add;
        let (open, mut registry) = self.registry()?;
        let values = taken(&values, env.len())?;
        check_shape(&command, &env)?;
        let server = ServerEntry { id: new_id()?, name, command, env };
        let store = self.stores.in_use();
        let set =
            |variable: &VariableName| CredentialBody { server: server.as_server(), variable: variable.clone(), store };
        let mut steps = vec![ServerStep::Add(server.clone())];
        steps.extend(server.env.iter().map(|variable| ServerStep::SetCredential(set(variable))));
        for step in &steps {
            registry.apply(step).map_err(|error| self.unregistered(&error.into()))?;
        }
        // Before the name is in the journal, so that no relay overlooks it. One too many only makes a relay ask.
        self.tell_relays(&registry);
        let entries = self.put(&server, store, &values).and_then(|()| {
            open.journal.change_servers(steps).map_err(|error| {
                let reply = self.unregistered(&error);
                self.take_out(&server.id, server.env.iter().map(|variable| (variable, store)));
                reply
            })
        });
        let store = (!server.env.is_empty()).then_some(store);
        let warnings = if entries.is_ok() { warnings(&server.command) } else { Vec::new() };
        entries.map(|entries| ServersReply::Done { entries, store, warnings })
    }

    /// Puts the values of a new server into a store, all of them or none.
    fn put(&self, server: &ServerEntry, store: StoreKind, values: &[Secret]) -> Result<(), ServersReply> {
        for (number, (variable, value)) in server.env.iter().zip(values).enumerate() {
            if let Err(trouble) = self.stores.write(store, &Credential::store_name(&server.id, variable), value) {
                self.take_out(&server.id, server.env.iter().take(number).map(|variable| (variable, store)));
                return Err(troubled(&trouble));
            }
        }
        Ok(())
    }

    /// Takes secrets out of their stores, and tells which could not be.
    fn take_out<'a>(
        &self,
        server: &ServerId,
        secrets: impl IntoIterator<Item = (&'a VariableName, StoreKind)>,
    ) -> Vec<String> {
        let take_out = |(variable, store): (&VariableName, StoreKind)| {
            let name = Credential::store_name(server, variable);
            let trouble = self.stores.remove(store, &name).err()?;
            Some(format!("the secret is still in {store}, as {name}, where no server is given it any more: {trouble}"))
        };
        secrets.into_iter().filter_map(take_out).collect()
    }

    /// Registers a server no more, and removes its credentials.
    pub(in crate::daemon) fn remove_server(&self, name: &ServerName) -> ServersReply {
        let _one_at_a_time = lock(&self.registering);
        answer(self.try_remove_server(name))
    }

    fn try_remove_server(&self, name: &ServerName) -> Result<ServersReply, ServersReply> {
        let (open, registry) = self.registry()?;
        let server = self.find(&registry, name)?;
        let credentials: Vec<Credential> = registry.credentials_of(&server.id).cloned().collect();
        let mut steps: Vec<ServerStep> =
            credentials.iter().map(|credential| ServerStep::RemoveCredential(body(server, credential))).collect();
        steps.push(ServerStep::Remove(server.clone()));
        let entries = open.journal.change_servers(steps).map_err(|error| self.unregistered(&error))?;
        let warnings =
            self.take_out(&server.id, credentials.iter().map(|credential| (&credential.variable, credential.store)));
        if let Ok(registry) = open.journal.registry() {
            self.tell_relays(&registry);
        }
        Ok(ServersReply::Done { entries, store: None, warnings })
    }

    /// Sets one credential of a registered server.
    pub(in crate::daemon) fn set_credential(&self, set: &SetCredential) -> ServersReply {
        let _one_at_a_time = lock(&self.registering);
        answer(self.try_set_credential(set))
    }

    fn try_set_credential(&self, set: &SetCredential) -> Result<ServersReply, ServersReply> {
        let (open, mut registry) = self.registry()?;
        let server = self.find(&registry, &set.server)?.clone();
        let values = taken(&set.value, 1)?;
        let store = self.stores.in_use();
        let body = CredentialBody { server: server.as_server(), variable: set.variable.clone(), store };
        let before = registry.credential(&server.id, &set.variable).cloned();
        let step = ServerStep::SetCredential(body);
        registry.apply(&step).map_err(|error| self.unregistered(&error.into()))?;
        let name = Credential::store_name(&server.id, &set.variable);
        for value in &values {
            self.stores.write(store, &name, value).map_err(|trouble| troubled(&trouble))?;
        }
        // A failure leaves the new secret where it is: the old one is gone by then, and either belongs to the same command.
        let entries = open.journal.change_servers(vec![step]).map_err(|error| self.unregistered(&error))?;
        let moved = before.filter(|before| before.store != store);
        let warnings = self.take_out(&server.id, moved.iter().map(|before| (&before.variable, before.store)));
        Ok(ServersReply::Done { entries, store: Some(store), warnings })
    }

    /// Removes one credential. The server does not start until it has one again.
    pub(in crate::daemon) fn remove_credential(&self, server: &ServerName, variable: &VariableName) -> ServersReply {
        let _one_at_a_time = lock(&self.registering);
        answer(self.try_remove_credential(server, variable))
    }

    fn try_remove_credential(&self, name: &ServerName, variable: &VariableName) -> Result<ServersReply, ServersReply> {
        let (open, registry) = self.registry()?;
        let server = self.find(&registry, name)?;
        let Some(credential) = registry.credential(&server.id, variable) else {
            let missing = NotAdmitted::NoCredential { server: name.clone(), variable: variable.clone() };
            return Err(self.unregistered(&missing.into()));
        };
        let step = ServerStep::RemoveCredential(body(server, credential));
        let entries = open.journal.change_servers(vec![step]).map_err(|error| self.unregistered(&error))?;
        let warnings = self.take_out(&server.id, [(variable, credential.store)]);
        Ok(ServersReply::Done { entries, store: None, warnings })
    }

    /// What a relay is to start for a server. Secrets are given only to a relay that `is_ours`.
    pub(in crate::daemon) fn launch(&self, name: &ServerName, is_ours: bool) -> ServersReply {
        answer(self.try_launch(name, is_ours))
    }

    fn try_launch(&self, name: &ServerName, is_ours: bool) -> Result<ServersReply, ServersReply> {
        let (_, registry) = self.registry()?;
        let Some(server) = registry.named(name) else { return Ok(ServersReply::NotRegistered) };
        if !server.env.is_empty() && !is_ours {
            log::warn!("a process that does not run this program asked for the credentials of {name}");
            return Err(ServersReply::NotLaunched {
                message: "credentials are given only to a relay of this very build; if callgate was installed anew: callgate daemon restart".to_owned(),
            });
        }
        let secret = |variable| self.secret(&registry, server, variable);
        let values = server.env.iter().map(secret).collect::<Result<Vec<_>, _>>().map_err(|message| {
            log::warn!("the server {name} is not started: {message}");
            ServersReply::NotLaunched { message }
        })?;
        Ok(ServersReply::Launch(Launch {
            server: server.as_server(),
            command: server.command.clone(),
            env: server.env.clone(),
            values: Secrets::of(&values),
        }))
    }

    /// A secret for the start of its server, or why it cannot be had.
    fn secret(&self, registry: &Registry, server: &ServerEntry, variable: &VariableName) -> Result<Secret, String> {
        let again = format!("callgate credential set {} --env {variable}", server.name);
        let Some(credential) = registry.credential(&server.id, variable) else {
            return Err(format!("its credential {variable} is not set (hint: {again})"));
        };
        let name = Credential::store_name(&server.id, variable);
        match self.stores.read(credential.store, &name, Urgency::Start) {
            Ok(Some(secret)) => Ok(secret),
            Ok(None) => {
                Err(format!("its credential {variable} is not in {} any more (hint: {again})", credential.store))
            }
            Err(trouble) => {
                Err(format!("its credential {variable} cannot be had: {trouble} (hint: {})", trouble.hint()))
            }
        }
    }

    /// How the stores are.
    pub(in crate::daemon) fn store_states(&self) -> ServersReply {
        ServersReply::Stores(stores::states(&self.stores))
    }

    /// Makes a sealed file, under a passphrase or under the key that systemd gives.
    pub(in crate::daemon) fn create_sealed_file(&self, passphrase: &Secrets) -> ServersReply {
        let passphrase = passphrase.apart().unwrap_or_default();
        answer(self.stores.create_sealed(passphrase.first()).map(|()| sealed()).map_err(|trouble| troubled(&trouble)))
    }

    /// Opens the sealed file.
    pub(in crate::daemon) fn unlock(&self, passphrase: &Secrets) -> ServersReply {
        let passphrase = passphrase.apart().and_then(|mut secrets| secrets.pop()).unwrap_or_default();
        answer(self.stores.unlock(&passphrase).map(|()| sealed()).map_err(|trouble| troubled(&trouble)))
    }

    /// Writes the names of the registered servers where relays look for them. A relay that reads an older list starts what its
    /// client says, and the daemon decides none of its calls.
    pub(super) fn tell_relays(&self, registry: &Registry) {
        let names: Vec<&str> = registry.servers.iter().flat_map(|server| [server.name.as_str(), "\n"]).collect();
        let names = names.concat();
        let path = self.home.registered_names();
        if std::fs::read(&path).is_ok_and(|there| there == names.as_bytes()) {
            return;
        }
        if let Err(error) = store::write(&path, names.as_bytes()) {
            log::warn!("cannot write {}: {error}", path.display());
        }
    }

    fn registry(&self) -> Result<(std::sync::Arc<Open>, Registry), ServersReply> {
        let open = self.serving().map_err(|failure| failed(self.shut(&failure)))?;
        let registry = open.journal.registry().map_err(|failure| failed(self.unwritten(&failure)))?;
        Ok((open, registry))
    }

    fn find<'a>(&self, registry: &'a Registry, name: &ServerName) -> Result<&'a ServerEntry, ServersReply> {
        registry.named(name).ok_or_else(|| self.unregistered(&NotAdmitted::NoServer(name.clone()).into()))
    }

    fn unregistered(&self, error: &ServersError) -> ServersReply {
        let hint = match error {
            ServersError::Unwritten(failure) => return failed(self.unwritten(failure)),
            ServersError::NotAdmitted(NotAdmitted::NameTaken(name)) => {
                format!("remove it first: callgate server remove {name}")
            }
            ServersError::NotAdmitted(NotAdmitted::NoServer(_) | NotAdmitted::Full | NotAdmitted::IdTaken(_)) => {
                "callgate server list".to_owned()
            }
            ServersError::NotAdmitted(NotAdmitted::NoVariable { server, variable }) => format!(
                "to see what it has: callgate server show {server}; to register it anew with --env {variable}, remove it first"
            ),
            ServersError::NotAdmitted(NotAdmitted::NoCredential { .. } | NotAdmitted::StillHasCredentials(_)) => {
                "callgate credential list".to_owned()
            }
        };
        refused(error.to_string(), hint)
    }
}

fn body(server: &ServerEntry, credential: &Credential) -> CredentialBody {
    CredentialBody { server: server.as_server(), variable: credential.variable.clone(), store: credential.store }
}

/// The secrets of a message, of which there have to be so many, each of which can be in an environment.
fn taken(secrets: &Secrets, count: usize) -> Result<Vec<Secret>, ServersReply> {
    let secrets = secrets.apart().filter(|secrets| secrets.len() == count);
    let secrets = secrets.ok_or_else(|| {
        refused("not as many values as variables".to_owned(), "give one value for each --env".to_owned())
    })?;
    match secrets.iter().find_map(|secret| secret.check().err()) {
        Some(bad) => {
            Err(refused(bad.to_string(), "the value is read from stdin, or asked for on a terminal".to_owned()))
        }
        None => Ok(secrets),
    }
}

fn check_shape(command: &[String], env: &[VariableName]) -> Result<(), ServersReply> {
    let bytes: usize = command.iter().map(String::len).sum();
    if command.is_empty() || bytes > COMMAND_BYTES_MAX {
        let message = format!("a command has a program, and at most {COMMAND_BYTES_MAX} bytes");
        return Err(refused(message, "callgate server add NAME -- PROGRAM ARGUMENT…".to_owned()));
    }
    if env.len() > VARIABLES_MAX {
        let message = format!("{} variables, where a server may have {VARIABLES_MAX}", env.len());
        return Err(refused(message, "give what is no secret in the client's configuration".to_owned()));
    }
    match env.iter().enumerate().find(|(number, variable)| env[..*number].contains(variable)) {
        Some((_, variable)) => Err(refused(format!("{variable} is there twice"), "name each variable once".to_owned())),
        None => Ok(()),
    }
}

/// What a person should look at in a command that is registered.
fn warnings(command: &[String]) -> Vec<String> {
    let relative = command.first().is_some_and(|program| program.contains('/') && !program.starts_with('/'));
    let warning = "the program is named by a path that begins in whatever folder the client starts it in";
    if relative { vec![warning.to_owned()] } else { Vec::new() }
}

fn new_id() -> Result<ServerId, ServersReply> {
    random_bits().map(ServerId::from_random).map_err(failed)
}

fn sealed() -> ServersReply {
    ServersReply::Done { entries: Vec::new(), store: Some(StoreKind::SealedFile), warnings: Vec::new() }
}

fn troubled(trouble: &Trouble) -> ServersReply {
    let fault = match trouble {
        Trouble::AlreadyThere | Trouble::ShortKey(_) | Trouble::NoGivenKey => Fault::Request,
        _ => Fault::Environment,
    };
    ServersReply::Failed { message: trouble.to_string(), hint: Some(trouble.hint().to_owned()), fault }
}

fn refused(message: String, hint: String) -> ServersReply {
    ServersReply::Failed { message, hint: Some(hint), fault: Fault::Request }
}

/// The same failure on this connection.
fn failed(reply: CommandReply) -> ServersReply {
    match reply {
        CommandReply::Failed { message, hint, fault } => ServersReply::Failed { message, hint, fault },
        _ => ServersReply::Failed {
            message: "the daemon cannot say what is wrong".to_owned(),
            hint: None,
            fault: Fault::Environment,
        },
    }
}

fn answer(result: Result<ServersReply, ServersReply>) -> ServersReply {
    result.unwrap_or_else(|reply| reply)
}
