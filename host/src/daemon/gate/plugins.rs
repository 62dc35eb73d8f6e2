//! Changing the plugins of the chain while calls run. The new plugin is made ready first; then the configuration is written,
//! then the entries are committed, and with that the chain is in force. Whatever fails leaves what there was.

use std::path::Path;
use std::sync::Arc;

use callgate_core::digest::Digest;
use callgate_core::entry::{Draft, Kind};
use callgate_core::identity::PluginName;
use callgate_core::plugin::{PluginEntry, PluginResetBody};
use callgate_ipc::message::{ChangePlugins, CommandReply, Fault, PluginState};
use callgate_journal::{AppendError, Plugins, PluginsError, Policy};

use callgate_plugin::Link;

use super::{DAEMON_HINT, Gate, Open, environment, link_problems, lock, request};
use crate::config::Config;
use crate::failure::{Exit, Failure};
use crate::plugins::store;

impl Gate {
    /// Takes another list of plugins into force.
    pub(in crate::daemon) fn change_plugins(&self, change: ChangePlugins) -> CommandReply {
        let open = match self.serving() {
            Ok(open) => open,
            Err(failure) => return self.shut(&failure),
        };
        let _one_at_a_time = lock(&open.changing);
        self.changed(&open, change).unwrap_or_else(|reply| reply)
    }

    fn changed(&self, open: &Arc<Open>, change: ChangePlugins) -> Result<CommandReply, CommandReply> {
        let ChangePlugins { before, config: text, renewed } = change;
        let file = self.home.config_file();
        let old_text = Config::read(&file).map_err(told)?;
        let old = Config::of(&file, old_text.as_deref()).map_err(told)?;
        let new = Config::parse(&text).map_err(told)?;
        let unwritten = |failure| environment(&failure, self.hint(&failure));
        let in_force = open.journal.plugins().map_err(unwritten)?;
        let Policy { items, .. } = open.journal.policy().map_err(unwritten)?;
        may_follow(before, &old, &new, &in_force)?;

        let policies = &open.policies;
        let made = policies.plugins.make(&new.plugins, renewed.as_ref());
        // One that was broken before may stay so; nobody would be helped by a plugin that only denies.
        let is_touched =
            |entry: &&PluginEntry| !in_force.entries.contains(entry) || renewed.as_ref() == Some(&entry.name);
        for entry in new.plugins.iter().filter(is_touched) {
            if let Some(why) = made.why_broken(&entry.name) {
                return Err(request(
                    format!("the plugin {} is not ready: {why}", entry.name),
                    Some(format!("callgate plugin install FILE --name {}", entry.name)),
                ));
            }
        }
        let policy = Policy { generation: in_force.generation + 1, items };
        let chain = policies.shipped(&policy, Some(&open.switch.chain())).followed_by(made.links());

        write(&file, Some(&text)).map_err(told)?;
        let swap = {
            let open = Arc::clone(open);
            Box::new(move |_| open.switch.set(chain))
        };
        match open.journal.change_plugins(&in_force, new.plugins, renewed.as_ref(), swap) {
            Ok(changed) => {
                policies.plugins.keep(&made);
                Ok(CommandReply::PluginsChanged { entries: changed.entries, warnings: made.warnings })
            }
            Err(error) => {
                if let Err(failure) = write(&file, old_text.as_deref()) {
                    log::error!("the configuration could not be put back: {}", failure.message);
                }
                Err(match error {
                    PluginsError::Stale { .. } => request(error.to_string(), Some("try again".to_owned())),
                    PluginsError::Unwritten(failure) => self.unwritten(&failure),
                })
            }
        }
    }

    /// Gives a plugin that failed again and again another chance.
    pub(in crate::daemon) fn reset_plugin(&self, name: &PluginName) -> CommandReply {
        let open = match self.serving() {
            Ok(open) => open,
            Err(failure) => return self.shut(&failure),
        };
        let chain = open.chain();
        let Some(link) = chain.links().iter().find(|link| link.member().plugin == name.as_str()) else {
            return request(format!("there is no plugin named {name}"), Some("callgate plugin list".to_owned()));
        };
        let is_broken = link.plugin().is_some_and(|plugin| !plugin.open_breakers().is_empty());
        let Some(plugin) = link.plugin().filter(|_| is_broken) else {
            return CommandReply::PluginReset { entry: None, breakers: 0 };
        };
        let reset = Draft::of(Kind::PluginReset, &PluginResetBody { plugin: name.clone() });
        match open.journal.append(vec![reset]) {
            Ok(entries) => {
                let breakers = u64::try_from(plugin.reset()).unwrap_or(u64::MAX);
                CommandReply::PluginReset { entry: entries.first().copied(), breakers }
            }
            Err(AppendError::Unwritten(failure)) => self.unwritten(&failure),
            Err(error @ AppendError::NotByItself(_)) => request(error.to_string(), None),
        }
    }

    /// How the plugins of the chain are.
    pub(in crate::daemon) fn plugin_states(&self) -> CommandReply {
        let open = match self.serving() {
            Ok(open) => open,
            Err(failure) => return self.shut(&failure),
        };
        let entries = match open.journal.plugins() {
            Ok(plugins) => plugins.entries,
            Err(failure) => return self.unwritten(&failure),
        };
        let chain = open.chain();
        let state = |link: &Link| PluginState {
            name: link.member().plugin.clone(),
            digest: link.member().component,
            entry: entries.iter().find(|entry| entry.name.as_str() == link.member().plugin).cloned(),
            problems: link_problems(link),
        };
        CommandReply::Plugins(chain.links().iter().map(state).collect())
    }
}

/// Whether a new configuration may take the place of the old one while the daemon runs.
fn may_follow(before: Digest, old: &Config, new: &Config, in_force: &Plugins) -> Result<(), CommandReply> {
    if old.digest != before {
        let why = "callgate.yaml was changed meanwhile, so nothing was done".to_owned();
        return Err(request(why, Some("try again".to_owned())));
    }
    if old.plugins != in_force.entries {
        let why = "the plugins in callgate.yaml were changed by hand and are not in force".to_owned();
        return Err(request(why, Some("callgate daemon restart, then try again".to_owned())));
    }
    let rest = |config: &Config| Config { plugins: Vec::new(), digest: before, ..config.clone() };
    if rest(old) == rest(new) {
        return Ok(());
    }
    Err(request("only the plugins of a configuration change while the daemon runs".to_owned(), None))
}

/// Writes the configuration as a whole, through a link where it is one and with the permissions that it has; without a text
/// there is none.
fn write(file: &Path, text: Option<&str>) -> Result<(), Failure> {
    let target = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let done = match text {
        Some(text) => {
            let permissions = std::fs::metadata(&target).map(|metadata| metadata.permissions());
            store::write(&target, text.as_bytes()).and_then(|()| match permissions {
                Ok(permissions) => std::fs::set_permissions(&target, permissions),
                Err(_) => Ok(()),
            })
        }
        None => std::fs::remove_file(&target),
    };
    done.map_err(|error| Failure::environment(format!("cannot write {}: {error}", target.display())))
}

/// A failure as a command is told of it.
fn told(Failure { exit, message, hint }: Failure) -> CommandReply {
    let fault = if exit == Exit::Usage { Fault::Request } else { Fault::Environment };
    let hint = hint.or_else(|| (fault == Fault::Environment).then(|| DAEMON_HINT.to_owned()));
    CommandReply::Failed { message, hint, fault }
}
