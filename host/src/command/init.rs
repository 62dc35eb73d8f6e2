//! `callgate init`: Callgate put in front of the servers in the clients' configuration files. The dry run and the writing take the
//! same way up to the last step.

mod moving;
mod places;
mod report;

use std::path::{Path, PathBuf};

use callgate_clients::backup::{BackupError, Backups, Restored};
use callgate_clients::client::{Client, Place};
use callgate_clients::file::{FileError, Snapshot};
use callgate_clients::plan::{EntryName, Plan, PlanError, Status, Wanted};
use callgate_core::escape::visible;
use rustix::time::{ClockId, clock_gettime};

use self::moving::Moved;
use self::report::{FileReport, Problem, State};
use crate::cli::init::Init;
use crate::environment::Environment;
use crate::failure::{Exit, Failure, Outcome};
use crate::home::Home;
use crate::output;

pub(super) fn init(init: &Init, environment: &Environment) -> Outcome {
    let home = Home::find(environment)?;
    if let Some(backup) = &init.undo {
        return undo(&home, backup);
    }
    let job = Job { init, callgate: places::callgate(environment)? };
    let found = places::find(init, environment)?;
    if init.print {
        return job.print(&found);
    }
    let moved = if init.move_secrets { job.moved(&home, &found) } else { Moved::default() };
    let reports: Vec<FileReport> = found.iter().map(|file| job.file(&home, file, &moved)).collect();
    let exit = report::exit(&reports, moved.exit());
    report::show(&reports, init, &job.callgate)?;
    Ok(exit)
}

/// A place, and what is there.
pub(super) struct Found {
    place: Place,
    file: Result<Option<Snapshot>, FileError>,
}

impl Found {
    /// The file, or why it cannot be read; `None` if there is none.
    fn there(&self) -> Option<(&Place, Result<&Snapshot, &FileError>)> {
        let file = self.file.as_ref().map(Option::as_ref).transpose()?;
        Some((&self.place, file))
    }
}

/// A file that is there, and its servers, or why they cannot be told.
pub(super) struct Looked {
    pub(super) client: Client,
    pub(super) path: PathBuf,
    pub(super) entries: Result<Vec<Status>, String>,
}

/// What an `init` without options would find.
pub(super) fn look(environment: &Environment) -> Result<Vec<Looked>, Failure> {
    let init = Init::default();
    let job = Job { init: &init, callgate: places::callgate(environment)? };
    let looked = |Found { place, file }: Found| {
        let entries = match file {
            Ok(Some(file)) => job.plan(&place, &file, &|_| false, &|_| false).map_err(|error| error.to_string()),
            Ok(None) => return None,
            Err(error) => Err(error.to_string()),
        };
        let entries = entries.map(|plan| plan.entries.iter().map(|planned| planned.status).collect());
        Some(Looked { client: place.client, path: place.path, entries })
    };
    Ok(places::find(&init, environment)?.into_iter().filter_map(looked).collect())
}

struct Job<'a> {
    init: &'a Init,
    callgate: String,
}

