//! `callgate plugin install`: everything is found out and shown before anything is changed; then the component is kept by its
//! digest, and the daemon takes the new configuration, the journal's entry and the chain into force as one.

use std::io::{self, IsTerminal as _, Write as _};

use callgate_core::escape::visible;
use callgate_core::identity::PluginName;
use callgate_core::plugin::{InstanceLife, PluginEntry, everybody};
use callgate_plugin::{Configured, Engine, Life, Plugin};

use super::load;
use super::remove::{Change, submit};
use crate::cli::plugin::Install;
use crate::config::{Config, edit};
use crate::failure::{Exit, Failure, Outcome};
use crate::home::Home;
use crate::output;
use crate::plugins::asks::{Asks, terms};
use crate::plugins::{shipped, store};

pub(super) fn install(install: &Install, home: &Home) -> Outcome {
    let component = load::component(&install.file)?;
    let engine = load::engine(home)?;
    let plugin = load::plugin(&engine, &install.file.display().to_string(), &component)?;
    let name = name(install, &plugin)?;
    let text = Config::read(&home.config_file())?;
    let config = Config::of(&home.config_file(), text.as_deref())?;
    let before = config.plugins.iter().find(|there| there.name == name);
    let entry = entry(install, &plugin, name, before)?;
    let configured = configured(&plugin, &entry)?;

    show(home, &engine, &Asks::of(&plugin), &entry, before)?;
    for warning in configured.warnings() {
        output::tell(&format!("warning: {}: {}", warning.path, visible(&warning.message)));
    }
    let new_text = edit::with_plugin(text.as_deref(), &entry)?;
    if !install.yes && !agreed(before.is_some())? {
        output::tell("nothing was changed");
        return Ok(Exit::No);
    }

    let is_new = store::keep(home, &component)?;
    let change = Change { config: new_text, before: config.digest, renewed: Some(entry.name.clone()) };
    let changed = match submit(home, change) {
        Ok(changed) => changed,
        Err(refused) => {
            // What the old configuration does not name is of no use to anybody.
            if is_new && refused.nothing_changed {
                store::discard(home, entry.digest).ok();
            }
            return Err(refused.failure);
        }
    };
    for warning in &changed.warnings {
        output::tell(&format!("warning: {}", visible(warning)));
    }
    let word = if before.is_some() { "changed" } else { "installed" };
    output::line(&format!("{word}: {entry} ({}), in force from the next call on", changed.entries_text()))?;
    Ok(Exit::Done)
}

/// What it is to be called.
fn name(install: &Install, plugin: &Plugin) -> Result<PluginName, Failure> {
    let given = if let Some(name) = &install.name {
        name.clone()
    } else {
        let id = plugin.manifest().map(|manifest| manifest.id.clone());
        let stem = || install.file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        PluginName::try_from(id.unwrap_or_else(stem))
            .map_err(|error| Failure::usage(error.to_string()).hint("say what to call it: --name NAME"))?
    };
    if shipped::is_reserved(given.as_str()) {
        return Err(Failure::usage(format!("{given} is the name of a plugin of Callgate's own"))
            .hint("call it something else: --name NAME"));
    }
    Ok(given)
}

/// What the configuration is to say of it. What one of its name was trusted with does not pass to another component.
fn entry(
    install: &Install,
    plugin: &Plugin,
    name: PluginName,
    before: Option<&PluginEntry>,
) -> Result<PluginEntry, Failure> {
    let digest = plugin.digest();
    let scope = |given: &Vec<String>, before: Option<&Vec<String>>| match (given.is_empty(), before) {
        (false, _) => given.clone(),
        (true, Some(before)) => before.clone(),
        (true, None) => everybody(),
    };
    let settings = match (&install.settings, before) {
        (Some(file), _) => load::settings(file)?,
        (None, Some(before)) => before.settings.clone(),
        (None, None) => serde_json::Map::new(),
    };
    let same = before.filter(|before| before.digest == digest);
    Ok(PluginEntry {
        name,
        digest,
        file: None,
        settings,
        agents: scope(&install.agents, before.map(|before| &before.agents)),
        servers: scope(&install.servers, before.map(|before| &before.servers)),
        may_grant: install.may_grant,
        instance: same.map_or(InstanceLife::Fresh, |same| same.instance),
    })
}

fn configured(plugin: &Plugin, entry: &PluginEntry) -> Result<Configured, Failure> {
    let name = entry.name.as_str();
    plugin
        .configure(name, &entry.settings_text(), Life::Fresh { ready: 1 })
        .map_err(|error| load::not_configured(name, &error))
}

/// Shows what is asked for; of a plugin that is there, also what it was.
fn show(
    home: &Home,
    engine: &Engine,
    asks: &Asks,
    entry: &PluginEntry,
    before: Option<&PluginEntry>,
) -> Result<(), Failure> {
    let new = lines(asks.lines(), entry);
    let Some(before) = before else {
        output::tell(&format!("plugin {}:", entry.name));
        for (word, text) in &new {
            output::tell(&format!("  {word:<9} {text}"));
        }
        return Ok(());
    };
    let old = match store::read(home, before) {
        Ok(component) => Asks::of(&load::plugin(engine, before.name.as_str(), &component)?).lines(),
        Err(why) => vec![("digest", format!("{} ({why})", before.digest))],
    };
    let old = lines(old, before);
    output::tell(&format!("plugin {} is there already:", entry.name));
    for (word, text) in &new {
        let was = old.iter().find(|(old, _)| old == word).map_or("(not known)", |(_, was)| was.as_str());
        if was == text {
            output::tell(&format!("  {word:<9} {text}"));
        } else {
            output::tell(&format!("- {word:<9} {was}\n+ {word:<9} {text}"));
        }
    }
    Ok(())
}

fn lines(mut asks: Vec<(&'static str, String)>, entry: &PluginEntry) -> Vec<(&'static str, String)> {
    let may_grant = if entry.may_grant { "yes" } else { "no: it can refuse and ask, never allow" };
    asks.extend(terms(entry, may_grant));
    asks
}

/// Asks a person, where there is one.
fn agreed(is_there: bool) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure::usage("nobody can be asked whether to install it: there is no terminal")
            .hint("look at what it asks for, then say --yes"));
    }
    let question = if is_there { "Put this in its place?" } else { "Put it into the chain?" };
    let failed = |error: io::Error| Failure::environment(format!("cannot ask: {error}"));
    let mut terminal = io::stderr().lock();
    write!(terminal, "{question} [y/N] ").and_then(|()| terminal.flush()).map_err(failed)?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).map_err(failed)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
