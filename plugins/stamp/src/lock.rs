//! Which versions of other people's crates a component is made of.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

/// The packages of the lock file that the crates need to be built, as `name version checksum`, ordered. What only tests or
/// native builds need is not among them; what only some other target needs may be.
pub(crate) fn packages(root: &Path, crates: &[String]) -> io::Result<Vec<String>> {
    let lock = Lock::read(&fs::read_to_string(root.join("Cargo.lock"))?);
    let mut open: Vec<String> = direct(root, crates)?.into_iter().collect();
    let mut found = BTreeSet::new();
    while let Some(reference) = open.pop() {
        for package in lock.named(&reference).filter(|package| package.checksum.is_some()) {
            if found.insert(package.told()) {
                open.extend(package.dependencies.iter().cloned());
            }
        }
    }
    Ok(found.into_iter().collect())
}

/// The names under `[dependencies]` in the crates' manifests.
pub(crate) fn direct(root: &Path, crates: &[String]) -> io::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for path in crates {
        let manifest = fs::read_to_string(root.join(path).join("Cargo.toml"))?;
        let lines = manifest.lines().skip_while(|line| *line != "[dependencies]").skip(1);
        let keys = lines.take_while(|line| !line.starts_with('[')).filter_map(|line| line.split(['=', '.']).next());
        names.extend(keys.map(|key| key.trim().to_owned()).filter(|key| !key.is_empty() && !key.starts_with('#')));
    }
    Ok(names)
}

#[derive(Default)]
struct Package {
    name: String,
    version: String,
    /// `None` for a crate of the workspace.
    checksum: Option<String>,
    /// `name`, or `name version` where the lock file holds several versions.
    dependencies: Vec<String>,
}

impl Package {
    fn told(&self) -> String {
        format!("{} {} {}", self.name, self.version, self.checksum.as_deref().unwrap_or_default())
    }
}

struct Lock(BTreeMap<String, Vec<Package>>);

impl Lock {
    fn read(text: &str) -> Self {
        let mut packages: BTreeMap<String, Vec<Package>> = BTreeMap::new();
        for block in text.split("[[package]]").skip(1) {
            let mut package = Package::default();
            for line in block.lines() {
                match line.split_once(" = ") {
                    Some(("name", value)) => value.trim_matches('"').clone_into(&mut package.name),
                    Some(("version", value)) => value.trim_matches('"').clone_into(&mut package.version),
                    Some(("checksum", value)) => package.checksum = Some(value.trim_matches('"').to_owned()),
                    _ => {}
                }
                if let Some(dependency) = line.strip_prefix(" \"").and_then(|rest| rest.strip_suffix("\",")) {
                    package.dependencies.push(dependency.to_owned());
                }
            }
            packages.entry(package.name.clone()).or_default().push(package);
        }
        Self(packages)
    }

    fn named(&self, reference: &str) -> impl Iterator<Item = &Package> {
        let (name, version) = match reference.split_once(' ') {
            Some((name, version)) => (name, Some(version.to_owned())),
            None => (reference, None),
        };
        let fits = move |package: &&Package| version.as_ref().is_none_or(|version| package.version == *version);
        self.0.get(name).into_iter().flatten().filter(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_file_is_read() {
        let lock = Lock::read(
            "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"c0\"\ndependencies = [\n \"b 2.0.0\",\n \"c\",\n]\n\n\
             [[package]]\nname = \"b\"\nversion = \"1.0.0\"\n\n[[package]]\nname = \"b\"\nversion = \"2.0.0\"\nchecksum = \"c1\"\n",
        );
        let told = |reference| lock.named(reference).map(Package::told).collect::<Vec<_>>();
        assert_eq!(told("a"), ["a 1.0.0 c0"]);
        assert_eq!(told("b"), ["b 1.0.0 ", "b 2.0.0 c1"]);
        assert_eq!(told("b 2.0.0"), ["b 2.0.0 c1"]);
        assert_eq!(lock.0["a"][0].dependencies, ["b 2.0.0", "c"]);
    }
}