impl Job<'_> {
    fn plan(
        &self,
        place: &Place,
        file: &Snapshot,
        moving: &dyn Fn(&EntryName) -> bool,
        taken: &dyn Fn(&EntryName) -> bool,
    ) -> Result<Plan, PlanError> {
        let wanted = Wanted {
            callgate: &self.callgate,
            repoint: self.init.repoint,
            exists: &|path: &Path| path.exists(),
            moving,
            taken,
        };
        Plan::of(place, file.bytes(), &wanted)
    }

    /// The one file whole, as it would be.
    fn print(&self, found: &[Found]) -> Outcome {
        let there: Vec<_> = found.iter().filter_map(Found::there).collect();
        let [(place, file)] = there.as_slice() else {
            let message = match found {
                [Found { place, .. }] => format!("there is no file {}", place.path.display()),
                _ => format!("--print shows one file, and there are {}", there.len()),
            };
            return Err(Failure::usage(message).hint("choose it with --client and --config"));
        };
        let told = |exit, Problem { message, hint }| {
            let message = format!("{}: {message}", place.path.display());
            Failure { exit, message, hint: Some(hint) }
        };
        let file = file.map_err(|error| told(Exit::Environment, Problem::of_file(place, error)))?;
        let plan = self.plan(place, file, &|_| self.init.move_secrets, &|_| false);
        let plan = plan.map_err(|error| told(Exit::Usage, Problem::of_plan(place, &error)))?;
        output::raw(plan.text().map_or(file.bytes(), str::as_bytes))?;
        Ok(Exit::Done)
    }

    /// Registers what the entries' secrets are moved to; without --write, only says what would be.
    fn moved(&self, home: &Home, found: &[Found]) -> Moved {
        let mut moved = Moved::default();
        for Found { place, file } in found {
            let Ok(Some(file)) = file else { continue };
            // What cannot be written keeps its secrets, and is told of later.
            let (Ok(plan), Ok(())) = (self.plan(place, file, &|_| true, &|_| false), file.check()) else { continue };
            for planned in plan.entries {
                let Some(server) = planned.moved else { continue };
                if self.init.write {
                    moved.register(home, &place.path, planned.entry, server);
                } else {
                    moved.foresee(&place.path, planned.entry, server);
                }
            }
        }
        moved
    }

    fn file(&self, home: &Home, Found { place, file }: &Found, moved: &Moved) -> FileReport {
        let mut report = FileReport::new(place);
        let file = match file {
            Ok(Some(file)) => file,
            Ok(None) => return report,
            Err(error) => return report.refused(Exit::Environment, Problem::of_file(place, error)),
        };
        let (moving, taken) =
            (|entry: &EntryName| moved.holds(&place.path, entry), |entry: &EntryName| moved.leaves(&place.path, entry));
        let plan = match self.plan(place, file, &moving, &taken) {
            Ok(plan) => plan,
            Err(error) => return report.refused(Exit::Usage, Problem::of_plan(place, &error)),
        };
        report.planned(&plan);
        let Some(text) = plan.text() else { return report };
        if let Err(error) = file.check() {
            return report.refused(Exit::Environment, Problem::of_file(place, &error));
        }
        if !self.init.write {
            return report;
        }
        match write(home, place, file, text.as_bytes()) {
            Ok(backup) => {
                report.backup = Some(backup);
                report.state = State::Written;
                report
            }
            Err(problem) => report.refused(Exit::Environment, problem),
        }
    }
}

fn write(home: &Home, place: &Place, file: &Snapshot, text: &[u8]) -> Result<PathBuf, Problem> {
    home.prepare_backups()
        .map_err(|failure| Problem { message: failure.message, hint: failure.hint.unwrap_or_default() })?;
    let backups = Backups::new(home.backups());
    let name = format!("{}-{}", stamp(), place.client);
    let backup = backups.keep(&name, file, text).map_err(|error| Problem::of_backup(&error))?;
    if let Err(error) = file.replace(text) {
        // Of a file that was not edited; one that stays behind does no harm.
        drop(Backups::forget(&backup));
        return Err(Problem::of_file(place, &error));
    }
    Ok(backup)
}

/// The time, as a name that sorts.
fn stamp() -> String {
    let now = clock_gettime(ClockId::Realtime);
    let nanoseconds = i32::try_from(now.tv_nsec).unwrap_or(0);
    let time = jiff::Timestamp::new(now.tv_sec, nanoseconds).unwrap_or_default();
    time.strftime("%Y%m%dT%H%M%S.%9fZ").to_string()
}

fn undo(home: &Home, backup: &Path) -> Outcome {
    let backups = Backups::new(home.backups());
    let told = match backups.restore(backup) {
        Ok(Restored::Done(path)) => format!("restored: {}", path.display()),
        Ok(Restored::Already(path)) => format!("already as it was: {}", path.display()),
        Err(error) => return Err(not_restored(home, backup, error)),
    };
    output::line(&visible(&told))?;
    Ok(Exit::Done)
}

fn not_restored(home: &Home, backup: &Path, error: BackupError) -> Failure {
    let message = error.to_string();
    match error {
        BackupError::Absent(_) => {
            Failure::usage(message).hint(format!("the backups are in {}", home.backups().display()))
        }
        BackupError::Damaged(_) => Failure::usage(message).hint("the file that it is of is left as it is"),
        BackupError::ChangedSince(path) | BackupError::Gone(path) => Failure::usage(message).hint(format!(
            "to have the old file all the same: cp {} {}",
            backup.display(),
            path.display()
        )),
        BackupError::File { path, source } => {
            Failure::environment(message).hint(report::file_hint(&path, "the client", &source))
        }
        BackupError::NotWritten { .. } => Failure::environment(message),
    }
}
