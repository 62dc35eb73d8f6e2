//! The default plugins' components, built from plugins/ and committed with a stamp of the sources they came from.

/// `rules`
pub(crate) const RULES: &[u8] = include_bytes!("../../../plugins/dist/rules.wasm");

/// `arguments`
pub(crate) const ARGUMENTS: &[u8] = include_bytes!("../../../plugins/dist/arguments.wasm");
/// `budget`
pub(crate) const BUDGET: &[u8] = include_bytes!("../../../plugins/dist/budget.wasm");

/// The plugins that are there, by name.
const SHIPPED: [(&str, &[u8]); 3] = [("rules", RULES), ("budget", BUDGET), ("arguments", ARGUMENTS)];

/// Names that no other plugin may have: those of the shipped ones, and of one that is still to come.
const RESERVED: [&str; 4] = ["arguments", "budget", "policies", "rules"];

/// The component of a shipped plugin.
pub(crate) fn component(name: &str) -> Option<&'static [u8]> {
    SHIPPED.iter().find(|(shipped, _)| *shipped == name).map(|(_, component)| *component)
}

/// The names of the shipped plugins.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}

/// Whether a name is not the operator's to give.
pub(crate) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}
