//! The parts of the workspace's own files that reach a component. The whole files would make every stamp stale at every
//! change of something else.

use std::fs;
use std::io;
use std::path::Path;

use crate::lock;

/// Sections of Cargo.toml that count as a whole: what every crate takes its version from, and how plugins are built.
const MANIFEST_SECTIONS: [&str; 3] = ["[workspace.package]", "[profile.release]", "[profile.guest]"];

/// Which lines of which files count: the file, what of it, and the lines themselves.
pub(crate) fn excerpts(root: &Path, crates: &[String]) -> io::Result<Vec<(&'static str, String, String)>> {
    let manifest = fs::read_to_string(root.join("Cargo.toml"))?;
    let config = fs::read_to_string(root.join(".cargo/config.toml"))?;
    let mut excerpts: Vec<_> =
        MANIFEST_SECTIONS.iter().map(|name| ("Cargo.toml", (*name).to_owned(), section(&manifest, name))).collect();
    let dependencies = section(&manifest, "[workspace.dependencies]");
    for name in lock::direct(root, crates)? {
        let wanted = |line: &&str| line.split(['=', '.']).next().is_some_and(|key| key.trim() == name);
        let lines: Vec<&str> = dependencies.lines().filter(wanted).collect();
        excerpts.push(("Cargo.toml", format!("the dependency {name}"), lines.join("\n")));
    }
    let target = "[target.wasm32-unknown-unknown]";
    excerpts.push((".cargo/config.toml", target.to_owned(), section(&config, target)));
    Ok(excerpts)
}

/// A section's lines, up to the next section, without comments and empty ones.
fn section(toml: &str, header: &str) -> String {
    let lines = toml.lines().skip_while(|line| line.trim() != header).skip(1);
    let own = lines.take_while(|line| !line.starts_with('['));
    own.filter(|line| !line.trim().is_empty() && !line.starts_with('#')).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_ends_where_the_next_begins() {
        let toml = "[a]\nx = 1\n\n# why\ny = [\n    2,\n]\n[b]\nz = 3\n";
        assert_eq!(section(toml, "[a]"), "x = 1\ny = [\n    2,\n]");
        assert_eq!(section(toml, "[b]"), "z = 3");
        assert_eq!(section(toml, "[c]"), "");
    }
}
