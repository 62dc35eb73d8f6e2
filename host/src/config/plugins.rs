//! `plugins:` in the configuration: what a list of plugins may not be, besides what its type already refuses.

use callgate_core::plugin::PluginEntry;
use callgate_journal::PLUGINS_MAX;
use callgate_plugin::Scope;

use crate::failure::Failure;
use crate::plugins::shipped;

/// Refuses a list that no chain can be made of.
pub(super) fn check(plugins: &[PluginEntry]) -> Result<(), Failure> {
    if plugins.len() > PLUGINS_MAX {
        return Err(Failure::usage(format!("there are {} plugins; there can be {PLUGINS_MAX}", plugins.len())));
    }
    for (place, plugin) in plugins.iter().enumerate() {
        if shipped::is_reserved(plugin.name.as_str()) {
            return Err(Failure::usage(format!(
                "plugins[{place}]: {} is the name of a plugin of Callgate's own",
                plugin.name
            ))
            .hint("give it another name"));
        }
        if plugins[..place].iter().any(|earlier| earlier.name == plugin.name) {
            return Err(Failure::usage(format!("plugins[{place}]: there is a plugin named {} already", plugin.name))
                .hint("each name can stand once; the same component may stand under several names"));
        }
        if let Err(error) = Scope::new(&plugin.agents, &plugin.servers) {
            return Err(Failure::usage(format!("plugins[{place}]: the scope of {}: {error}", plugin.name)));
        }
    }
    Ok(())
}
