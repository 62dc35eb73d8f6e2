//! What is installed: the program, its folders and files. All of it is read from the disk.

use callgate_core::policy::PolicyItem;
use callgate_journal::{Reader, Verification};

use super::Check;
use crate::BUILD;
use crate::command::policy;
use crate::config::Config;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::home::Home;
use crate::launch;

/// Whether a person who types `callgate` gets this program.
pub(super) fn program(environment: &Environment) -> Check {
    let check = "program";
    let this = match launch::this_program() {
        Ok(this) => this.canonicalize().unwrap_or(this),
        Err(failure) => return Check::failed(check, failure),
    };
    let said = format!("{} (build {BUILD})", this.display());
    let Ok(found) = which::which_in("callgate", environment.path.as_ref(), "/") else {
        let folder = this.parent().unwrap_or(&this).display().to_string();
        return Check::warn(check, format!("{said} is not in any folder of PATH"), format!("add {folder} to PATH"));
    };
    match std::fs::canonicalize(&found) {
        Ok(same) if same == this => Check::ok(check, said),
        _ => Check::warn(
            check,
            format!("this is {said}, and `callgate` in PATH is {}", found.display()),
            "remove one of them, or change their order in PATH",
        ),
    }
}

/// Whether the folders are private to this user.
pub(super) fn folders(home: &Home) -> Check {
    match home.check() {
        Ok(()) => Check::ok("folders", "private to this user"),
        Err(failure) => Check::failed("folders", failure),
    }
}

/// Whether the configuration can be read.
pub(super) fn config(home: &Home) -> Check {
    let file = home.config_file();
    match Config::load(&file) {
        Ok(_) if file.exists() => Check::ok("config", file.display().to_string()),
        Ok(_) => Check::ok("config", format!("as shipped; {} would change it", file.display())),
        Err(failure) => {
            let hint = failure.hint.unwrap_or_else(|| "correct it; docs/reference/config.md".to_owned());
            Check::fail("config", failure.message, hint)
        }
    }
}

/// Whether the journal is this install's.
pub(super) fn install(home: &Home) -> Check {
    if !home.database().exists() && !home.install_marker().exists() {
        return Check::ok("install", "nothing yet; the first start of the daemon makes it");
    }
    match Reader::open(&home.database(), Some(&home.install_marker())) {
        Ok(reader) => Check::ok("install", reader.install().to_string()),
        Err(error) => Check::fail("install", error.to_string(), error.hint()),
    }
}

/// Whether the journal holds.
pub(super) fn journal(home: &Home) -> Check {
    let check = "journal";
    if !home.database().exists() && !home.install_marker().exists() {
        return Check::ok(check, "none yet");
    }
    match callgate_journal::verify(&home.database(), Some(&home.install_marker()), None) {
        Verification::Sound(sound) => {
            let pending = match sound.pending_calls {
                0 => String::new(),
                calls => format!(", {calls} calls without an outcome yet"),
            };
            Check::ok(check, format!("{} entries, and the chain holds{pending}", sound.head.entries))
        }
        Verification::Broken { seq, breach } => Check::fail(
            check,
            format!("broken at entry {seq}: {breach}"),
            "keep a copy of it as it is, and put a backup in its place; see callgate verify",
        ),
        Verification::Unverifiable { missing, hint } => Check::fail(check, missing, hint),
    }
}

/// How many rules there are.
pub(super) fn rules(home: &Home) -> Check {
    match policy::in_force(home) {
        Ok(items) => Check::ok("rules", counted(&items)),
        Err(Failure { message, .. }) => Check::fail("rules", message, "callgate verify"),
    }
}

fn counted(items: &[PolicyItem]) -> String {
    let count = |of: fn(&PolicyItem) -> bool| items.iter().filter(|item| of(item)).count();
    format!(
        "{} rules, {} budgets, {} grants",
        count(|item| matches!(item, PolicyItem::Rule(_))),
        count(|item| matches!(item, PolicyItem::Budget(_))),
        count(|item| matches!(item, PolicyItem::Grant(_))),
    )
}
