//! What is told of each file.

use std::path::{Path, PathBuf};

use callgate_clients::Unreadable;
use callgate_clients::backup::{BackupError, record_of};
use callgate_clients::client::{Client, Place};
use callgate_clients::file::FileError;
use callgate_clients::plan::{Plan, PlanError, Planned, Status};
use callgate_core::escape::visible;
use serde::Serialize;

use crate::cli::init::Init;
use crate::failure::{Exit, Failure};
use crate::output;

/// What became of a file.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum State {
    /// There is none.
    Absent,
    /// Nothing is to be changed.
    Unchanged,
    /// It would be changed.
    WouldChange,
    /// It was changed.
    Written,
    /// It was left as it is, for a reason that is told.
    Refused,
}

/// Why a file is left as it is.
#[derive(Serialize)]
pub(super) struct Problem {
    pub(super) message: String,
    pub(super) hint: String,
}

/// A file, and all that is told of it.
#[derive(Serialize)]
pub(super) struct FileReport {
    client: &'static str,
    path: PathBuf,
    pub(super) state: State,
    problem: Option<Problem>,
    pub(super) backup: Option<PathBuf>,
    entries: Vec<EntryReport>,
    diff: String,
    #[serde(skip)]
    exit: Exit,
}

#[derive(Serialize)]
struct EntryReport {
    name: String,
    project: Option<String>,
    status: Status,
    why: Option<String>,
    secrets: Vec<String>,
    moved: Vec<String>,
    unmoved: Option<&'static str>,
}

impl FileReport {
    pub(super) fn new(place: &Place) -> Self {
        Self {
            client: place.client.name(),
            path: place.path.clone(),
            state: State::Absent,
            problem: None,
            backup: None,
            entries: Vec::new(),
            diff: String::new(),
            exit: Exit::Done,
        }
    }

    pub(super) fn planned(&mut self, plan: &Plan) {
        self.state = if plan.text().is_some() { State::WouldChange } else { State::Unchanged };
        self.entries = plan.entries.iter().map(EntryReport::of).collect();
        self.diff = plan.diff(&self.path.display().to_string());
    }

    pub(super) fn refused(mut self, exit: Exit, problem: Problem) -> Self {
        self.state = State::Refused;
        self.problem = Some(problem);
        self.exit = exit;
        self
    }
}

impl EntryReport {
    fn of(planned: &Planned) -> Self {
        let moved = planned.moved.as_ref().map(|moved| moved.variables.iter().map(ToString::to_string).collect());
        Self {
            name: planned.entry.name.clone(),
            project: planned.entry.project.clone(),
            status: planned.status,
            why: planned.why.clone(),
            secrets: planned.secrets.clone(),
            moved: moved.unwrap_or_default(),
            unmoved: planned.unmoved,
        }
    }

    /// The whole of it in one line.
    fn line(&self, written: bool) -> String {
        let would = |done: &str| if written { done.to_owned() } else { format!("would be {done}") };
        let status = match self.status {
            Status::Wrapped => would("wrapped"),
            Status::Already => "already wrapped".to_owned(),
            Status::Repointed => would("repointed"),
            Status::OtherPath => "wrapped by another callgate; --repoint lets it start this one".to_owned(),
            Status::StalePath => {
                "wrapped by a callgate that is not there, so it does not start; --repoint mends it".to_owned()
            }
            Status::Http => "http: left alone until Callgate has a gateway".to_owned(),
            Status::OAuth => "signed in to by the client (OAuth): left alone".to_owned(),
            Status::BuiltIn => "part of the client: left alone".to_owned(),
            Status::InvalidName => "left alone, since rules cannot name it; rename it".to_owned(),
            Status::NameTaken => "left alone, since its name stands for another command or other secrets".to_owned(),
            Status::Unrecognised => "not understood: left alone".to_owned(),
        };
        let why = self.why.as_ref().map(|why| format!(" ({why})"));
        let moved = format!("; secrets {}: {}", would("moved out"), self.moved.join(", "));
        let secrets = format!("; looks like a secret, in plain text: {}", self.secrets.join(", "));
        let unmoved = self.unmoved.map(|why| format!("; not moved: {why}"));
        let moved = (!self.moved.is_empty()).then_some(moved);
        let secrets = (!self.secrets.is_empty()).then_some(secrets);
        [Some(status), why, moved, secrets, unmoved].into_iter().flatten().collect()
    }
}

/// The exit code of all together: what the environment did not let be done before what the files themselves did not.
pub(super) fn exit(reports: &[FileReport], moved: Exit) -> Exit {
    let exits: Vec<Exit> = reports.iter().map(|report| report.exit).chain([moved]).collect();
    let is = |exit| exits.contains(&exit);
    match () {
        () if is(Exit::Environment) => Exit::Environment,
        () if is(Exit::Usage) => Exit::Usage,
        () => exits.into_iter().find(|exit| *exit != Exit::Done).unwrap_or(Exit::Done),
    }
}

#[derive(Serialize)]
struct Listed<'a> {
    callgate: &'a str,
    files: &'a [FileReport],
}

pub(super) fn show(reports: &[FileReport], init: &Init, callgate: &str) -> Result<(), Failure> {
    if init.json.json {
        return output::json(&Listed { callgate, files: reports });
    }
    if reports.is_empty() {
        output::line("no configuration file of a client was found")?;
        output::tell("hint: callgate init --client NAME --config PATH takes any");
        return Ok(());
    }
    reports.iter().try_for_each(print)?;
    if reports.iter().any(|report| report.state == State::WouldChange) {
        output::tell("nothing was written; callgate init --write does it, with the same options");
    }
    if reports.iter().any(|report| report.state == State::Written) {
        output::tell(
            "each client reads its file when it starts the next time; callgate init --undo BACKUP brings a file back",
        );
    }
    let secrets = reports.iter().flat_map(|report| &report.entries).any(|entry| !entry.secrets.is_empty());
    if secrets && !init.move_secrets {
        output::tell("hint: --move-secrets puts secrets into the credential store and takes them out of the file");
    }
    Ok(())
}

fn print(report: &FileReport) -> Result<(), Failure> {
    output::line(&visible(&format!("{}: {}", report.client, report.path.display())))?;
    if report.state == State::Absent {
        return output::line("  there is no such file");
    }
    let name = |entry: &EntryReport| match &entry.project {
        Some(project) => format!("{} in {project}", entry.name),
        None => entry.name.clone(),
    };
    let width = report.entries.iter().map(|entry| name(entry).chars().count()).max().unwrap_or(0);
    for entry in &report.entries {
        let line = entry.line(report.state == State::Written);
        output::line(&visible(&format!("  {:<width$}  {line}", name(entry))))?;
    }
    if let Some(Problem { message, hint }) = &report.problem {
        output::tell(&visible(&format!("error: {}: {message}", report.path.display())));
        output::tell(&format!("hint: {}", visible(hint)));
    } else if report.entries.is_empty() {
        output::line("  no servers")?;
    }
    if let Some(backup) = &report.backup {
        output::line(&visible(&format!("  backup: {}", backup.display())))?;
        if report.entries.iter().any(|entry| !entry.moved.is_empty()) {
            let (file, record) = (backup.display(), record_of(backup));
            output::tell(&visible(&format!(
                "notice: the backup holds the secrets as the file had them; when all works: rm {file} {}",
                record.display()
            )));
        }
    }
    report.diff.lines().try_for_each(|line| {
        // A tab is how files are indented.
        let parts: Vec<_> = line.split('\t').map(visible).collect();
        output::line(&parts.join("\t"))
    })
}

impl Problem {
    pub(super) fn of_plan(place: &Place, error: &PlanError) -> Self {
        let hint = match error {
            PlanError::Unreadable(Unreadable::RepeatedKey { .. }) => "take one of the two out".to_owned(),
            PlanError::Unreadable(_) => {
                let client = place.client;
                format!("mend it, as {client} has to read it too; callgate init --client NAME says whose file it is")
            }
            PlanError::NoServers(_) | PlanError::Form => {
                "edit it by hand: the command becomes callgate run --server NAME -- and what it was".to_owned()
            }
        };
        Self { message: error.to_string(), hint }
    }

    pub(super) fn of_file(place: &Place, error: &FileError) -> Self {
        Self { message: error.to_string(), hint: file_hint(&place.path, client_name(place.client), error) }
    }

    pub(super) fn of_backup(error: &BackupError) -> Self {
        Self { message: error.to_string(), hint: "nothing is written without a backup; make room for it".to_owned() }
    }
}

const fn client_name(client: Client) -> &'static str {
    client.name()
}

/// The next step where a file could not be read or replaced.
pub(super) fn file_hint(path: &Path, client: &str, error: &FileError) -> String {
    let path = path.display();
    match error {
        FileError::ReadOnly => format!("if it is meant to be changed: chmod u+w {path}"),
        FileError::Changed => format!("close {client}, and run this again"),
        FileError::Busy => "run this again when it has ended".to_owned(),
        FileError::OtherNames(_) => format!("make it a file of its own: cp {path} {path}.new && mv {path}.new {path}"),
        FileError::NotAFile | FileError::TooLarge => "choose another with --client and --config".to_owned(),
        FileError::Io { .. } => "see that you may read and write it and its folder".to_owned(),
    }
}
